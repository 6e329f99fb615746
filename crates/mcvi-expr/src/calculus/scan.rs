//! The derivative of a loop: a loop in the other direction over the carries of all iterations, whose body computes the
//! original one again and goes back through it.

use super::{dependents, pull};
use crate::error::Result;
use crate::graph::{Expr, NodeId, Part, Scan};
use crate::ops::{Loop, part};
use crate::shape::Shape;
use std::collections::HashSet;
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
    let next = |k: usize| graph.expr(scan.carries[k].1);

    // A carry varies if its first value does, or if the body makes it depend on what varies.
    let mut varies = wanted.to_vec();
    let count = out.id().index();
    let depends = loop {
        let sources = within.iter().zip(&varies).filter(|(_, v)| **v).map(|(e, _)| e.id());
        let depends = dependents(graph, sources, count);
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
        let reached = leads_to(out, roots, &depends, &within);
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
    let adjoints: Vec<Expr<'g>> = kept.iter().map(|&k| stand_in(within[k], within[k].shape())).collect();
    let slices: Vec<Expr<'g>> = of_stacks.iter().map(|(e, _)| stand_in(*e, e.shape())).collect();
    let mut seeds: Vec<(Expr<'g>, Expr<'g>)> = of_stacks.iter().zip(&slices).map(|((e, _), ct)| (*e, *ct)).collect();
    seeds.extend(kept.iter().zip(&adjoints).map(|(&k, ct)| (next(k), *ct)));
    let sources: Vec<usize> = kept.iter().copied().chain((carries..within.len()).filter(|&i| wanted[i])).collect();
    let wrt: Vec<Expr<'g>> = sources.iter().map(|&i| within[i]).collect();
    let found: Vec<(usize, Option<Expr<'g>>)> = sources.into_iter().zip(pull(graph, &seeds, &wrt, true)?).collect();

    let mut whole = Loop { length: scan.length, reverse: !scan.reverse, carries: vec![], xs: vec![] };
    let (mut ys, mut carried, mut stacked) = (vec![], vec![], vec![]);
    for &(i, ct) in &found {
        match ct {
            _ if i < carries => {
                let first = last(i).unwrap_or_else(|| zero(within[i]));
                whole.carries.push((adjoints[carried.len()], first, ct.unwrap_or_else(|| zero(within[i]))));
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
    whole.xs.extend(slices.into_iter().zip(of_stacks.iter().map(|s| s.1)));
    let (last, stacks) = whole.close(graph, &ys, at);
    let mut all = vec![None; args.len()];
    carried.into_iter().zip(last).filter(|(i, _)| wanted[*i]).for_each(|(i, ct)| all[i] = Some(ct));
    stacked.into_iter().zip(stacks).for_each(|(i, ct)| all[i] = Some(ct));
    Ok(all)
}

/// The nodes that depend on what varies and that lead to one of `roots`, as far back as `leaves`.
fn leads_to(
    out: Expr<'_>,
    roots: impl Iterator<Item = NodeId>,
    depends: &[bool],
    leaves: &[Expr<'_>],
) -> HashSet<NodeId> {
    let leaves: HashSet<NodeId> = leaves.iter().map(|e| e.id()).collect();
    let (mut seen, mut open) = (HashSet::new(), roots.collect::<Vec<_>>());
    while let Some(id) = open.pop() {
        if depends[id.index()] && seen.insert(id) && !leaves.contains(&id) {
            out.graph().expr(id).with_node(|n| open.extend(&n.args));
        }
    }
    seen
}
