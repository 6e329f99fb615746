//! Who computes which tile when: a list of tiles for each block, fixed before anything runs.

use super::lower::{BLOCKS, Task};

/// No level.
const NONE: u32 = u32::MAX;
/// Marks functions that may be prepared before the wait.
const EARLY: u32 = 1 << 31;

/// The lists of all blocks, as the device reads them (`Item` of run.cu).
#[derive(Default)]
pub(super) struct Lists {
    pub items: Vec<[u32; 8]>,
    /// Where each block's list begins, and the end of the last.
    pub first: Vec<u32>,
    pub args: Vec<u64>,
    pub levels: usize,
    /// Blocks that complete the last level.
    pub last_blocks: u32,
}

/// Give the tiles of each level to blocks, the dearest first, each to the block that has least to do. Blocks set aside for a
/// task wait like others when its first level begins, and report when its last one ends.
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
    // Only a level with work of its own says by its end that those before it are complete.
    let whole: Vec<bool> = groups.iter().map(|g| g.iter().any(|&t| tasks[t].aside == 0)).collect();
    let mut of_block: Vec<Vec<[u32; 8]>> = vec![vec![]; blocks];
    // The level each block is set aside until.
    let mut held: Vec<Option<usize>> = vec![None; blocks];
    // The level each block was last given something in.
    let mut reached: Vec<Option<usize>> = vec![None; blocks];
    let mut before: Option<u32> = None;
    for (level, group) in groups.iter().enumerate() {
        let mut load = vec![0.0f64; blocks];
        let mut count = vec![0usize; blocks];
        let mut give = |block: usize, t: usize, tile: usize, count: &mut [usize]| {
            // Only the first tile of a block in a level has to wait.
            let wait = if count[block] > 0 { NONE } else { level.checked_sub(1).map_or(NONE - 1, |l| l as u32) };
            let (task, args) = (&tasks[t], starts[t]);
            let words = task.words.len() as u32;
            // All before the level it reached is complete.
            let early = task.ready.is_some_and(|ready| reached[block].is_some_and(|r| ready <= r));
            let function = task.function | if early { EARLY } else { 0 };
            reached[block] = Some(task.level);
            of_block[block].push([function, tile as u32, args, words, wait, before.unwrap_or(0), NONE, level as u32]);
            count[block] += 1;
        };
        let mut ordinary = vec![];
        for &t in *group {
            let task = &tasks[t];
            let until = (level..groups.len()).rev().find(|&l| whole[l] && tasks[groups[l][0]].level <= task.until);
            let free: Vec<usize> = (0..blocks).rev().filter(|&b| held[b].is_none()).collect();
            let aside = (task.aside * blocks).div_ceil(BLOCKS);
            match until.filter(|&u| u > level && whole[level] && aside > 0 && aside < free.len()) {
                Some(until) => {
                    for tile in 0..task.tiles {
                        give(free[tile % aside], t, tile, &mut count);
                    }
                    free[..aside.min(task.tiles)].iter().for_each(|&b| held[b] = Some(until));
                }
                None => ordinary.push(t),
            }
        }
        let mut least = Least::new((0..blocks).filter(|&b| held[b].is_none()));
        for t in ordinary {
            for tile in 0..tasks[t].tiles {
                let block = least.take();
                load[block] += tasks[t].cost;
                least.put(load[block], block);
                give(block, t, tile, &mut count);
            }
        }
        let mut busy = 0;
        for (block, list) in of_block.iter_mut().enumerate() {
            let ends = held[block].map_or(count[block] > 0, |until| until == level);
            if let Some(last) = list.last_mut().filter(|_| ends) {
                last[6] = level as u32;
                busy += 1;
                held[block] = None;
            }
        }
        before = Some(busy);
        lists.levels += 1;
    }
    // The first level waits for the last one of the step before.
    let last = (lists.levels as u32).saturating_sub(1);
    lists.last_blocks = before.unwrap_or(0);
    for item in of_block.iter_mut().flatten().filter(|i| i[4] == NONE - 1) {
        (item[4], item[5]) = (last, lists.last_blocks);
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
    let mut least = Least::new(0..blocks);
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
    fn new(blocks: impl Iterator<Item = usize>) -> Self {
        Least(blocks.map(|b| std::cmp::Reverse((0, b))).collect())
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
        assert_eq!((lists.levels, lists.items.len(), lists.last_blocks), (2, 12, 4));
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
                let ends = of.iter().filter(|i| i[6] == level).count();
                assert_eq!((waits, ends), (usize::from(!of.is_empty()), usize::from(!of.is_empty())));
            }
        }
    }
}
