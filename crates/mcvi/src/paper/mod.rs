//! The paper's two worked examples: targets, chains and exact answers.

pub mod gaussian;
pub mod marginal;
pub mod stomach_cancer;
