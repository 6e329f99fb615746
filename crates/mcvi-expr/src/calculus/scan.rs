//! The derivative of a loop: a loop in the other direction over what the original one had in each iteration, whose body goes
//! back through the original one.

use super::{dependents, pull};
use crate::error::Result;
use crate::graph::{Expr, NodeId, Op, Part, Scan};
use crate::ops::{Loop, part};
use crate::shape::Shape;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::panic::Location;

/// Derivatives in each operand of a loop, given those in some of its parts.
pub(super) fn vjp<'g>(
    out: Expr<'g>,
    scan: &Scan,
    given: &[(Part, Expr<'g>)],
    wanted: &[bool],
) -> Result<Vec<Option<Expr<'g>>>> {
    let (graph, args, at) = (out.graph(), out.args(), Location::caller());
    let (carries, elements) = (scan.carries.len(), scan.xs.len());
    // What the operands are within the body.
    let within: Vec<Expr<'g>> =
        scan.bound().map(|id| graph.expr(id)).chain(args[carries + elements..].iter().copied()).collect();
    let leaves: HashSet<NodeId> = within.iter().map(|e| e.id()).collect();
    let next = |k: usize| graph.expr(scan.carries[k].1);

    // A carry varies if its first value does, or if the body makes it depend on what varies.
    let mut varies = wanted.to_vec();
    let count = out.id().index();
    let depends = loop {
        let sources = within.iter().zip(&varies).filter(|(_, v)| **v).map(|(e, _)| e.id());
        let depends = dependents(graph, sources, &leaves, count);
        let more: Vec<usize> = (0..carries).filter(|&k| !varies[k] && depends[next(k).id().index()]).collect();
        if more.is_empty() {
            break depends;
        }
        more.into_iter().for_each(|k| varies[k] = true);
    };
    // Of those that vary, the carries that something given depends on: each has a derivative, which the loop carries.
    let of_stacks: Vec<(Expr<'g>, Expr<'g>)> = given
        .iter()
        .filter_map(|&(which, ct)| match which {
            Part::Stack(id) => Some((graph.expr(id), ct)),
            Part::Last(_) => None,
        })
        .filter(|(e, _)| depends[e.id().index()])
        .collect();
    let last = |k: usize| given.iter().find(|g| g.0 == Part::Last(scan.carries[k].0)).map(|g| g.1);
    let mut matters: Vec<bool> = (0..carries).map(|k| varies[k] && last(k).is_some()).collect();
    loop {
        let roots = of_stacks.iter().map(|(e, _)| e.id());
        let roots = roots.chain((0..carries).filter(|&k| matters[k]).map(|k| next(k).id()));
        let reached = leads_to(out, roots, &depends, &leaves);
        let more: Vec<usize> =
            (0..carries).filter(|&k| varies[k] && !matters[k] && reached.contains(&within[k].id())).collect();
        if more.is_empty() {
            break;
        }
        more.into_iter().for_each(|k| matters[k] = true);
    }

    let zero = |e: Expr<'g>| graph.full(e.dtype(), e.shape(), 0.0);
    let stand_in = |e: Expr<'g>, shape: Shape| graph.placeholder(shape, e.dtype());
    let kept: Vec<usize> = (0..carries).filter(|&k| matters[k]).collect();
    let slices: Vec<Expr<'g>> = of_stacks.iter().map(|(e, _)| stand_in(*e, e.shape())).collect();
    let sources: Vec<usize> = kept.iter().copied().chain((carries..within.len()).filter(|&i| wanted[i])).collect();
    let wrt: Vec<Expr<'g>> = sources.iter().map(|&i| within[i]).collect();
    // What the derivative in each carry is within the loop: carried, or the same in all iterations (nothing, if it is zero).
    let mut adjoints: HashMap<usize, Option<Expr<'g>>> =
        kept.iter().map(|&k| (k, Some(stand_in(within[k], within[k].shape())))).collect();
    let mut constant: HashSet<usize> = HashSet::new();
    let found: HashMap<usize, Option<Expr<'g>>> = loop {
        let mut seeds: Vec<(Expr<'g>, Expr<'g>)> =
            of_stacks.iter().zip(&slices).map(|((e, _), ct)| (*e, *ct)).collect();
        seeds.extend(kept.iter().filter_map(|&k| Some((next(k), adjoints[&k]?))));
        let found: HashMap<_, _> = sources.iter().copied().zip(pull(graph, &seeds, &wrt, &leaves)?).collect();
        let same = |k: &&usize| match (found[*k], adjoints[*k]) {
            (Some(ct), Some(adjoint)) => !constant.contains(*k) && ct.is_same(adjoint),
            _ => false,
        };
        let more: Vec<usize> = kept.iter().filter(same).copied().collect();
        if more.is_empty() {
            break found;
        }
        adjoints.extend(more.iter().map(|&k| (k, last(k))));
        constant.extend(more);
    };

    let (length, reverse, recompute) = (scan.length, !scan.reverse, scan.recompute);
    let mut whole = Loop { length, reverse, recompute, carries: vec![], xs: vec![] };
    let mut all = vec![None; args.len()];
    let (mut ys, mut carried, mut stacked) = (vec![], vec![], vec![]);
    for i in sources {
        match found[&i] {
            _ if constant.contains(&i) => all[i] = last(i).filter(|_| wanted[i]),
            ct if i < carries => {
                let Some(adjoint) = adjoints[&i] else { continue };
                let first = last(i).unwrap_or_else(|| zero(within[i]));
                whole.carries.push((adjoint, first, ct.unwrap_or_else(|| zero(within[i]))));
                carried.push(i);
            }
            Some(ct) if i < carries + elements => {
                ys.push(ct);
                stacked.push(i);
            }
            // What is outside the body has a share in each iteration.
            Some(ct) => {
                let sum = stand_in(ct, ct.shape());
                whole.carries.push((sum, zero(ct), sum + ct));
                carried.push(i);
            }
            None => {}
        }
    }
    whole.xs.extend((0..carries).map(|k| (within[k], part(out, Part::Stack(within[k].id()), at))));
    whole.xs.extend((carries..carries + elements).map(|i| (within[i], args[i])));
    if !recompute {
        let roots = whole.carries.iter().map(|c| c.2).chain(ys.iter().copied());
        let kept = worth_keeping(out, roots, &leaves);
        whole.xs.extend(kept.into_iter().map(|id| (graph.expr(id), part(out, Part::Stack(id), at))));
    }
    whole.xs.extend(slices.into_iter().zip(of_stacks.iter().map(|s| s.1)));
    let (last, stacks) = whole.close(graph, &ys, at);
    carried.into_iter().zip(last).filter(|(i, _)| wanted[*i]).for_each(|(i, ct)| all[i] = Some(ct));
    stacked.into_iter().zip(stacks).for_each(|(i, ct)| all[i] = Some(ct));
    Ok(all)
}

/// The values of the body of a loop from which its derivative, which `roots` are, can be computed without computing
/// anything of the body again.
fn worth_keeping<'g>(
    out: Expr<'g>,
    roots: impl Iterator<Item = Expr<'g>>,
    leaves: &HashSet<NodeId>,
) -> BTreeSet<NodeId> {
    let (graph, origins) = (out.graph(), origins(out, leaves));
    let (mut kept, mut seen) = (BTreeSet::new(), HashSet::new());
    let mut open: Vec<NodeId> = roots.map(|e| e.id()).collect();
    while let Some(id) = open.pop() {
        if leaves.contains(&id) || !seen.insert(id) {
            continue;
        }
        let node = graph.expr(id);
        let is_view = matches!(
            node.op(),
            Op::Broadcast | Op::Reshape | Op::Permute(_) | Op::Slice(_) | Op::StopGradient | Op::Opaque | Op::Scan(_)
        );
        // (Nodes that came later are of the derivative.)
        if !is_view && origins.get(id.index()) == Some(&Origin::Body) {
            kept.insert(id);
        } else if id != out.id() {
            node.with_node(|n| open.extend(&n.args));
        }
    }
    kept
}

/// What a node is computed from.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum Origin {
    /// Numbers only.
    Nothing,
    /// What the body of a loop is given, and nothing else.
    Body,
    Elsewhere,
}

/// What each node before `out` is computed from, where the body of that loop is given `leaves`.
fn origins(out: Expr<'_>, leaves: &HashSet<NodeId>) -> Vec<Origin> {
    let mut all = vec![];
    for i in 0..out.id().0 {
        let (id, graph) = (NodeId(i), out.graph());
        let origin = graph.expr(id).with_node(|n| match n.op {
            _ if leaves.contains(&id) => Origin::Body,
            Op::Const(_) => Origin::Nothing,
            _ if n.args.is_empty() => Origin::Elsewhere,
            _ => n.args.iter().map(|a| all[a.index()]).fold(Origin::Nothing, |a, b| if a < b { b } else { a }),
        });
        all.push(origin);
    }
    all
}

/// The nodes that depend on what varies and that lead to one of `roots`, as far back as `leaves`.
fn leads_to(
    out: Expr<'_>,
    roots: impl Iterator<Item = NodeId>,
    depends: &[bool],
    leaves: &HashSet<NodeId>,
) -> HashSet<NodeId> {
    let (mut seen, mut open) = (HashSet::new(), roots.collect::<Vec<_>>());
    while let Some(id) = open.pop() {
        if depends[id.index()] && seen.insert(id) && !leaves.contains(&id) {
            out.graph().expr(id).with_node(|n| open.extend(&n.args));
        }
    }
    seen
}
