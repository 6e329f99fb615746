//! Numbers from where they were computed to where they are used: slices, selections and literals.

use super::plan::Source;
use mcvi_expr::{Array, DType, Expr, Graph};
use std::collections::BTreeMap;

/// Runs of neighbours that are put together one by one; more of them are selected by index.
const RUNS: usize = 8;

/// What all groups have given so far, `[rows, members · len]` each.
pub struct Results<'g> {
    pub graph: &'g Graph,
    pub rows: usize,
    pub flat: Vec<Expr<'g>>,
}

/// A run of neighbours: of numbers, or of places of one group.
enum Run {
    Numbers(Vec<f64>),
    Places { group: u32, start: u32, len: u32 },
}

fn runs(sources: &[Source]) -> Option<Vec<Run>> {
    let mut runs: Vec<Run> = vec![];
    for source in sources {
        match (runs.last_mut(), *source) {
            (Some(Run::Numbers(list)), Source::Number(x)) => list.push(x),
            (Some(Run::Places { group, start, len }), Source::Place { group: g, place })
                if *group == g && *start + *len == place =>
            {
                *len += 1;
            }
            (_, Source::Number(x)) => runs.push(Run::Numbers(vec![x])),
            (_, Source::Place { group, place }) => runs.push(Run::Places { group, start: place, len: 1 }),
        }
        if runs.len() > RUNS {
            return None;
        }
    }
    Some(runs)
}

/// Whether they are of one group: then they are selected, which costs nothing where they are regular.
fn is_of_one(runs: &[Run]) -> bool {
    let group = |run: &Run| match run {
        Run::Numbers(_) => None,
        Run::Places { group, .. } => Some(*group),
    };
    let first = group(&runs[0]);
    first.is_some() && runs.iter().all(|run| group(run) == first)
}

/// The first, second, … number of all members, where each comes from one group, and all of them only by selection from several.
pub fn columns(sources: &[Source], members: usize) -> Option<Vec<Vec<Source>>> {
    let n = sources.len() / members;
    if members < 2 || !(2..=RUNS).contains(&n) || runs(sources).is_some() {
        return None;
    }
    let columns: Vec<Vec<Source>> = (0..n).map(|i| sources.iter().skip(i).step_by(n).copied().collect()).collect();
    let group = |source: &Source| match source {
        Source::Number(_) => None,
        Source::Place { group, .. } => Some(*group),
    };
    let groups: Vec<Option<u32>> = columns.iter().map(|column| group(&column[0])).collect();
    let is_one = |(column, of): (&Vec<Source>, &Option<u32>)| column.iter().all(|source| group(source) == *of);
    let are_several = groups.iter().flatten().any(|g| Some(*g) != groups.iter().flatten().next().copied());
    (are_several && columns.iter().zip(&groups).all(is_one)).then_some(columns)
}

/// How many numbers a row has; none if building it failed, of which the engine tells.
fn width(flat: Expr<'_>) -> usize {
    flat.shape().dims().get(1).copied().unwrap_or(0)
}

impl<'g> Results<'g> {
    /// A literal of some shape.
    pub fn literal(&self, shape: &[usize], numbers: Vec<f64>) -> Expr<'g> {
        match Array::new(shape, numbers) {
            Ok(array) => self.graph.literal(array),
            // Shapes are computed from the lengths of the lists; a mistake shows as an error of the engine.
            Err(_) => self.graph.full(DType::F64, shape, f64::NAN),
        }
    }

    /// The numbers of sources that are all known.
    pub fn numbers(sources: &[Source]) -> Option<Vec<f64>> {
        let number = |s: &Source| match s {
            Source::Number(x) => Some(*x),
            Source::Place { .. } => None,
        };
        sources.iter().map(number).collect()
    }

    /// Numbers from anywhere, `[rows, n]`, or `[1, n]` if all are known.
    pub fn fetch(&self, sources: &[Source]) -> Expr<'g> {
        if let Some(numbers) = Self::numbers(sources) {
            return self.literal(&[1, numbers.len()], numbers);
        }
        match runs(sources) {
            Some(runs) if runs.len() <= 2 || !is_of_one(&runs) => self.join(runs),
            _ => self.select(sources),
        }
    }

    fn join(&self, runs: Vec<Run>) -> Expr<'g> {
        let parts: Vec<Expr<'g>> = runs
            .into_iter()
            .map(|run| match run {
                Run::Numbers(list) => {
                    let n = list.len();
                    self.literal(&[1, n], list).broadcast_to([self.rows, n])
                }
                Run::Places { group, start, len } => {
                    let flat = self.flat[group as usize];
                    if width(flat) == len as usize {
                        flat
                    } else {
                        flat.slice(1, start as usize..(start + len) as usize)
                    }
                }
            })
            .collect();
        if let [one] = parts.as_slice() { *one } else { self.graph.concat(&parts, 1) }
    }

    /// By index from all groups that occur, put side by side.
    fn select(&self, sources: &[Source]) -> Expr<'g> {
        let mut offsets: BTreeMap<u32, usize> = BTreeMap::new();
        let mut numbers: Vec<f64> = vec![];
        let mut known: BTreeMap<u64, usize> = BTreeMap::new();
        for source in sources {
            match source {
                Source::Place { group, .. } => {
                    offsets.insert(*group, 0);
                }
                Source::Number(x) => {
                    known.entry(x.to_bits()).or_insert_with(|| {
                        numbers.push(*x);
                        numbers.len() - 1
                    });
                }
            }
        }
        let mut parts = vec![];
        let mut total = 0;
        for (group, offset) in &mut offsets {
            let flat = self.flat[*group as usize];
            *offset = total;
            total += width(flat);
            parts.push(flat);
        }
        if !numbers.is_empty() {
            let n = numbers.len();
            parts.push(self.literal(&[1, n], numbers).broadcast_to([self.rows, n]));
        }
        let place = |s: &Source| match s {
            Source::Place { group, place } => offsets[group] + *place as usize,
            Source::Number(x) => total + known[&x.to_bits()],
        };
        let index: Vec<i32> = sources.iter().map(|s| place(s) as i32).collect();
        let all = if let [one] = parts.as_slice() { *one } else { self.graph.concat(&parts, 1) };
        let n = index.len();
        match Array::new([n], index) {
            Ok(index) => all.take(1, self.graph.literal(index)),
            Err(_) => all,
        }
    }

    /// The sum of sources, `[rows]`: those of one group at once.
    pub fn sum(&self, sources: &[Source]) -> Expr<'g> {
        let mut by_group: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        let mut constant = 0.0;
        for source in sources {
            match source {
                Source::Number(x) => constant += x,
                Source::Place { group, place } => by_group.entry(*group).or_default().push(*place),
            }
        }
        let start = self.graph.full(DType::F64, [self.rows], constant);
        by_group.iter().fold(start, |sum, (group, places)| sum + self.sum_of(*group, places))
    }

    /// The sum of numbers of one group, where a number may count several times.
    fn sum_of(&self, group: u32, places: &[u32]) -> Expr<'g> {
        let flat = self.flat[group as usize];
        let mut counts = vec![0.0; width(flat)];
        for place in places {
            if let Some(count) = counts.get_mut(*place as usize) {
                *count += 1.0;
            }
        }
        let used = counts.iter().filter(|c| **c > 0.0).count();
        // Weights cost less than a selection, unless most of them are 0.
        if 4 * used < counts.len() {
            let sources: Vec<Source> = places.iter().map(|p| Source::Place { group, place: *p }).collect();
            return self.fetch(&sources).sum(&[1]);
        }
        if counts.iter().all(|c| *c == 1.0) {
            return flat.sum(&[1]);
        }
        // What does not count may be infinite.
        let weights = self.literal(&[1, counts.len()], counts.clone());
        let weighted = match used == counts.len() {
            true => flat * weights,
            false => weights.select(flat * weights, 0.0),
        };
        weighted.sum(&[1])
    }
}
