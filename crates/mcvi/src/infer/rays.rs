//! Rays from a mode: log p along straight lines outwards, where it falls ever faster unless something else lies there.
//!
//! Where log p rises again, another mode begins. The lines that pass through its basin fill a cone whose width depends on
//! the ratio of the widths of both modes, and not on how far away it is or how little of a tempered density it holds. So many cheap
//! lines see narrow modes that annealed particles miss.
//!
//! At few places on a line a rise is easily missed, but a place within the basin still stands out: log p falls less up to there than
//! it fell before. Most densities fall about like a power of the distance, so that each fall is to the one before as that was to its own.

use super::budget::Deadline;
use crate::compile::Compile;
use crate::error::Result;
use crate::hardware::Hardware;
use crate::initialisation::Initialisation;
use crate::laplace::{Order, Values};
use crate::params::Params;
use crate::scope::Choices;
use crate::target::{Target, evaluate, rows_at_once};
use crate::whitening::Coordinates;
use std::cmp::Ordering;
use std::time::Instant;

/// The nearest and the furthest distance, in standard deviations of the mode, and the factor from each to the next.
const NEAREST: f64 = 1.0;
const FURTHEST: f64 = 100.0;
const FACTOR: f64 = 4.0 / 3.0;
/// Nats by which log p must rise, or fall, for it to count.
const RISE: f64 = 0.1;
/// Share of the fall that is expected after the two before, below which something else is there.
const SLOWER: f64 = 0.8;
/// Cosine of the angle between directions that count as one.
const SAME: f64 = 0.8;
/// Numbers that a program may hold.
const NUMBERS: usize = 1 << 17;
/// Work in all, in nanoseconds that log p takes, and what few rays see of: a mode this much narrower, in this many dimensions at most.
const WORK: f64 = 5e8;
const NARROWER: f64 = 5.0;
const SEVERAL: f64 = 200.0;
const ROUND: f64 = 20.0;

/// What is unusual along a ray, the clearer the greater.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum Sign {
    /// log p falls by this share less than it is expected to.
    Slower(f64),
    /// log p rises by this many nats.
    Rise(f64),
}

/// Where it is.
struct Sighting {
    sign: Sign,
    direction: Vec<f64>,
    place: Vec<f64>,
}

/// Rays that are worth their cost, if log p takes `cost` nanoseconds: enough to meet the basin of a much narrower mode several times, as
/// far as the work allows. Beyond some dimension rays see little but their own mode.
fn worthwhile(d: usize, cost: f64) -> usize {
    let wanted = SEVERAL * NARROWER.powi(d as i32 - 1);
    let affordable = WORK / (steps() as f64 * cost) * (ROUND / d as f64).min(1.0);
    wanted.min(affordable).max(1.0) as usize
}

/// Places on each.
fn steps() -> usize {
    (FURTHEST / NEAREST).log(FACTOR).ceil() as usize
}

/// What rays have found.
pub(super) struct Beyond {
    /// The clearest places, in directions that differ.
    pub places: Vec<Vec<f64>>,
    /// Seconds that log p takes at a place.
    pub pace: f64,
}

/// Places on rays from a mode where log p rises again or falls less than expected, `most` of them. `cost` is how long log p takes,
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
    // Places where very many observations are summed over are not all evaluated at once.
    let at_once = rows_at_once(target, rays * steps);
    let apart = || Values::new(target, &Params::default(), at_once, Order::Value);
    let mut apart = (at_once < rays * steps).then(apart).transpose()?;
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
        let program = program.seed(seed).output("z", z).output("direction", direction);
        if apart.is_some() {
            return Ok((program, ()));
        }
        Ok((program.output("log_p", evaluate(target, scope, z)?), ()))
    })?;
    let mut clearest: Vec<Sighting> = vec![];
    let (started, mut drawn) = (Instant::now(), 0);
    while drawn < count.max(1) && (drawn == 0 || !deadline.is_over()) {
        program.run(1)?;
        drawn += rays;
        let log_p = match &mut apart {
            Some(values) => values.heights(&program.output("z")?.to_f64())?,
            None => program.output("log_p")?.to_f64(),
        };
        let least = if clearest.len() < most { None } else { clearest.last().map(|last| last.sign) };
        let found = |i: usize| unusual(&log_p[i * steps..(i + 1) * steps]).map(|(at, sign)| (i, i * steps + at, sign));
        let found: Vec<_> = (0..rays).filter_map(found).filter(|(_, _, sign)| Some(*sign) > least).collect();
        if found.is_empty() {
            continue;
        }
        let (z, directions) = (program.output("z")?.to_f64(), program.output("direction")?.to_f64());
        let row = |from: &[f64], i: usize| from[i * d..(i + 1) * d].to_vec();
        clearest.extend(found.into_iter().map(|(i, at, sign)| Sighting {
            sign,
            direction: row(&directions, i),
            place: row(&z, at),
        }));
        clearest = distinct(clearest, most);
    }
    let pace = started.elapsed().as_secs_f64() / (drawn * steps) as f64;
    Ok(Beyond { places: clearest.into_iter().map(|sighting| sighting.place).collect(), pace })
}

/// Where log p rises most along a ray, or, if it rises nowhere, where its fall is the slowest for what it was before.
fn unusual(log_p: &[f64]) -> Option<(usize, Sign)> {
    let rise = || rise(log_p).map(|(at, nats)| (at, Sign::Rise(nats)));
    rise().or_else(|| slower(log_p).map(|(at, share)| (at, Sign::Slower(1.0 - share))))
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

/// Where log p falls least for what is expected after the two falls before, and the share of that.
fn slower(log_p: &[f64]) -> Option<(usize, f64)> {
    let (mut best, mut before) = (None::<(usize, f64)>, [f64::INFINITY; 2]);
    for (i, four) in log_p.windows(4).enumerate() {
        let [first, second, third] = [four[0] - four[1], four[1] - four[2], four[2] - four[3]];
        let expected = second * second / first;
        // After a fall that was slow itself, and one back to what else is there, too much is expected.
        let is_echo = before[0] < SLOWER;
        let is_fall = first > RISE && second > RISE && expected.is_finite();
        let share = if is_fall && !is_echo { third / expected } else { f64::INFINITY };
        if share < best.map_or(SLOWER, |(_, share)| share) {
            best = Some((i + 3, share));
        }
        before = [before[1], share];
    }
    best
}

/// The clearest of them in directions that differ, the clearest first.
fn distinct(mut sightings: Vec<Sighting>, most: usize) -> Vec<Sighting> {
    sightings.sort_by(|a, b| b.sign.partial_cmp(&a.sign).unwrap_or(Ordering::Equal));
    let mut kept: Vec<Sighting> = vec![];
    for sighting in sightings {
        let cosine =
            |other: &Sighting| sighting.direction.iter().zip(&other.direction).map(|(a, b)| a * b).sum::<f64>();
        if kept.len() < most && kept.iter().all(|other| cosine(other) < SAME) {
            kept.push(sighting);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of a density along a ray, at places like those of the search.
    fn along(log_p: impl Fn(f64) -> f64) -> Option<(usize, Sign)> {
        unusual(&(0..steps()).map(|j| log_p(1.2 * NEAREST * FACTOR.powi(j as i32))).collect::<Vec<_>>())
    }

    #[test]
    fn nothing_is_unusual_along_rays_of_one_mode() {
        assert!(along(|r| -0.5 * r * r).is_none());
        assert!(along(|r| -r).is_none());
        // Student's t in ten dimensions, and a density that ends.
        assert!(along(|r| -6.5 * (r * r / 3.0).ln_1p()).is_none());
        assert!(along(|r| if r < 5.0 { -0.5 * r * r } else { f64::NEG_INFINITY }).is_none());
        assert!(along(|r| if r < 5.0 { -0.5 * r * r } else { f64::NAN }).is_none());
    }

    #[test]
    fn a_narrower_mode_is_seen_whether_log_p_rises_there_or_not() {
        // Its centre is off the ray by this many of its own standard deviations, a fifth of those of the other mode.
        let beside = |off: f64| {
            move |r: f64| {
                let [wide, narrow] = [-0.5 * r * r, -12.5 * (r - 12.0).powi(2) - 0.5 * off * off];
                wide.max(narrow)
            }
        };
        assert!(matches!(along(beside(1.0)), Some((_, Sign::Rise(_)))));
        let (at, sign) = along(beside(9.5)).expect("something unusual");
        assert!(matches!(sign, Sign::Slower(_)));
        let place = 1.2 * NEAREST * FACTOR.powi(at as i32);
        assert!((10.0..14.0).contains(&place), "{place}");
        assert!(along(beside(20.0)).is_none());
    }
}
