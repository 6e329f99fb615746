//! A warm start for chains with linear-Gaussian inverse models: the bound over a fixed sample, inverse models profiled
//! out.
//!
//! With the noise held fixed the bound is a smooth function of the parameters (sample average approximation; Giordano,
//! Ingram & Broderick 2024, "Black box variational inference with a deterministic objective"). The best inverse models
//! given the rest are regressions, so the search runs over the rest alone (variable projection, Golub & Pereyra 1973):
//! at the regression, the gradient of the profile is the gradient with the inverse models held fixed. Learned jointly
//! by noisy steps, the two hold each other back.

use super::settings::Settings;
use crate::approximation::{Approximation, InverseRegression};
use crate::error::Result;
use crate::minimise::minimise;
use crate::params::Params;
use crate::scope::{Choices, is_packed, pack, unpack, write};
use crate::seed::derive_seed;
use crate::target::rows_at_once;
use mcvi_expr::{Program, grad};
use nalgebra::DVector;

/// Rows of the fixed sample.
const ROWS: usize = 4000;
/// Maximum number of parameters in the search.
const MOST: usize = 300;
/// Maximum number of evaluations in the search.
const EVALUATIONS: usize = 80;

/// Better initial parameters, or none if the method does not apply.
pub(super) fn warm_start(approximation: &Approximation, settings: &Settings) -> Result<Option<Params>> {
    let Approximation { target, params, .. } = approximation;
    let seed = derive_seed(settings.seed, "warm start");
    let rows = rows_at_once(target.as_ref(), ROWS);
    let mut regression = InverseRegression::new(approximation, rows, seed)?;
    // Which packed values are searched over, and in which units.
    let small = params.iter().filter(|(_, p)| is_packed(p));
    let units: Vec<Option<f64>> = small
        .flat_map(|(name, p)| {
            let regressed = regression.covers(name);
            p.scale.iter().map(move |s| (!regressed).then_some(*s)).collect::<Vec<_>>()
        })
        .collect();
    let searched = units.iter().flatten().count();
    let large = params.iter().any(|(_, p)| p.learned && !is_packed(p));
    if target.is_subsampled() || !regression.is_smooth() || searched == 0 || searched > MOST || large {
        return Ok(None);
    }

    // Averaged over choices: drawn ones would hide how their probabilities depend on the parameters.
    let (mut program, ()) = approximation.program(rows, Choices::Average, |scope, estimate, program| {
        let loss = estimate.of_draws(settings.objective).mean_all() * -1.0;
        let gradient = grad(loss, &[scope.packed_state()?])?[0];
        Ok((program.seed(seed).output("loss", loss).output("gradient", gradient), ()))
    })?;

    let origin = pack(params);
    let place = |u: &[f64]| {
        let mut packed = origin.clone();
        let free = packed.iter_mut().zip(&units).filter_map(|(p, unit)| unit.map(|s| (p, s)));
        free.zip(u).for_each(|((p, s), u)| *p += s * u);
        let mut moved = params.clone();
        unpack(&mut moved, &packed).map(|()| moved)
    };
    let value = |u: &[f64]| {
        let moved = regression.solve(&place(u)?)?;
        evaluate(&mut program, &moved, &units)
    };
    let (best, _) = minimise(value, &vec![0.0; searched], EVALUATIONS)?;
    Ok(Some(regression.solve(&place(&best)?)?))
}

/// The loss and its gradient in the units of the search.
fn evaluate(program: &mut Program, params: &Params, units: &[Option<f64>]) -> Result<(f64, DVector<f64>)> {
    write(program, params)?;
    program.set_step(0);
    program.run(1)?;
    let loss = program.output("loss")?.to_f64()[0];
    let gradient = program.output("gradient")?.to_f64();
    let scaled = gradient.iter().zip(units).filter_map(|(g, unit)| unit.map(|s| g * s)).collect();
    Ok((if loss.is_nan() { f64::INFINITY } else { loss }, DVector::from_vec(scaled)))
}
