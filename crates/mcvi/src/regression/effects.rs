//! Conditional effects: the expected response over the values of a column, where all others are at their median or their most
//! frequent category, of a group that was not fitted.

use super::Regression;
use super::column::Cells;
use super::formula::Terms;
use super::frame::Frame;
use super::predict::PredictionOptions;
use crate::conditional_effect::{ConditionalEffect, Curve, Places};
use crate::error::Result;
use crate::hardware::Hardware;

/// Columns that are looked at, and values of each.
const COLUMNS: usize = 6;
const PLACES: usize = 25;
/// Of a column with at most so many different values, they are all looked at.
const FEW: usize = 12;
/// What stands for a group that was not fitted.
const NEW: &str = "a new group";

/// A column's usual value, and others.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Usual {
    column: String,
    /// Whether its effect is looked at.
    is_fixed: bool,
    value: Value,
    places: Places,
}

#[derive(Clone, Debug, PartialEq)]
enum Value {
    Number(f64),
    Text(String),
}

impl Usual {
    /// Of all columns on the right side.
    pub fn of(frame: &Frame, terms: &Terms) -> Result<Vec<Usual>> {
        let mut fixed = vec![];
        terms.terms.iter().flatten().for_each(|node| node.columns(&mut fixed));
        let mut all = vec![];
        let mut names = terms.columns();
        names.sort_by_key(|name| fixed.iter().position(|f| f == name).unwrap_or(usize::MAX));
        names.dedup();
        let mut others = fixed.clone();
        terms.offsets.iter().for_each(|node| node.columns(&mut others));
        terms.groups.iter().flat_map(|g| g.terms.iter().flatten()).for_each(|node| node.columns(&mut others));
        for column in names {
            let is_group = !others.contains(&column);
            let (value, places) = match &frame.find(&column)?.cells {
                _ if is_group => (Value::Text(NEW.to_owned()), Places::Levels(vec![])),
                Cells::Numbers(values) => {
                    let mut sorted: Vec<f64> = values.iter().copied().filter(|x| x.is_finite()).collect();
                    sorted.sort_by(f64::total_cmp);
                    let middle = sorted.get(sorted.len() / 2).copied().unwrap_or(0.0);
                    let (low, high) = (sorted.first().copied().unwrap_or(0.0), sorted.last().copied().unwrap_or(0.0));
                    sorted.dedup();
                    let grid = |i: usize| low + (high - low) * i as f64 / (PLACES - 1) as f64;
                    let places = if sorted.len() <= FEW { sorted } else { (0..PLACES).map(grid).collect() };
                    (Value::Number(middle), Places::Numbers(places))
                }
                Cells::Texts { .. } => {
                    let coded = frame.find(&column)?.coded();
                    let mut counts = vec![0; coded.different.len()];
                    coded.codes.iter().for_each(|code| counts[*code as usize] += 1);
                    let most = (0..counts.len()).rev().max_by_key(|i| counts[*i]).unwrap_or(0);
                    let usual = coded.different.get(most).cloned().unwrap_or_default();
                    let mut levels = coded.different;
                    levels.sort();
                    levels.truncate(FEW);
                    (Value::Text(usual), Places::Levels(levels))
                }
            };
            all.push(Usual { is_fixed: fixed.contains(&column), column, value, places });
        }
        Ok(all)
    }
}

impl Regression {
    /// The expected response over the values of each of the first columns, by draws of the free coordinates.
    pub(super) fn effects(&self, z: &[Vec<f64>], hardware: Hardware) -> Result<Vec<ConditionalEffect>> {
        let usual = &self.fit.usual;
        let mut effects = vec![];
        for own in usual.iter().filter(|u| u.is_fixed).take(COLUMNS) {
            let count = match &own.places {
                Places::Numbers(places) => places.len(),
                Places::Levels(levels) => levels.len(),
            };
            let mut frame = Frame::new();
            for u in usual {
                frame = match (&u.value, &own.places) {
                    (_, Places::Numbers(places)) if u.column == own.column => {
                        frame.numbers(&u.column, places.clone())?
                    }
                    (_, Places::Levels(levels)) if u.column == own.column => {
                        frame.texts(&u.column, levels.iter().map(Some))?
                    }
                    (Value::Number(x), _) => frame.numbers(&u.column, vec![*x; count])?,
                    (Value::Text(text), _) => frame.texts(&u.column, vec![Some(text); count])?,
                };
            }
            // A function of a column may not be defined at every place, nor may a level between others be known.
            let Ok(predicted) = self.predict(&frame, z, &PredictionOptions::default(), hardware) else { continue };
            let width = predicted.mean.size() / count;
            let curve = |c: usize| {
                let at = |i: usize| {
                    let mut draws: Vec<f64> =
                        predicted.mean.values.chunks(count * width).map(|draw| draw[i * width + c]).collect();
                    draws.sort_by(f64::total_cmp);
                    [0.05, 0.5, 0.95].map(|share| draws[(share * (draws.len() - 1) as f64).round() as usize])
                };
                let label =
                    if width > 1 { predicted.levels.get(c).cloned().unwrap_or_default() } else { String::new() };
                Curve { label, quantiles: (0..count).map(at).collect() }
            };
            let curves = (0..width).map(curve).collect();
            effects.push(ConditionalEffect::new(own.column.clone(), own.places.clone(), curves));
        }
        Ok(effects)
    }
}
