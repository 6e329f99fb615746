//! Everything that is learned, by name: the values that a fit changes, saves and loads.

use crate::error::{Error, Result};
use mcvi_expr::{Array, Data};

/// What a parameter belongs to; each group may have its own learning rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Group {
    /// Of q(z₀|x).
    Initial,
    /// Of the transitions: step sizes, masses, momentum distributions, temperatures.
    Transition,
    /// Of networks within the transitions, which learn at the rate of other networks.
    Network,
    /// Of the inverse models r.
    Inverse,
    /// Of the target itself, such as a decoder's weights.
    Target,
}

/// An array that is learned, or held fixed.
#[derive(Clone, Debug, PartialEq)]
pub struct Param {
    /// Its value.
    pub value: Array,
    /// The size of a change that matters, per element: an optimiser's step is relative to it.
    pub scale: Vec<f64>,
    /// What it belongs to.
    pub group: Group,
    /// Whether a fit may change it.
    pub learned: bool,
}

/// Parameters by name, in the order in which the chain asks for them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Params {
    entries: Vec<(String, Param)>,
}

impl Params {
    /// The parameter of this name.
    pub fn get(&self, name: &str) -> Option<&Param> {
        self.entries.iter().find(|(n, _)| n == name).map(|(_, p)| p)
    }

    /// The values of the parameter of this name.
    pub fn values(&self, name: &str) -> Result<Vec<f64>> {
        self.get(name).map(|p| p.value.to_f64()).ok_or_else(|| self.unknown(name))
    }

    /// The value of a scalar parameter.
    pub fn number(&self, name: &str) -> Result<f64> {
        Ok(self.values(name)?[0])
    }

    /// Add a parameter, or replace the one of the same name.
    pub fn insert(&mut self, name: &str, param: Param) {
        match self.entries.iter_mut().find(|(n, _)| n == name) {
            Some((_, old)) => *old = param,
            None => self.entries.push((name.to_owned(), param)),
        }
    }

    /// Set a parameter to another value of the same shape and element type.
    pub fn set(&mut self, name: &str, value: Array) -> Result<()> {
        let Some((_, param)) = self.entries.iter_mut().find(|(n, _)| n == name) else {
            return Err(self.unknown(name));
        };
        if param.value.shape() != value.shape() || param.value.dtype() != value.dtype() {
            let (is, got) = (&param.value, &value);
            let why = format!(
                "`{name}` is {} {}, the value given is {} {}",
                is.dtype(),
                is.shape(),
                got.dtype(),
                got.shape()
            );
            return Err(Error::Params { why });
        }
        param.value = value;
        Ok(())
    }

    /// Set the scales of a parameter.
    pub(crate) fn set_scale(&mut self, name: &str, scale: &[f64]) -> Result<()> {
        let Some((_, param)) = self.entries.iter_mut().find(|(n, _)| n == name) else {
            return Err(self.unknown(name));
        };
        if param.scale.len() != scale.len() {
            let why = format!("`{name}` has {} scales, {} are given", param.scale.len(), scale.len());
            return Err(Error::Params { why });
        }
        param.scale = scale.to_vec();
        Ok(())
    }

    /// Move every learned parameter this far towards its value in `other`: an update of an average.
    pub fn approach(&mut self, other: &Params, share: f64) -> Result<()> {
        for (name, param) in self.entries.iter_mut().filter(|(_, p)| p.learned) {
            let Some(towards) = other.get(name) else { return Err(other.unknown(name)) };
            let shape = param.value.shape().clone();
            param.value = match (param.value.data(), towards.value.data()) {
                (Data::F32(from), Data::F32(to)) => {
                    Array::new(shape, from.iter().zip(to).map(|(a, b)| a + share as f32 * (b - a)).collect::<Vec<_>>())?
                }
                _ => {
                    let (from, to) = (param.value.to_f64(), towards.value.to_f64());
                    let moved: Vec<f64> = from.iter().zip(to).map(|(a, b)| a + share * (b - a)).collect();
                    Array::new(shape, moved)?.cast(param.value.dtype())
                }
            };
        }
        Ok(())
    }

    /// Freeze every parameter.
    pub fn freeze(&mut self) {
        self.entries.iter_mut().for_each(|(_, p)| p.learned = false);
    }

    /// Learn or freeze the parameters whose names start with `prefix`.
    pub fn set_learned(&mut self, prefix: &str, learned: bool) {
        self.entries.iter_mut().filter(|(n, _)| n.starts_with(prefix)).for_each(|(_, p)| p.learned = learned);
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Param)> {
        self.entries.iter().map(|(n, p)| (n.as_str(), p))
    }

    /// The number of learned values.
    pub fn learned(&self) -> usize {
        self.iter().filter(|(_, p)| p.learned).map(|(_, p)| p.value.shape().size()).sum()
    }

    fn unknown(&self, name: &str) -> Error {
        let names: Vec<&str> = self.iter().map(|(n, _)| n).collect();
        Error::Params { why: format!("there is no `{name}`; there are: {}", names.join(", ")) }
    }
}
