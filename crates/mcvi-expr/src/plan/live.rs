//! What is needed of a graph: the nodes that lead to what is asked for, and of each loop the part of its body that does.

use crate::graph::{Node, NodeId, Op, Part, Scan};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

/// The nodes needed for something, and what is needed of the loops among them.
#[derive(Debug, Default)]
pub(super) struct Live {
    pub nodes: BTreeSet<NodeId>,
    pub loops: HashMap<NodeId, LiveLoop>,
}

/// The part of a loop that is needed.
#[derive(Debug)]
pub(super) struct LiveLoop {
    pub scan: Arc<Scan>,
    /// Numbers of those operands that are needed, and what they are within the body.
    pub operands: Vec<(usize, NodeId)>,
    /// Results, and the nodes outside the body that they are.
    pub parts: Vec<(Part, NodeId)>,
    pub body: Live,
}

/// The nodes that `roots` are computed from, as far back as `leaves`, which are included.
pub(super) fn live(all: &[Node], roots: impl Iterator<Item = NodeId>, leaves: &HashSet<NodeId>) -> Live {
    let mut found = Live::default();
    let mut parts: HashMap<NodeId, Vec<(Part, NodeId)>> = HashMap::new();
    let mut open: BTreeSet<NodeId> = roots.collect();
    // Descending order visits a loop after all of its parts.
    while let Some(id) = open.pop_last() {
        found.nodes.insert(id);
        let node = &all[id.index()];
        match &node.op {
            _ if leaves.contains(&id) => {}
            Op::Scan(scan) => {
                let of = live_loop(all, scan, &node.args, parts.remove(&id).unwrap_or_default());
                open.extend(of.operands.iter().map(|&(i, _)| node.args[i]));
                found.loops.insert(id, of);
            }
            Op::Part(part) => {
                parts.entry(node.args[0]).or_default().push((*part, id));
                open.insert(node.args[0]);
            }
            _ => open.extend(&node.args),
        }
    }
    found
}

fn live_loop(all: &[Node], scan: &Arc<Scan>, args: &[NodeId], parts: Vec<(Part, NodeId)>) -> LiveLoop {
    let carries = scan.carries.len();
    let outside = args.iter().copied().skip(carries + scan.xs.len());
    let within: Vec<NodeId> = scan.bound().chain(outside).collect();
    let leaves: HashSet<NodeId> = within.iter().copied().collect();
    let next: BTreeMap<NodeId, NodeId> = scan.carries.iter().copied().collect();
    let mut needed: BTreeSet<NodeId> = BTreeSet::new();
    let mut stacked = vec![];
    for (part, _) in &parts {
        match part {
            Part::Last(carry) => needed.extend([*carry]),
            Part::Stack(id) => stacked.push(*id),
        }
    }
    // A carry is needed if what is needed of an iteration depends on it.
    loop {
        let roots = stacked.iter().copied().chain(needed.iter().map(|c| next[c]));
        let body = live(all, roots, &leaves);
        let before = needed.len();
        needed.extend(body.nodes.iter().filter(|n| next.contains_key(n)));
        if needed.len() == before {
            let is_needed = |(i, id): &(usize, NodeId)| {
                if *i < carries { needed.contains(id) } else { body.nodes.contains(id) }
            };
            let operands = within.into_iter().enumerate().filter(is_needed).collect();
            return LiveLoop { scan: scan.clone(), operands, parts, body };
        }
    }
}
