//! Moving elementwise work to where it is needed.
//!
//! The schedule places every node as early as it can. A node whose operands are kept until its first use anyway is
//! better computed there: it is not stored in between, and mostly not at all, since it joins the kernel that uses it.

use super::build::{Cluster, Schedule, Task, Work, space};
use crate::graph::{NodeId, Op};
use crate::table::Binary;
use std::collections::HashMap;

/// Who reads a node's elements: a task, or someone outside the program (`None`).
type Readers = Vec<Vec<Option<usize>>>;

pub(super) fn sink(s: &mut Schedule, roots: &[NodeId]) {
    let mut readers: Readers = vec![vec![]; s.nodes.len()];
    for &root in roots {
        readers[s.view(root).base.index()].push(None);
    }
    for (index, task) in s.tasks.iter().enumerate() {
        for arg in task.work.reads(&s.nodes) {
            readers[s.view(arg).base.index()].push(Some(index));
        }
    }
    let mut open: HashMap<(usize, Vec<usize>), Vec<usize>> = HashMap::new();
    for (index, task) in s.tasks.iter().enumerate() {
        if let Work::Fused(c) = &task.work {
            open.entry((task.level, c.space.clone())).or_default().push(index);
        }
    }
    for i in (0..s.nodes.len()).rev() {
        let id = NodeId(i as u32);
        let Some(home) = s.group[i] else { continue };
        // Differences of several orders share most of their work, so they stay together.
        if matches!(s.nodes[i].op, Op::Binary(Binary::PolygammaDiff(_))) {
            continue;
        }
        let Some(first) = readers[i].iter().map(|r| r.map_or(0, |t| s.tasks[t].level)).min() else { continue };
        if first <= s.tasks[home].level || readers[i].contains(&Some(home)) {
            continue;
        }
        let over = match &s.tasks[home].work {
            Work::Fused(c) => c.space.clone(),
            _ => continue,
        };
        // The one kernel that uses it first, if that computes element by element; else just before the first use.
        let mut users: Vec<usize> =
            readers[i].iter().flatten().copied().filter(|&t| s.tasks[t].level == first).collect();
        users.dedup();
        let user = match users[..] {
            [task] if takes(s, task, id, &over) => Some(task),
            _ => None,
        };
        let level = if user.is_some() { first } else { first - 1 };
        if level <= s.tasks[home].level || !free_to_move(s, &readers, id, level) {
            continue;
        }
        let target = user
            .or_else(|| open.get(&(level, over.clone()))?.iter().copied().find(|&t| takes(s, t, id, &over)))
            .unwrap_or_else(|| {
                let dtype = s.node(id).dtype;
                let cluster = Cluster { dtype, space: over.clone(), part: s.part[i], row: None, nodes: vec![] };
                s.tasks.push(Task { level, work: Work::Fused(cluster) });
                open.entry((level, over)).or_default().push(s.tasks.len() - 1);
                s.tasks.len() - 1
            });
        if let Work::Fused(c) = &mut s.tasks[home].work {
            c.nodes.retain(|n| *n != id);
        }
        if let Work::Fused(c) = &mut s.tasks[target].work {
            c.nodes.push(id);
        }
        s.group[i] = Some(target);
        s.level[i] = level;
        for arg in s.node(id).args.clone() {
            let at = s.view(arg).base.index();
            if let Some(reader) = readers[at].iter_mut().find(|r| **r == Some(home)) {
                *reader = Some(target);
            }
        }
    }
    for task in &mut s.tasks {
        if let Work::Fused(c) = &mut task.work {
            c.nodes.sort_unstable();
        }
    }
    s.tasks.retain(|t| !matches!(&t.work, Work::Fused(c) if c.nodes.is_empty()));
    for (index, task) in s.tasks.iter().enumerate() {
        if let Work::Fused(c) = &task.work {
            for node in &c.nodes {
                if let Some(group) = &mut s.group[node.index()] {
                    *group = index;
                }
            }
        }
    }
}

/// Whether a task can compute the node among its own.
fn takes(s: &Schedule, task: usize, id: NodeId, over: &[usize]) -> bool {
    match &s.tasks[task].work {
        Work::Fused(c) => {
            c.dtype == s.node(id).dtype
                && c.part == s.part[id.index()]
                && c.space == over
                && c.nodes.len() < super::build::MAX_FUSED
                // Uses inside the kernel must be element by element.
                && c.nodes.iter().flat_map(|n| &s.node(*n).args).all(|&a| {
                    s.view(a).base != id || s.is_identity(a, over)
                })
        }
        _ => false,
    }
}

/// Whether all operands are there at `level` anyway, or can be recomputed there from what is.
fn free_to_move(s: &Schedule, readers: &Readers, id: NodeId, level: usize) -> bool {
    let home = s.group[id.index()];
    s.node(id).args.iter().all(|&arg| {
        let base = s.view(arg).base;
        let read = &readers[base.index()];
        let kept =
            s.is_leaf(base) || read.iter().any(|r| r.is_none_or(|t| Some(t) != home && s.tasks[t].level >= level));
        let only_here = || {
            s.group[base.index()].is_some()
                && s.group[base.index()] == home
                && read.iter().all(|r| *r == home)
                && uses_in(s, home, base) == 1
                && s.is_identity(arg, &space(&s.node(id).shape))
                && free_to_move(s, readers, base, level)
        };
        kept || only_here()
    })
}

/// How many operands of a task's nodes are this node.
fn uses_in(s: &Schedule, task: Option<usize>, id: NodeId) -> usize {
    match task.map(|t| &s.tasks[t].work) {
        Some(Work::Fused(c)) => {
            c.nodes.iter().flat_map(|n| &s.node(*n).args).filter(|a| s.view(**a).base == id).count()
        }
        _ => 0,
    }
}
