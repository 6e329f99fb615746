//! The rules of counting, all of them here. They compare what was reported with the exact answers, and use nothing that
//! inference thinks of itself but the word of its verdict.

use super::outcome::Outcome;

/// Nats by which the reported log p(x) may be off,
const EVIDENCE: f64 = 0.1;
/// or standard errors.
const STANDARD_ERRORS: f64 = 5.0;
/// Standard deviations by which a reweighted mean may be off.
const MEAN: f64 = 0.1;
/// How far the mass of a mode may be off, of two modes.
const MASS: f64 = 0.03;
/// Modes that are to be found: their least mass,
const LEAST_MASS: f64 = 0.05;
/// the largest distance to the nearest other, in standard deviations of the wider,
const FURTHEST: f64 = 20.0;
/// the largest ratio of widths in their target,
const WIDEST: f64 = 5.0;
/// and the most dimensions.
const DIMENSIONS: usize = 10;
/// A mode is found where the weighted draws have this share of its mass,
const SHARE: f64 = 0.5;
/// or where a listed mode is this close, in its standard deviations.
const CLOSE: f64 = 3.0;

/// How far the reported log p(x) is off.
pub fn evidence_error(outcome: &Outcome) -> Option<f64> {
    Some(outcome.log_evidence? - outcome.truth.log_z)
}

/// Whether what was reported is wrong: log p(x) off by more than 0.1 nat and 5 standard errors, or a reweighted mean by
/// more than 0.1 standard deviations. What is missing is wrong.
pub fn is_wrong(outcome: &Outcome) -> bool {
    let (Some(off), Some(mean)) = (evidence_error(outcome), outcome.mean_error) else { return true };
    let allowed = EVIDENCE.max(STANDARD_ERRORS * outcome.log_evidence_se.unwrap_or(0.0));
    off.abs() > allowed || mean > MEAN
}

/// Whether every mode that is to be found was; none if there are none to be found.
pub fn finds_modes(outcome: &Outcome) -> Option<bool> {
    if outcome.dim > DIMENSIONS || outcome.truth.width_ratio.is_none_or(|r| r > WIDEST) {
        return None;
    }
    let wanted = || outcome.modes.iter().filter(|m| m.mass >= LEAST_MASS && m.apart <= FURTHEST);
    let is_drawn = |mass: f64, drawn: Option<f64>| drawn.is_some_and(|d| d >= SHARE * mass);
    let is_listed = |at: Option<f64>| at.is_some_and(|at| at <= CLOSE);
    let all = wanted().all(|m| is_drawn(m.mass, m.drawn_mass) || is_listed(m.listed_at));
    wanted().next().map(|_| all)
}

/// The goal for two modes: `good`, log p(x) within 0.1 nat, masses within 0.03.
pub fn reaches_two_modes(outcome: &Outcome) -> bool {
    let evidence = evidence_error(outcome).is_some_and(|off| off.abs() <= EVIDENCE);
    let masses = outcome.modes.iter().all(|m| m.drawn_mass.is_some_and(|d| (d - m.mass).abs() <= MASS));
    outcome.verdict == "good" && evidence && masses
}
