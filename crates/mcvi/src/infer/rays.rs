//! Rays from a mode: log p along straight lines outwards, where it falls unless something else lies there.
//!
//! Where log p rises again, another mode begins. The lines that pass through its basin fill a cone whose width depends on
//! the ratio of the widths of both modes, and not on how far away it is or how little of a tempered density it holds. So many cheap
//! lines see narrow modes that annealed particles miss.

use super::budget::Deadline;
use crate::compile::Compile;
use crate::error::Result;
use crate::hardware::Hardware;
use crate::initialisation::Initialisation;
use crate::params::Params;
use crate::scope::Choices;
use crate::target::{Target, evaluate};
use crate::whitening::Coordinates;
use std::time::Instant;

/// The nearest and the furthest distance, in standard deviations of the mode, and the factor from each to the next.
const NEAREST: f64 = 1.5;
const FURTHEST: f64 = 100.0;
const FACTOR: f64 = 1.25;
/// Nats by which log p must rise for it to count.
const RISE: f64 = 0.1;
/// Cosine of the angle between directions that count as one.
const SAME: f64 = 0.8;
/// Numbers that a program may hold.
const NUMBERS: usize = 1 << 20;
/// Work in all, in nanoseconds that log p takes, and what few rays see of: a mode this much narrower, in this many dimensions at most.
const WORK: f64 = 2e9;
const NARROWER: f64 = 5.0;
const SEVERAL: f64 = 200.0;
const ROUND: f64 = 10.0;

/// A place beyond a valley.
struct Rise {
    nats: f64,
    direction: Vec<f64>,
    place: Vec<f64>,
}

/// Rays that are worth their cost, if log p takes `cost` nanoseconds: enough to meet the basin of a much narrower mode several times, as
/// far as the work allows. Beyond some dimension rays see little but their own mode.
fn worthwhile(d: usize, cost: f64) -> usize {
    let wanted = SEVERAL * NARROWER.powi(d as i32 - 1);
    let affordable = WORK / (steps() as f64 * cost) * (ROUND / d as f64).min(1.0).powi(2);
    wanted.min(affordable).max(1.0) as usize
}

/// Places on each.
fn steps() -> usize {
    (FURTHEST / NEAREST).log(FACTOR).ceil() as usize
}

/// What rays have found.
pub(super) struct Beyond {
    /// Places behind the deepest valleys, in directions that differ.
    pub places: Vec<Vec<f64>>,
    /// Seconds that log p takes at a place.
    pub pace: f64,
}

/// The highest places on rays from a mode along which log p rises again, `most` of them. `cost` is how long log p takes,
/// and `part` the share of the work that may be done.
pub(super) fn beyond(
    target: &dyn Target,
    mode: &Initialisation,
    (cost, part, most): (f64, f64, usize),
    (seed, deadline): (u64, Deadline),
    hardware: Hardware,
) -> Result<Beyond> {
    let (d, steps) = (target.dim(), steps());
    let count = (part * worthwhile(d, cost) as f64) as usize;
    let rays = (NUMBERS / (steps * d.max(cost as usize))).clamp(1, count.max(1));
    let compile = Compile {
        dtype: target.dtype(),
        rows: rays * steps,
        choices: Choices::Sample,
        initialisation: &Initialisation::standard(d),
        params: &Params::default(),
        hardware,
    };
    let (mut program, ()) = compile.program(|scope, program| {
        let normal = scope.normal([rays, d]);
        let direction = normal * normal.square().sum(&[1]).powf(-0.5).expand(1);
        let radii: Vec<f64> = (0..steps).map(|j| NEAREST * FACTOR.powi(j as i32)).collect();
        // Between two distances on the grid, so that nothing is always missed.
        let shifted = (scope.uniform([rays]) * FACTOR.ln()).exp();
        let radii = shifted.expand(1) * scope.vector(&radii).reshape([1, steps]);
        let array = |_: &str, shape, values: &dyn Fn() -> Vec<f64>| scope.vector(&values()).reshape(shape);
        let center = scope.vector(&mode.center);
        let along = Coordinates::new(&mode.positions(), array).original(direction) - center;
        let z = along.reshape([rays, 1, d]) * radii.expand(2) + center;
        let z = z.reshape([rays * steps, d]);
        let log_p = evaluate(target, scope, z)?;
        Ok((program.seed(seed).output("z", z).output("direction", direction).output("log_p", log_p), ()))
    })?;
    let mut rises: Vec<Rise> = vec![];
    let (started, mut drawn) = (Instant::now(), 0);
    while drawn < count.max(1) && (drawn == 0 || !deadline.is_over()) {
        program.run(1)?;
        drawn += rays;
        let log_p = program.output("log_p")?.to_f64();
        let found: Vec<(usize, usize, f64)> = (0..rays)
            .filter_map(|i| rise(&log_p[i * steps..(i + 1) * steps]).map(|(at, nats)| (i, i * steps + at, nats)))
            .collect();
        if found.is_empty() {
            continue;
        }
        let (z, directions) = (program.output("z")?.to_f64(), program.output("direction")?.to_f64());
        let row = |from: &[f64], i: usize| from[i * d..(i + 1) * d].to_vec();
        rises.extend(found.into_iter().map(|(i, at, nats)| Rise {
            nats,
            direction: row(&directions, i),
            place: row(&z, at),
        }));
        // The deepest that are needed.
        rises = distinct(rises, most);
    }
    let pace = started.elapsed().as_secs_f64() / (drawn * steps) as f64;
    Ok(Beyond { places: rises.into_iter().map(|rise| rise.place).collect(), pace })
}

/// Where log p is highest above the lowest value before, and how far.
fn rise(log_p: &[f64]) -> Option<(usize, f64)> {
    let (mut lowest, mut best) = (f64::INFINITY, None::<(usize, f64)>);
    for (i, &here) in log_p.iter().enumerate() {
        // Outside of the support the density is zero; what lies beyond may be inside again.
        let here = if here.is_nan() { f64::NEG_INFINITY } else { here };
        let nats = (here - lowest).min(f64::MAX);
        if here.is_finite() && nats > best.map_or(RISE, |(_, nats)| nats) {
            best = Some((i, nats));
        }
        lowest = lowest.min(here);
    }
    best
}

/// The deepest of them in directions that differ.
fn distinct(mut rises: Vec<Rise>, most: usize) -> Vec<Rise> {
    rises.sort_by(|a, b| b.nats.total_cmp(&a.nats));
    let mut kept: Vec<Rise> = vec![];
    for rise in rises {
        let cosine = |other: &Rise| rise.direction.iter().zip(&other.direction).map(|(a, b)| a * b).sum::<f64>();
        if kept.len() < most && kept.iter().all(|other| cosine(other) < SAME) {
            kept.push(rise);
        }
    }
    kept
}
