//! Who computes which tile when: a list of tiles for each block, fixed before anything runs.

use super::task::{BLOCKS, Task};
use std::collections::HashMap;

/// No level.
const NONE: u32 = u32::MAX;
/// Marks functions that may be prepared before the wait.
const EARLY: u32 = 1 << 31;
/// What a level's counter grows by (`WHOLE` of run.cu).
const WHOLE: u32 = 4096;

/// The lists of all blocks, as the device reads them (`Item` of run.cu).
#[derive(Default)]
pub(super) struct Lists {
    pub items: Vec<[u32; 8]>,
    /// Where each block's list begins, and the end of the last.
    pub first: Vec<u32>,
    pub args: Vec<u64>,
    pub levels: usize,
}

/// Marks an item that completes a level for its block; the number beside it is added to the level's counter.
fn completes(level: usize, adds: u32) -> u32 {
    debug_assert!(level < 1 << 19);
    level as u32 | adds << 19
}

/// Give the tiles of each level to blocks, the dearest first, each to the block that has least to do. Blocks set aside for a
/// task wait like others when its first level begins, and report when its last one ends. Blocks continue with their tiles of a
/// pipeline without waiting.
pub(super) fn lists(tasks: &[Task], blocks: usize) -> Lists {
    let mut lists = Lists::default();
    let mut order: Vec<usize> = (0..tasks.len()).collect();
    order.sort_by(|&a, &b| tasks[a].level.cmp(&tasks[b].level).then(tasks[b].cost.total_cmp(&tasks[a].cost)));
    let mut starts = vec![0u32; tasks.len()];
    for (task, start) in tasks.iter().zip(&mut starts) {
        *start = lists.args.len() as u32;
        lists.args.extend(&task.words);
        // They are fetched two at a time.
        lists.args.resize(lists.args.len().next_multiple_of(2), 0);
    }
    let groups: Vec<&[usize]> = order.chunk_by(|&a, &b| tasks[a].level == tasks[b].level).collect();
    // A level must end by work of its own.
    let whole: Vec<bool> = groups.iter().map(|g| g.iter().any(|&t| tasks[t].aside == 0)).collect();
    let mut of_block: Vec<Vec<[u32; 8]>> = vec![vec![]; blocks];
    // The level each block is set aside until.
    let mut held: Vec<Option<usize>> = vec![None; blocks];
    // Chains: the last level of each, and where their tiles are; and until when blocks are part of one.
    let mut ends: HashMap<usize, usize> = HashMap::new();
    for (level, group) in groups.iter().enumerate() {
        ends.extend(group.iter().filter_map(|&t| Some((tasks[t].pipeline?, level))));
    }
    let mut pipelines: HashMap<usize, Vec<usize>> = HashMap::new();
    let mut linked: Vec<Option<usize>> = vec![None; blocks];
    // The level, of those of the plan too, before which each block knows that all is complete.
    let mut known: Vec<Option<(usize, usize)>> = vec![None; blocks];
    for (level, group) in groups.iter().enumerate() {
        let mut load = vec![0.0f64; blocks];
        let mut count = vec![0usize; blocks];
        let mut give = |block: usize, t: usize, tile: usize, joins: bool, count: &mut [usize]| {
            let task = &tasks[t];
            // Of the first level it has something in, a block knows nothing.
            let from = known[block].map_or(0, |k| k.0);
            let wait = !joins && (known[block].is_none() || from < level);
            let early = task.ready.is_some_and(|ready| known[block].is_some_and(|k| ready <= k.1));
            let function = task.function | if early { EARLY } else { 0 };
            let (last, levels) = match (wait, level) {
                (false, _) => (NONE, 0),
                (true, 0) => (NONE - 1, 0),
                (true, _) => (level as u32 - 1, (level - from) as u32),
            };
            if wait {
                known[block] = Some((level, task.level));
            }
            let words = task.words.len() as u32;
            of_block[block].push([function, tile as u32, starts[t], words, last, levels, NONE, level as u32]);
            count[block] += 1;
        };
        let (mut joining, mut ordinary) = (vec![], vec![]);
        for &t in *group {
            let task = &tasks[t];
            if task.pipeline.and_then(|c| pipelines.get(&c)).is_some_and(|all| all.len() == task.tiles) {
                joining.push(t);
                continue;
            }
            let until = (level..groups.len()).rev().find(|&l| whole[l] && tasks[groups[l][0]].level <= task.until);
            let idle = |&b: &usize| held[b].is_none() && linked[b].is_none();
            let free: Vec<usize> = (0..blocks).rev().filter(idle).collect();
            let aside = (task.aside * blocks).div_ceil(BLOCKS);
            // Others need a block too.
            let left = held.iter().filter(|h| h.is_none()).count();
            match until.filter(|&u| u > level && whole[level] && aside > 0 && aside <= free.len() && aside < left) {
                Some(until) => {
                    for tile in 0..task.tiles {
                        give(free[tile % aside], t, tile, false, &mut count);
                    }
                    free[..aside.min(task.tiles)].iter().for_each(|&b| held[b] = Some(until));
                }
                None => ordinary.push(t),
            }
        }
        for t in joining {
            let of = &pipelines[&tasks[t].pipeline.unwrap_or_default()];
            for (tile, &block) in of.iter().enumerate() {
                load[block] += tasks[t].cost;
                give(block, t, tile, true, &mut count);
            }
        }
        let mut least = Least::new((0..blocks).filter(|&b| held[b].is_none()).map(|b| (load[b], b)));
        for t in ordinary {
            let mut own = vec![];
            for tile in 0..tasks[t].tiles {
                let block = least.take();
                load[block] += tasks[t].cost;
                least.put(load[block], block);
                give(block, t, tile, false, &mut count);
                own.push(block);
            }
            if let Some(pipeline) = tasks[t].pipeline.filter(|c| ends[c] > level) {
                own.iter().for_each(|&b| linked[b] = linked[b].max(Some(ends[&pipeline])));
                pipelines.insert(pipeline, own);
            }
        }
        let mut busy = 0;
        for (block, list) in of_block.iter_mut().enumerate() {
            let ends = held[block].map_or(count[block] > 0, |until| until == level);
            if let Some(last) = list.last_mut().filter(|_| ends) {
                last[6] = completes(level, 1);
                (held[block], busy) = (None, busy + 1);
            }
            linked[block] = linked[block].filter(|&end| end > level);
        }
        // One of them adds what is missing.
        let ends = |i: &&mut [u32; 8]| i[6] == completes(level, 1);
        if let Some(item) = of_block.iter_mut().filter_map(|l| l.last_mut()).find(ends) {
            item[6] = completes(level, WHOLE + 1 - busy);
        }
        lists.levels += 1;
    }
    // The first level waits for all of the step before that a block does not know of.
    for (list, known) in of_block.iter_mut().zip(&known) {
        let from = known.map_or(0, |k| k.0);
        for item in list.iter_mut().filter(|i| i[4] == NONE - 1) {
            (item[4], item[5]) = (lists.levels as u32 - 1, (lists.levels - from) as u32);
        }
    }
    for list in of_block {
        lists.first.push(lists.items.len() as u32);
        lists.items.extend(list);
    }
    lists.first.push(lists.items.len() as u32);
    lists
}

/// When the last of some tiles is done, given how many cost how much, if they are given out as above.
pub(super) fn makespan(mut work: Vec<(usize, f64)>, blocks: usize) -> f64 {
    work.sort_by(|a, b| b.1.total_cmp(&a.1));
    let mut load = vec![0.0f64; blocks];
    let mut least = Least::new((0..blocks).map(|b| (0.0, b)));
    let mut whole = 0.0;
    for (count, cost) in work {
        // Of very many, rounds that all blocks take part in.
        let rounds = count.saturating_sub(64 * blocks) / blocks;
        whole += rounds as f64 * cost;
        for _ in 0..count - rounds * blocks {
            let block = least.take();
            load[block] += cost;
            least.put(load[block], block);
        }
    }
    whole + load.into_iter().fold(0.0, f64::max)
}

/// Blocks by load, the smallest first; equal loads by number.
struct Least(std::collections::BinaryHeap<std::cmp::Reverse<(u64, usize)>>);

impl Least {
    fn new(loads: impl Iterator<Item = (f64, usize)>) -> Self {
        Least(loads.map(|(load, b)| std::cmp::Reverse((load as u64, b))).collect())
    }
    fn take(&mut self) -> usize {
        self.0.pop().map_or(0, |b| b.0.1)
    }
    fn put(&mut self, load: f64, block: usize) {
        self.0.push(std::cmp::Reverse((load as u64, block)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn very_many_tiles_take_as_long_as_they_do() {
        for count in [1, 132, 8448, 8449, 1_000_000] {
            let rounds = usize::div_ceil(count, 132) as f64;
            assert!((makespan(vec![(count, 10.0)], 132) - 10.0 * rounds).abs() <= 10.0, "{count}");
        }
    }

    #[test]
    fn every_tile_is_on_one_list_and_levels_are_in_order() {
        let task = |level, tiles, cost| Task::new(level as u32, vec![1, 2], (tiles, cost), level);
        let tasks = [task(5, 7, 100.0), task(2, 3, 10.0), task(5, 2, 1000.0)];
        let lists = lists(&tasks, 4);
        assert_eq!((lists.levels, lists.items.len()), (2, 12));
        let mut seen: Vec<(u32, u32, u32)> = lists.items.iter().map(|i| (i[2], i[1], i[7])).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 12);
        for block in lists.first.windows(2) {
            let list = &lists.items[block[0] as usize..block[1] as usize];
            assert!(list.is_sorted_by_key(|i| i[7]));
            // A block waits once a level, for the one before, and reports each level it had a part in once.
            for level in 0..2 {
                let of: Vec<_> = list.iter().filter(|i| i[7] == level).collect();
                let waits = of.iter().filter(|i| i[4] != NONE).count();
                let ends = of.iter().filter(|i| i[6] != NONE && i[6] % (1 << 19) == level).count();
                assert_eq!((waits, ends), (usize::from(!of.is_empty()), usize::from(!of.is_empty())));
            }
        }
    }

    /// Two steps as the device would run them, one item at a time: `next` says which of the blocks that could continue does.
    fn walk(tasks: &[Task], blocks: usize, mut next: impl FnMut(usize) -> usize) {
        let lists = lists(tasks, blocks);
        let mut raw: Vec<usize> = tasks.iter().map(|t| t.level).collect();
        raw.sort_unstable();
        raw.dedup();
        let first =
            |pipeline: usize| tasks.iter().filter(|t| t.pipeline == Some(pipeline)).map(|t| t.level).min().unwrap();
        let mut counters = vec![0u32; lists.levels];
        // Tiles done in a step, and where each block is: step and place in its list.
        let mut done: Vec<HashMap<(usize, u32), usize>> = vec![HashMap::new(); 2];
        let mut at = vec![(0usize, 0usize); blocks];
        let of = |block: usize| &lists.items[lists.first[block] as usize..lists.first[block + 1] as usize];
        loop {
            let open: Vec<usize> = (0..blocks)
                .filter(|&b| {
                    let (step, place) = at[b];
                    let Some(item) = of(b).get(place).filter(|_| step < 2) else { return false };
                    let target = WHOLE * (step as u32 + u32::from(item[7] > 0));
                    item[4] == NONE || (0..item[5]).all(|l| counters[(item[4] - l) as usize] >= target)
                })
                .collect();
            if open.is_empty() {
                break;
            }
            let block = open[next(open.len())];
            let (step, place) = at[block];
            let item = of(block)[place];
            let t = (item[0] & !EARLY) as usize;
            // All of earlier levels must be complete, or of a pipeline all before its first and this block's own tile.
            let complete = |s: usize, below: usize| {
                tasks
                    .iter()
                    .enumerate()
                    .filter(|(_, t)| t.until < below)
                    .all(|(i, t)| (0..t.tiles).all(|k| done[s].contains_key(&(i, k as u32))))
            };
            let from = if item[4] == NONE { tasks[t].pipeline.map_or(tasks[t].level, first) } else { tasks[t].level };
            assert!(complete(step, from) && (step == 0 || complete(step - 1, usize::MAX)), "{t} of step {step}");
            for (i, other) in tasks.iter().enumerate() {
                if other.pipeline.is_some() && other.pipeline == tasks[t].pipeline && other.level < tasks[t].level {
                    let by = done[step].get(&(i, item[1])).copied();
                    assert!(by == Some(block) || by.is_some() && item[4] != NONE, "{t} after {i}");
                }
            }
            if item[0] & EARLY != 0 {
                assert!(complete(step, tasks[t].ready.unwrap()));
            }
            assert_eq!(raw[item[7] as usize], tasks[t].level);
            assert!(done[step].insert((t, item[1]), block).is_none());
            if item[6] != NONE {
                counters[(item[6] % (1 << 19)) as usize] += item[6] >> 19;
            }
            at[block] = if place + 1 == of(block).len() { (step + 1, 0) } else { (step, place + 1) };
        }
        let all: usize = tasks.iter().map(|t| t.tiles).sum();
        assert!(done.iter().all(|d| d.len() == all), "{} and {} of {all}", done[0].len(), done[1].len());
        assert!(counters.iter().all(|c| *c == 2 * WHOLE), "{counters:?}");
    }

    #[test]
    fn blocks_wait_for_all_that_must_be_complete_and_never_for_each_other() {
        let mut state = 1u32;
        let mut random = move |below: usize| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as usize % below
        };
        for round in 0..200 {
            let levels = 2 + random(12);
            let mut tasks: Vec<Task> = vec![];
            for level in (0..levels).filter(|l| l % 7 != 3) {
                for _ in 0..1 + random(3) {
                    let mut task = Task::new(0, vec![], (1 + random(9), (1 + random(9)) as f64 * 1000.0), level);
                    task.ready = (random(2) == 0).then(|| random(level + 1));
                    if random(4) == 0 {
                        (task.until, task.aside) = ((level + random(4)).min(levels - 1), 1 + random(40));
                    }
                    tasks.push(task);
                }
            }
            // Chains of some length.
            for (pipeline, &first) in [1, 4, 5].iter().enumerate() {
                for level in first..(first + 1 + random(5)).min(levels) {
                    let mut task = Task::new(0, vec![], (6, 5000.0), level);
                    (task.pipeline, task.ready) = (Some(pipeline), Some(random(level + 1)));
                    tasks.push(task);
                }
            }
            for (i, task) in tasks.iter_mut().enumerate() {
                task.function = i as u32;
            }
            for blocks in [1, 2, 7, 132] {
                walk(&tasks, blocks, |open| {
                    if round % 3 == 0 {
                        0
                    } else if round % 3 == 1 {
                        open - 1
                    } else {
                        random(open)
                    }
                });
            }
        }
    }
}
