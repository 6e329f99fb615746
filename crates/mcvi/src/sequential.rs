//! Algorithm 4: grow a chain step by step from any existing fit.

use crate::approximation::Approximation;
use crate::diagnostics::Mean;
use crate::error::Result;
use crate::fit::{FitReport, Objective, Settings, fit};
use crate::seed::derive_seed;
use crate::transition::Transition;

/// Draws with which a stage is judged.
const JUDGED: usize = 20_000;

/// The result of a stage.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Stage {
    /// E log αₜ of the new step, from fresh draws.
    pub gain: Mean,
    /// Whether the step was kept: it is only if it improves the bound.
    pub kept: bool,
    /// How its fit went.
    pub report: FitReport,
}

/// One stage: add a step and learn it by maximising its own contribution E log αₜ, with all earlier ones frozen.
///
/// If E log αₜ ≤ 0 the step is removed again, so that no stage worsens the bound.
pub fn grow(
    approximation: &Approximation,
    transition: impl Transition + 'static,
    settings: &Settings,
) -> Result<(Approximation, Stage)> {
    // Alg. 4, line 2: add a transition and its inverse model.
    let mut grown = approximation.grown(transition)?;
    // Line 3: maximise the local contribution.
    let report = fit(&mut grown, &Settings { objective: Objective::LastStep, ..settings.clone() })?;
    let diagnostics = grown.draw(JUDGED, derive_seed(settings.seed, "stage"))?.diagnose();
    let gain = diagnostics.steps[diagnostics.steps.len() - 1];
    // Line 4: the new approximation is the marginal of the grown chain.
    let kept = gain.value > 0.0;
    let stage = Stage { gain, kept, report };
    Ok((if kept { grown } else { approximation.clone() }, stage))
}
