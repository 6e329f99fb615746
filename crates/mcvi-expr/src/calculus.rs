//! Reverse-mode differentiation: expressions in, expressions out, as often as wanted.

use crate::error::{Error, Result};
use crate::graph::Expr;
use crate::ops::{Vjp, accumulate};
use std::collections::BTreeMap;

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

    // Which nodes up to y depend on something in `wrt`?
    let count = y.id().index() + 1;
    let mut depends = vec![false; count];
    for x in wrt.iter().filter(|x| x.id().index() < count) {
        depends[x.id().index()] = true;
    }
    for i in 0..count {
        depends[i] = depends[i]
            || graph
                .expr(crate::graph::NodeId(i as u32))
                // Integers change in jumps.
                .with_node(|n| {
                    n.dtype.is_float() && n.op.carries_gradient() && n.args.iter().any(|a| depends[a.index()])
                });
    }

    // Operands precede their users, so descending order visits a node after everything that uses it.
    let mut pending = BTreeMap::from([(y.id(), y.same_type(1.0))]);
    let mut found = BTreeMap::new();
    while let Some((id, ct)) = pending.pop_last() {
        if !depends[id.index()] {
            continue;
        }
        let out = graph.expr(id);
        if wrt.iter().any(|x| x.is_same(out)) {
            found.insert(id, ct);
        }
        let args = out.args();
        let smooth = out.with_node(|n| n.op.carries_gradient());
        let wanted: Vec<bool> = args.iter().map(|a| smooth && depends[a.id().index()]).collect();
        if !wanted.contains(&true) {
            continue;
        }
        let cts = Vjp { args: &args, out, ct, wanted: &wanted }.apply()?;
        for ((arg, ct), _) in args.iter().zip(cts).zip(&wanted).filter(|(_, w)| **w) {
            let Some(ct) = ct else { continue };
            if let Some(error) = ct.error() {
                return Err(error);
            }
            debug_assert_eq!(ct.shape(), arg.shape(), "rule of {}", out.op().name());
            // Sums are formed as contributions arrive: nothing waits, and products can accumulate in place.
            let sum = pending.get(&arg.id()).map_or(ct, |earlier| accumulate(*earlier, ct));
            pending.insert(arg.id(), sum);
        }
    }
    Ok(wrt
        .iter()
        .map(|x| found.get(&x.id()).copied().unwrap_or_else(|| graph.full(x.dtype(), x.shape(), 0.0)))
        .collect())
}
