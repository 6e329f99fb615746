//! Buffers by liveness: two buffers may share memory when no level needs both.

/// Every buffer starts on its own cache line and has one to spare at its end: kernels work on whole vectors.
const ALIGN: usize = 64;

/// When a buffer is needed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Life {
    pub bytes: usize,
    /// First level that writes it.
    pub from: usize,
    /// Last level that reads it.
    pub until: usize,
}

/// Offsets for each buffer and the size of the arena. Larger buffers are placed first, each at the lowest offset that
/// is free during its whole life.
pub(crate) fn place(lives: &[Life]) -> (Vec<usize>, usize) {
    let mut order: Vec<usize> = (0..lives.len()).collect();
    order.sort_by_key(|&i| (std::cmp::Reverse(lives[i].bytes), lives[i].from, i));
    let mut offsets = vec![0; lives.len()];
    // Placed buffers, sorted by offset.
    let mut placed: Vec<(usize, usize, usize)> = vec![];
    let mut end = 0;
    for i in order {
        let life = lives[i];
        // Sizes beyond all memory stay so; the arena is refused then.
        let bytes = life.bytes.saturating_add(2 * ALIGN - 1) / ALIGN * ALIGN;
        let mut offset = 0usize;
        for &(start, stop, j) in &placed {
            let apart = lives[j].until < life.from || life.until < lives[j].from;
            if apart {
                continue;
            }
            if start >= offset.saturating_add(bytes) {
                break;
            }
            offset = offset.max(stop);
        }
        offsets[i] = offset;
        end = end.max(offset.saturating_add(bytes));
        let at = placed.partition_point(|p| p.0 <= offset);
        placed.insert(at, (offset, offset.saturating_add(bytes), i));
    }
    (offsets, end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lives_that_overlap_get_their_own_memory_and_others_share() {
        let life = |bytes, from, until| Life { bytes, from, until };
        let lives = [life(1000, 0, 2), life(1000, 3, 5), life(500, 2, 3), life(10, 0, 9)];
        let (offsets, end) = place(&lives);
        assert_eq!(offsets[0], offsets[1]);
        for i in 0..4 {
            for j in 0..i {
                let together = lives[i].from <= lives[j].until && lives[j].from <= lives[i].until;
                let disjoint = offsets[i] + lives[i].bytes <= offsets[j] || offsets[j] + lives[j].bytes <= offsets[i];
                assert!(!together || disjoint);
            }
        }
        assert!(end < 2000);
    }
}
