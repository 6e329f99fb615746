//! Work that may wait, such as gradients of weights, moved to where multiprocessors are idle: products to other levels,
//! gradients of filters, which take longer than most levels do, to blocks that are set aside for them for several levels.

use super::access::Latest;
use super::conv::Convolution;
use super::fuse::{Step, Work};
use super::pipeline;
use super::schedule::makespan;
use super::task::{BLOCKS, Precision, Tile};
use crate::plan::ConvPart;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// Levels work may be put off by: operands stay in memory meanwhile, and sums wait for each other in the end.
const FAR: usize = 4;
/// Levels that blocks may be set aside for at a time, and how many blocks.
const LONG: usize = 12;
const MOST: usize = BLOCKS / 2;
/// Nanoseconds a level takes beside its tiles.
const LEVEL: f64 = 3000.0;

/// A number of tiles, and the nanoseconds each takes.
type Size = (usize, f64);

/// What is known of a level: its products and convolutions, and how many blocks are set aside.
#[derive(Clone, Default)]
struct Level {
    loads: BTreeMap<usize, Size>,
    aside: usize,
}

impl Level {
    /// How long it takes, with more to do and more blocks set aside.
    fn end(&self, more: Option<Size>, aside: usize) -> f64 {
        let free = BLOCKS.saturating_sub(self.aside + aside).max(1);
        LEVEL + makespan(self.loads.values().copied().chain(more).collect(), free)
    }
}

/// A way to place work: how much longer all takes, the levels it spans, the blocks set aside, or its size if there are none.
struct Way {
    more: f64,
    level: usize,
    until: usize,
    aside: usize,
    size: Size,
}

/// Choose the level of everything that could also run later, one after the other, for tiles with `room` bytes of shared
/// memory.
pub(super) fn spread(steps: &mut [Step], room: usize) {
    let before = dependencies(steps);
    let last = steps.iter().map(|s| s.level).max().unwrap_or(0);
    let mut latest = vec![last; steps.len()];
    let mut order: Vec<usize> = (0..steps.len()).collect();
    order.sort_by_key(|&s| steps[s].time());
    for &s in order.iter().rev() {
        for &b in &before[s] {
            latest[b] = latest[b].min(latest[s] - 1);
        }
    }
    let sizes = |s: &Step| -> Vec<Size> {
        if let Some(conv) = Convolution::of(&s.work) {
            return conv.size(room).into_iter().collect();
        }
        let Work::Product { product, epilogues, .. } = &s.work else { return vec![] };
        let tiles = Tile::of(product, Precision::Tf32, usize::MAX);
        tiles.into_iter().map(|t| (t.count(product), t.cost(product, epilogues))).collect()
    };
    let mut levels = vec![Level::default(); last + 1];
    for (i, step) in steps.iter().enumerate() {
        let alone = |size: &Size| makespan(vec![*size], BLOCKS);
        let best = sizes(step).into_iter().min_by(|a, b| alone(a).total_cmp(&alone(b)));
        if let Some(best) = best.filter(|_| !gradient(&step.work)) {
            levels[step.level].loads.insert(i, best);
        }
    }
    for s in order {
        let first = before[s].iter().map(|&b| steps[b].until + 1).max().unwrap_or(0);
        let sizes = if movable(&steps[s].work) { sizes(&steps[s]) } else { vec![] };
        let own = steps[s].level;
        if let Some(size) = levels[own].loads.remove(&s)
            && sizes.is_empty()
        {
            levels[own.max(first)].loads.insert(s, size);
        }
        let until = latest[s].min(first + FAR);
        let single = |level: usize, size: Size| {
            let more = levels[level].end(Some(size), 0) - levels[level].end(None, 0);
            Way { more, level, until: level, aside: 0, size }
        };
        let mut ways: Vec<Way> = vec![];
        for &size in &sizes {
            ways.extend((first..=until).map(|level| single(level, size)));
            if gradient(&steps[s].work) {
                let blocks = [1, 2, 3, 4, 6, 8].map(|rounds| size.0.div_ceil(rounds));
                for aside in blocks.into_iter().filter(|b| *b <= MOST) {
                    let ends = |level: usize| beside(&levels, size, aside, level, latest[s]);
                    ways.extend((first..=until).map(ends).filter(|w| w.until > w.level));
                }
            }
        }
        let Some(best) = ways.into_iter().reduce(|a, b| if b.more < a.more { b } else { a }) else {
            steps[s].level = own.max(first);
            steps[s].until = steps[s].level;
            continue;
        };
        (steps[s].level, steps[s].until, steps[s].aside) = (best.level, best.until, best.aside);
        if best.aside == 0 {
            levels[best.level].loads.insert(s, best.size);
        }
        levels[best.level..=best.until].iter_mut().for_each(|l| l.aside += best.aside);
    }
    let kept = |(s, all): (usize, &Vec<usize>)| all.iter().all(|&b| steps[b].until < steps[s].level);
    debug_assert!(before.iter().enumerate().all(kept));
    pipeline::link(steps, &before, room);
}

fn gradient(work: &Work) -> bool {
    matches!(work, Work::Conv { conv, .. } if conv.part == ConvPart::Weight)
}

fn movable(work: &Work) -> bool {
    matches!(work, Work::Product { .. }) || gradient(work)
}

/// Blocks set aside from a level on, until they are done.
fn beside(levels: &[Level], size: Size, aside: usize, level: usize, latest: usize) -> Way {
    let mut left = size.0.div_ceil(aside) as f64 * size.1;
    let (mut more, mut until) = (0.0, level);
    loop {
        let end = levels[until].end(None, aside);
        more += end - levels[until].end(None, 0);
        left -= end;
        if left <= 0.0 || until == latest || until == level + LONG {
            break;
        }
        until += 1;
    }
    Way { more: more + left.max(0.0), level, until, aside, size }
}

/// For each step those that must come before it; without convolutions, but for those that must come before these.
fn dependencies(steps: &[Step]) -> Vec<Vec<usize>> {
    if steps.iter().all(|s| Convolution::of(&s.work).is_none()) {
        let (mut latest, mut before) = (Latest::default(), vec![vec![]; steps.len()]);
        let mut order: Vec<usize> = (0..steps.len()).collect();
        order.sort_by_key(|&s| steps[s].time());
        for s in order {
            before[s] = latest.before(steps[s].touches()).collect::<BTreeSet<_>>().into_iter().collect();
            latest.note(s, steps[s].touches());
        }
        return before;
    }
    let mut of: HashMap<u32, Vec<usize>> = HashMap::new();
    for (i, step) in steps.iter().enumerate() {
        for touch in step.touches() {
            let list = of.entry(touch.buf.0).or_default();
            if list.last() != Some(&i) {
                list.push(i);
            }
        }
    }
    let conflict = |a: &Step, b: &Step| a.touches().iter().any(|x| b.touches().iter().any(|y| x.conflicts(y)));
    let mut before = vec![vec![]; steps.len()];
    for (i, step) in steps.iter().enumerate() {
        let buffers: HashSet<u32> = step.touches().iter().map(|t| t.buf.0).collect();
        let others: BTreeSet<usize> = buffers.iter().flat_map(|b| of[b].iter().copied()).collect();
        let earlier = others.into_iter().filter(|&o| steps[o].time() < step.time());
        before[i] = earlier.filter(|&o| conflict(&steps[o], step)).collect();
    }
    before
}
