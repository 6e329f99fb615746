//! Densities without data, whose log Z is known: many wells, 40 Gaussians, and two of the built-in posteriors.

use super::table::table;
use crate::error::{Error, Result};
use crate::model::Model;
use crate::posteriors;

pub(super) fn many_well() -> Result<Model> {
    Model::new(|m| {
        let (x, v) = (m.flat("x", 16), m.flat("v", 16));
        m.add(x * 0.5 + x.square() * 6.0 - x.square().square() - v.square() * 0.5);
    })
}

pub(super) fn forty_gaussians(text: &str) -> Result<Model> {
    let means = table(text)?;
    if means[0].len() != 2 {
        return Err(Error::Table { why: format!("{} columns where means have 2", means[0].len()) });
    }
    let (count, means) = (means.len() as f64, means.concat());
    Model::new(move |m| {
        let z = m.flat("z", 2);
        let square = (z.expand(1) - m.matrix(2, &means)).square().sum(&[2]);
        let log_density = (square * -0.5).logsumexp(&[1]) - count.ln() - std::f64::consts::TAU.ln();
        m.add(log_density.expand(1));
    })
}

pub(super) fn built_in(name: &str) -> Result<Model> {
    let built_in = posteriors::ALL.iter().find(|built_in| built_in.name == name);
    let missing = || Error::Target { why: format!("there is no built-in posterior `{name}`") };
    Ok(built_in.ok_or_else(missing)?.model()?.model)
}
