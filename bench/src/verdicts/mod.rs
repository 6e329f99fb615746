//! The campaign of verdicts: random targets with exact answers, what inference says of each, and how often it is wrong.

mod affine;
mod families;
mod outcome;
mod problem;
mod random;
mod rules;
mod shape;
mod special;
mod table;
#[cfg(test)]
mod tests;

pub use families::{FAMILIES, Family};
pub use outcome::{ModeOutcome, Outcome, Truth, run};
pub use problem::Problem;
pub use random::Random;
pub use rules::{finds_modes, is_wrong, reaches_two_modes};
pub use table::markdown;
