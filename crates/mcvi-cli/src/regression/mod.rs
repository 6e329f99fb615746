//! Regressions over a user's file.
use crate::mistake::Mistake;
use mcvi::model::Model;
use std::path::Path;
/// Which.
pub enum Family {
    /// 0/1.
    Logistic,
    /// Numbers.
    Linear,
    /// Counts.
    Poisson,
}
/// A model of a file.
pub struct Regression {
    /// The model.
    pub model: Model,
    /// What it is.
    pub about: String,
    /// Remarks.
    pub notes: Vec<String>,
}
/// Read it.
pub fn load(_: Family, _: &Path, _: &str) -> Result<Regression, Mistake> {
    Err(Mistake("not yet".into()))
}
