//! Recurrences: groups that repeat, each time reading what the time before computed, become a loop of the engine.
//!
//! A loop that carries something from iteration to iteration leaves the same groups again and again in a plan. Here such
//! runs are found, and it is checked that every repetition reads the same places of itself and of the one before. What
//! it reads from elsewhere is given to each iteration, or shared by all.

use super::Op;
use super::plan::{Group, Operand, Source};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Fewest repetitions that are worth a loop.
const LEAST: usize = 16;
/// Most groups of a repetition.
const LONGEST: usize = 64;

/// A part of a plan: each gives the rows of numbers that later ones refer to by number.
#[derive(Clone, Debug)]
pub enum Step {
    /// Gives one row.
    Group(Group),
    /// Gives a row for each group of its body that is kept: those of all iterations, one after the other.
    Loop(Loop),
}

/// A recurrence. In its body, row 0 is what each iteration is given, row 1 what they share; then come the carries, then
/// the body's own groups.
#[derive(Clone, Debug)]
pub struct Loop {
    pub length: usize,
    pub body: Vec<Group>,
    /// Which group each carry is, and what it is at first.
    pub carries: Vec<(usize, Vec<Source>)>,
    /// What all iterations are given, one after the other.
    pub each: Vec<Source>,
    pub shared: Vec<Source>,
    pub kept: Vec<usize>,
}

/// Rows 0 and 1 of a body.
const GIVEN: u32 = 0;
const SHARED: u32 = 1;
const CARRIES: u32 = 2;

/// What a number of a repetition is.
#[derive(Clone, Copy)]
enum Kind {
    /// Of the same repetition.
    Inner(usize, u32),
    /// Of the one before.
    Before(usize, u32),
    /// Known, or computed before the loop.
    Outside,
}

/// The steps of a plan, and where its groups' numbers are: the row, and the place of the first.
pub struct Rolled {
    pub steps: Vec<Step>,
    places: Vec<(u32, u32)>,
}

impl Rolled {
    pub fn new(groups: &[Group], terms: &[Source], outputs: &[Vec<Source>]) -> Rolled {
        let last = last_uses(groups, terms, outputs);
        let signatures: Vec<u64> = groups.iter().map(signature).collect();
        let mut rolled = Rolled { steps: vec![], places: vec![(u32::MAX, 0); groups.len()] };
        let mut row = 0;
        let mut i = 0;
        while i < groups.len() {
            if let Some((period, found)) = rolled.repetition(groups, &signatures, &last, i) {
                for (k, &j) in found.kept.iter().enumerate() {
                    let size = groups[i + j].members * groups[i + j].len;
                    for t in 0..found.length {
                        rolled.places[i + t * period + j] = (row + k as u32, (t * size) as u32);
                    }
                }
                row += found.kept.len() as u32;
                i += period * found.length;
                rolled.steps.push(Step::Loop(found));
                continue;
            }
            rolled.places[i] = (row, 0);
            row += 1;
            let operands = groups[i].operands.iter().map(|o| o.map(|s| rolled.source(s))).collect();
            rolled.steps.push(Step::Group(Group { operands, ..groups[i].clone() }));
            i += 1;
        }
        rolled
    }

    /// Where a number is now.
    pub fn source(&self, source: Source) -> Source {
        match source {
            Source::Place { group, place } => {
                let (row, first) = self.places[group as usize];
                Source::Place { group: row, place: first + place }
            }
            number => number,
        }
    }

    /// The loop that begins at a group, with its period.
    fn repetition(&self, groups: &[Group], signatures: &[u64], last: &[usize], i: usize) -> Option<(usize, Loop)> {
        for period in 1..=LONGEST.min((groups.len() - i) / LEAST) {
            let equal = (i..groups.len() - period).take_while(|&k| signatures[k] == signatures[k + period]).count();
            let length = 1 + equal / period;
            if length >= LEAST
                && let Some(found) = self.body(groups, last, i, period, length)
            {
                return Some((period, found));
            }
        }
        None
    }

    /// The loop of as many repetitions as read the same places.
    fn body(&self, groups: &[Group], last: &[usize], base: usize, period: usize, length: usize) -> Option<Loop> {
        let all = |t: usize| groups[base + t * period..base + (t + 1) * period].iter();
        let list = |t: usize| all(t).flat_map(|g| &g.operands).flat_map(Operand::sources).copied().collect::<Vec<_>>();
        let kind = |t: usize, source: Source| match source {
            Source::Place { group, place } => {
                let (group, start) = (group as usize, base + t * period);
                match group {
                    _ if group >= start => Some(Kind::Inner(group - start, place)),
                    _ if group + period >= start && t > 0 => Some(Kind::Before(group + period - start, place)),
                    _ if group < base => Some(Kind::Outside),
                    _ => None,
                }
            }
            Source::Number(_) => Some(Kind::Outside),
        };
        let kinds: Vec<Kind> = list(1).into_iter().map(|s| kind(1, s)).collect::<Option<_>>()?;
        if !kinds.iter().any(|k| matches!(k, Kind::Before(..))) {
            return None;
        }
        let same = |t: usize| {
            list(t).into_iter().zip(&kinds).all(|(s, k)| match (kind(t, s), k) {
                (Some(Kind::Inner(a, x)), Kind::Inner(b, y)) => a == *b && x == *y,
                (Some(Kind::Before(a, x)), Kind::Before(b, y)) => a == *b && x == *y,
                (Some(Kind::Outside), Kind::Before(..)) => t == 0,
                (Some(Kind::Outside), Kind::Outside) => true,
                _ => false,
            })
        };
        let length = (0..length).take_while(|&t| same(t)).count();
        if length < LEAST {
            return None;
        }
        // What each carry is at first, where the first repetition reads it from.
        let mut carries: Vec<(usize, Vec<Source>)> = vec![];
        for (source, kind) in list(0).into_iter().zip(&kinds) {
            let Kind::Before(j, place) = *kind else { continue };
            let at = carries.iter().position(|(c, _)| *c == j).unwrap_or_else(|| {
                let size = groups[base + j].members * groups[base + j].len;
                carries.push((j, vec![Source::Number(f64::NAN); size]));
                carries.len() - 1
            });
            let slot = &mut carries[at].1[place as usize];
            let source = self.source(source);
            let free = matches!(slot, Source::Number(x) if x.is_nan());
            if !free && *slot != source {
                return None;
            }
            *slot = source;
        }
        for slot in carries.iter_mut().flat_map(|(_, first)| first) {
            if matches!(slot, Source::Number(x) if x.is_nan()) {
                *slot = Source::Number(0.0);
            }
        }
        let lists: Vec<Vec<Source>> = (0..length).map(list).collect();
        let (mut given, mut shared): (Vec<usize>, Vec<Source>) = (vec![], vec![]);
        let mut known: HashMap<(u32, u32), u32> = HashMap::new();
        let row = |c: usize| CARRIES + c as u32;
        let count = carries.len();
        let mut local = kinds.iter().enumerate().map(|(e, kind)| match *kind {
            Kind::Inner(j, place) => Source::Place { group: row(count + j), place },
            Kind::Before(j, place) => {
                let c = carries.iter().position(|(c, _)| *c == j).unwrap_or(0);
                Source::Place { group: row(c), place }
            }
            Kind::Outside if lists.iter().any(|l| l[e] != lists[0][e]) => {
                given.push(e);
                Source::Place { group: GIVEN, place: given.len() as u32 - 1 }
            }
            Kind::Outside => match lists[0][e] {
                Source::Place { group, place } => {
                    let place = *known.entry((group, place)).or_insert_with(|| {
                        shared.push(self.source(lists[0][e]));
                        shared.len() as u32 - 1
                    });
                    Source::Place { group: SHARED, place }
                }
                number => number,
            },
        });
        let body = all(0).map(|g| {
            let operands = g.operands.iter().map(|o| o.map(|s| local.next().unwrap_or(s))).collect();
            Group { operands, ..g.clone() }
        });
        let body: Vec<Group> = body.collect();
        drop(local);
        let each = lists.iter().flat_map(|l| given.iter().map(|&e| self.source(l[e]))).collect();
        let end = base + length * period;
        let kept = (0..period).filter(|j| (0..length).any(|t| last[base + t * period + j] >= end)).collect();
        Some(Loop { length, body, carries, each, shared, kept })
    }
}

/// The last group that reads each group; beyond all if it is asked for in the end.
fn last_uses(groups: &[Group], terms: &[Source], outputs: &[Vec<Source>]) -> Vec<usize> {
    let mut last = vec![0; groups.len()];
    let mut note = |source: &Source, by: usize| {
        if let Source::Place { group, .. } = source {
            last[*group as usize] = by;
        }
    };
    for (i, group) in groups.iter().enumerate() {
        group.operands.iter().flat_map(Operand::sources).for_each(|s| note(s, i));
    }
    terms.iter().chain(outputs.iter().flatten()).for_each(|s| note(s, groups.len()));
    last
}

/// What repetitions of a group have in common.
fn signature(group: &Group) -> u64 {
    let mut hasher = DefaultHasher::new();
    let shape = (group.op, group.len, group.members, group.site);
    shape.hash(&mut hasher);
    for operand in &group.operands {
        (matches!(operand, Operand::Shared(_)), operand.sources().len()).hash(&mut hasher);
    }
    // The parameters are no repetition.
    if group.op == Op::Input { 0 } else { hasher.finish() }
}
