//! Reverse-mode differentiation: expressions in, expressions out, as often as wanted.

mod scan;

use crate::error::{Error, Result};
use crate::graph::{Expr, Graph, NodeId, Op, Part};
use crate::ops::{Vjp, accumulate};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Derivatives of the scalar `y` with respect to each of `wrt`, as expressions that can be differentiated again.
///
/// `wrt` may be any nodes, not only inputs. Where `y` does not depend on one, its derivative is zero. What is built from a
/// node may be simplified past it (a part of a part is a part of the whole); [`Expr::opaque`] keeps it in between.
#[track_caller]
pub fn grad<'g>(y: Expr<'g>, wrt: &[Expr<'g>]) -> Result<Vec<Expr<'g>>> {
    let (graph, at) = (y.graph(), std::panic::Location::caller());
    for e in std::iter::once(&y).chain(wrt) {
        if let Some(error) = e.error() {
            return Err(error);
        }
        if !std::ptr::eq(e.graph(), graph) {
            return Err(Error::ForeignGraph { op: "grad", at });
        }
        if !e.dtype().is_float() {
            return Err(Error::NotDifferentiable { op: "grad", why: "integers have no derivative" });
        }
    }
    if y.shape().rank() != 0 {
        return Err(Error::NotScalar { shape: y.shape() });
    }

    let found = pull(graph, &[(y, y.same_type(1.0))], wrt, &HashSet::new())?;
    let zero = |x: &Expr<'g>| graph.full(x.dtype(), x.shape(), 0.0);
    Ok(wrt.iter().zip(found).map(|(x, ct)| ct.unwrap_or_else(|| zero(x))).collect())
}

/// Which of the nodes before number `count` depend smoothly on one of `sources`, themselves included. What `leaves` are
/// computed from does not count.
fn dependents(
    graph: &Graph,
    sources: impl Iterator<Item = NodeId>,
    leaves: &HashSet<NodeId>,
    count: usize,
) -> Vec<bool> {
    let mut depends = vec![false; count];
    sources.filter(|s| s.index() < count).for_each(|s| depends[s.index()] = true);
    for i in 0..count {
        let id = NodeId(i as u32);
        depends[i] = depends[i]
            // Integers change in jumps.
            || graph.expr(id).with_node(|n| {
                n.dtype.is_float() && n.op.carries_gradient() && n.args.iter().any(|a| depends[a.index()])
            }) && !leaves.contains(&id);
    }
    depends
}

/// Derivatives with respect to `wrt` of something whose derivatives with respect to some nodes are given; `None` where
/// there is none. What `leaves` are computed from is held fixed.
fn pull<'g>(
    graph: &'g Graph,
    given: &[(Expr<'g>, Expr<'g>)],
    wrt: &[Expr<'g>],
    leaves: &HashSet<NodeId>,
) -> Result<Vec<Option<Expr<'g>>>> {
    let count = given.iter().map(|(y, _)| y.id().index() + 1).max().unwrap_or(0);
    let depends = dependents(graph, wrt.iter().map(|x| x.id()), leaves, count);
    // Operands precede their users, so descending order visits a node after everything that uses it.
    let mut pending = BTreeMap::new();
    // Sums are formed as contributions arrive: nothing waits, and products can accumulate in place.
    let add = |pending: &mut BTreeMap<NodeId, Expr<'g>>, to: Expr<'g>, ct: Expr<'g>| {
        let sum = pending.get(&to.id()).map_or(ct, |earlier| accumulate(*earlier, ct));
        pending.insert(to.id(), sum);
    };
    given.iter().for_each(|&(y, ct)| add(&mut pending, y, ct));
    let mut found = BTreeMap::new();
    // What has reached the parts of each loop.
    let mut parts: HashMap<NodeId, Vec<(Part, Expr<'g>)>> = HashMap::new();
    while let Some((id, ct)) = pending.pop_last() {
        if !depends[id.index()] {
            continue;
        }
        let out = graph.expr(id);
        if wrt.iter().any(|x| x.is_same(out)) {
            found.insert(id, ct);
        }
        if leaves.contains(&id) {
            continue;
        }
        let args = out.args();
        let smooth = out.with_node(|n| n.op.carries_gradient());
        let wanted: Vec<bool> = args.iter().map(|a| smooth && depends[a.id().index()]).collect();
        if !wanted.contains(&true) {
            continue;
        }
        let cts = match out.op() {
            Op::Part(part) => {
                parts.entry(args[0].id()).or_default().push((part, ct));
                pending.insert(args[0].id(), ct);
                continue;
            }
            Op::Scan(of) => scan::vjp(out, &of, &parts.remove(&id).unwrap_or_default(), &wanted)?,
            _ => Vjp { args: &args, out, ct, wanted: &wanted }.apply()?,
        };
        for ((&arg, ct), _) in args.iter().zip(cts).zip(&wanted).filter(|(_, w)| **w) {
            let Some(ct) = ct else { continue };
            if let Some(error) = ct.error() {
                return Err(error);
            }
            debug_assert_eq!(ct.shape(), arg.shape(), "rule of {}", out.op().name());
            add(&mut pending, arg, ct);
        }
    }
    Ok(wrt.iter().map(|x| found.get(&x.id()).copied()).collect())
}
