//! Which nodes compute a single part of a sum over parts. Kernels never mix parts: what a kernel computes beside determines how
//! long its tiles are, and so how its sums are rounded, but how many parts a rank holds must change no bit.

use crate::graph::{Node, NodeId, Op};

/// The part of each node of a graph, counted from 1 among those held; 0 for what belongs to none, or to several.
pub(super) fn parts(nodes: &[Node]) -> Vec<u32> {
    let mut all: Vec<u32> = vec![0; nodes.len()];
    if !nodes.iter().any(|node| matches!(node.op, Op::ToParts(_))) {
        return all;
    }
    // Whether a node is known before the program runs.
    let mut known = vec![false; nodes.len()];
    for (i, node) in nodes.iter().enumerate() {
        known[i] = match node.op {
            Op::Literal(_) | Op::Const(_) => true,
            Op::Input(_) | Op::State(_) | Op::Noise(..) | Op::Placeholder(_) => false,
            _ => node.args.iter().all(|a| known[a.index()]),
        };
        all[i] = match &node.op {
            Op::SumParts(..) => 0,
            Op::ToParts(_) => u32::from(node.shape.dims()[0] == 1),
            Op::Slice(spans) if matches!(nodes[node.args[0].index()].op, Op::ToParts(_)) && spans[0].len == 1 => {
                spans[0].start as u32 + 1
            }
            // A sum of constants may be one of a part's own.
            Op::Reduce(..) if known[i] => u32::MAX - i as u32,
            _ => common(&all, &node.args),
        };
    }
    all
}

/// The part that all of these belong to, but for those that belong to none; 0 if they belong to several.
pub(super) fn common(all: &[u32], args: &[NodeId]) -> u32 {
    let mut of_args = args.iter().map(|a| all[a.index()]).filter(|part| *part > 0);
    let first = of_args.next().unwrap_or(0);
    if of_args.all(|part| part == first) { first } else { 0 }
}
