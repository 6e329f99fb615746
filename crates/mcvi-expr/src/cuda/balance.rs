//! Products that may wait, such as gradients of weights, moved to levels that leave multiprocessors idle.

use super::fuse::{Step, Work};
use super::lower::{BLOCKS, Precision, Tile};
use super::schedule::makespan;
use std::collections::{BTreeSet, HashMap, HashSet};

/// Levels a product may be put off by: operands stay in memory meanwhile, and sums wait for each other in the end.
const FAR: usize = 4;

/// Choose the level of every product that could also run later, one after the other.
pub(super) fn spread(steps: &mut [Step]) {
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
    // What the products of a level cost: how many tiles how much each.
    let mut loads: Vec<HashMap<usize, (usize, f64)>> = vec![HashMap::new(); last + 1];
    let sizes = |s: &Step| -> Vec<(usize, f64)> {
        let Work::Product { product, epilogues, .. } = &s.work else { return vec![] };
        let tiles = Tile::of(product, Precision::Tf32, usize::MAX);
        tiles.into_iter().map(|t| (t.count(product), t.cost(product, epilogues))).collect()
    };
    let end = |load: &HashMap<usize, (usize, f64)>| makespan(load.values().copied().collect(), BLOCKS);
    for (i, step) in steps.iter().enumerate() {
        let alone = |size: &(usize, f64)| makespan(vec![*size], BLOCKS);
        if let Some(best) = sizes(step).into_iter().min_by(|a, b| alone(a).total_cmp(&alone(b))) {
            loads[step.level].insert(i, best);
        }
    }
    for s in order {
        let first = before[s].iter().map(|&b| steps[b].level + 1).max().unwrap_or(0);
        if !matches!(steps[s].work, Work::Product { .. }) || first == latest[s] {
            steps[s].level = steps[s].level.max(first);
            continue;
        }
        loads[steps[s].level].remove(&s);
        let mut best = (f64::INFINITY, first, (0, 0.0));
        let until = latest[s].min(first + FAR);
        for (level, load) in loads.iter().enumerate().take(until + 1).skip(first) {
            let without = end(load);
            for size in sizes(&steps[s]) {
                let mut load = load.clone();
                load.insert(s, size);
                let more = end(&load) - without;
                if more < best.0 {
                    best = (more, level, size);
                }
            }
        }
        steps[s].level = best.1;
        loads[best.1].insert(s, best.2);
    }
    let kept = |(s, all): (usize, &Vec<usize>)| all.iter().all(|&b| steps[b].level < steps[s].level);
    debug_assert!(before.iter().enumerate().all(kept));
}

/// For each step those that must come before it.
fn dependencies(steps: &[Step]) -> Vec<Vec<usize>> {
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
