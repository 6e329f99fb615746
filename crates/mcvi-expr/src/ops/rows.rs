//! Rows of the data: what is computed of some of them alone, and long sums divided into parts that ranks hold.

use crate::graph::{Expr, NodeId, Op, Reduction, Span};
use crate::ranks::Parts;
use crate::shape::Shape;
use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// Some of the elements along an axis; none for all of an expression that has no such axis.
type Cut = Option<(usize, Range<usize>)>;

impl<'g> Expr<'g> {
    /// The same value, its sums over long axes divided: `divide` says into which parts, for an axis of this length. What a part
    /// adds is computed from `z` and the rows of the part alone.
    ///
    /// A sum is left as it is where rows cannot be told apart: where they are computed from each other, in a loop or outside.
    pub fn sums_by_parts(self, z: Expr<'g>, divide: &dyn Fn(usize) -> Option<Parts>) -> Expr<'g> {
        let mut changed: HashMap<NodeId, Expr<'g>> = HashMap::new();
        for e in self.below() {
            if let Some(total) = e.divided(z, divide) {
                changed.insert(e.id(), total);
                continue;
            }
            let (before, mut args) = (e.args(), e.args());
            args.iter_mut().for_each(|arg| *arg = changed.get(&arg.id()).copied().unwrap_or(*arg));
            if args.iter().zip(&before).any(|(a, b)| !a.is_same(*b)) {
                changed.insert(e.id(), e.like(e.op(), &args, e.shape()));
            }
        }
        changed.get(&self.id()).copied().unwrap_or(self)
    }

    /// This sum as one over parts, if it is long and its rows can be told apart.
    fn divided(self, z: Expr<'g>, divide: &dyn Fn(usize) -> Option<Parts>) -> Option<Expr<'g>> {
        let Op::Reduce(Reduction::Sum, axes) = self.op() else { return None };
        let summed = self.args()[0];
        let shape = summed.shape();
        let axis = axes.iter().copied().max_by_key(|&a| shape.dims()[a])?;
        let rows = shape.dims()[axis];
        let parts = divide(rows)?;
        let mut local = HashMap::new();
        let mut each = vec![];
        for (held, part) in parts.mine().enumerate() {
            let here = Some(Here { z, parts: &parts, held, local: &mut local });
            let mut own = Part { here, long: rows, done: HashMap::new() };
            let summed = own.cut(summed, Some((axis, parts.rows(part, rows))))?;
            each.push(self.like(self.op(), &[summed], self.shape()).expand(0));
        }
        Some(self.graph().concat(&each, 0).sum_over_parts(&parts))
    }

    /// Some elements along an axis, computed from as few rows of the data as that takes; none where rows are computed from each other.
    pub fn rows(self, axis: usize, rows: Range<usize>) -> Option<Expr<'g>> {
        let long = *self.shape().dims().get(axis).filter(|long| rows.end <= **long)?;
        Part { here: None, long, done: HashMap::new() }.cut(self, Some((axis, rows)))
    }

    /// The number of elements of the largest array, of those that this is computed from, that depends on `z`.
    pub fn widest(self, z: Expr<'g>) -> usize {
        let mut depends = HashSet::from([z.id()]);
        let mut widest = 0;
        for e in self.below() {
            if e.args().iter().any(|arg| depends.contains(&arg.id())) {
                depends.insert(e.id());
                widest = e.shape().size().max(widest);
            }
        }
        widest
    }

    /// What this is computed from, itself included, operands first.
    fn below(self) -> Vec<Expr<'g>> {
        let (mut seen, mut open) = (HashSet::from([self.id()]), vec![self]);
        while let Some(e) = open.pop() {
            open.extend(e.args().into_iter().filter(|arg| seen.insert(arg.id())));
        }
        let mut below: Vec<NodeId> = seen.into_iter().collect();
        below.sort_unstable();
        below.into_iter().map(|id| self.graph().expr(id)).collect()
    }

    /// An operation on others of the same element type.
    fn like(self, op: Op, args: &[Expr<'g>], shape: Shape) -> Expr<'g> {
        self.graph().build("sum by parts", args, std::panic::Location::caller(), || Ok((op, shape, self.dtype())))
    }
}

/// Some of the rows of the data, and what has been computed of them.
struct Part<'a, 'g> {
    /// If they are a part of a sum.
    here: Option<Here<'a, 'g>>,
    /// The number of rows in all parts.
    long: usize,
    done: HashMap<(NodeId, Cut), Option<Expr<'g>>>,
}

/// A part of a sum that is held here.
struct Here<'a, 'g> {
    z: Expr<'g>,
    parts: &'a Parts,
    /// Which of those held here.
    held: usize,
    /// What all parts see, for those held here.
    local: &'a mut HashMap<NodeId, Expr<'g>>,
}

impl<'g> Part<'_, 'g> {
    /// Some of the rows of an expression, computed from as few rows of what it is computed from; none where they depend on others.
    fn cut(&mut self, e: Expr<'g>, cut: Cut) -> Option<Expr<'g>> {
        let key = (e.id(), cut.clone());
        if let Some(done) = self.done.get(&key) {
            return *done;
        }
        let made = self.make(e, cut);
        self.done.insert(key, made);
        made
    }

    /// What is the same in all parts, in this one.
    fn shared(&mut self, e: Expr<'g>) -> Expr<'g> {
        let Some(here) = &mut self.here else { return e };
        let all = *here.local.entry(e.id()).or_insert_with(|| e.to_parts(here.parts));
        all.slice(0, here.held..here.held + 1).reshape(e.shape())
    }

    fn make(&mut self, e: Expr<'g>, cut: Cut) -> Option<Expr<'g>> {
        let (op, args, shape) = (e.op(), e.args(), e.shape());
        let own_shape = |cut: &Cut| match cut {
            Some((axis, rows)) => shape.with(*axis, rows.len()),
            None => shape.clone(),
        };
        let is_z = self.here.as_ref().is_some_and(|here| e.is_same(here.z));
        if is_z || matches!(op, Op::Input(_) | Op::State(_)) {
            let here = self.shared(e);
            return Some(cut.map_or(here, |(axis, rows)| here.slice(axis, rows)));
        }
        // In which axis of an operand the rows lie.
        let to: Vec<Cut> = match (&op, &cut) {
            (Op::Const(_), _) | (Op::Literal(_), None) => return Some(e),
            (Op::Literal(_), Some((axis, rows))) if rows.len() == shape.dims()[*axis] => return Some(e),
            (Op::Literal(array), Some((axis, rows))) => {
                let mut spans: Vec<Span> = shape.dims().iter().map(|d| Span::whole(*d)).collect();
                spans[*axis] = Span { start: rows.start, len: rows.len(), step: 1 };
                return Some(e.graph().known(Op::Slice(spans), &[e], || array.part(*axis, rows.clone())));
            }
            // What is here, if it is among these rows.
            (Op::Held(first), Some((0, rows))) => {
                let (held, from) = (args[0], rows.start.checked_sub(*first)?);
                let here = held.shape().dims()[0];
                let within = (from + rows.len() <= here).then(|| from..from + rows.len())?;
                return self.cut(held, Some((0, within)));
            }
            (
                Op::Held(_)
                | Op::Noise(..)
                | Op::External(..)
                | Op::SumParts(..)
                | Op::ToParts(_)
                | Op::Scan(_)
                | Op::Part(_)
                | Op::Placeholder(_)
                | Op::Poison(_),
                _,
            ) => return None,
            // All rows are needed here.
            (Op::Reduce(_, axes), None) if axes.iter().any(|a| args[0].shape().dims()[*a] == self.long) => return None,
            (_, None) => vec![None; args.len()],
            (_, Some((axis, rows))) => operands(&op, &args, &shape, (*axis, rows))?,
        };
        let args: Vec<Expr<'g>> = args.iter().zip(to).map(|(arg, cut)| self.cut(*arg, cut)).collect::<Option<_>>()?;
        let op = match (op, &cut) {
            (Op::Slice(mut spans), Some((axis, rows))) => {
                // The operand has been cut already.
                spans[*axis] = Span { start: 0, len: rows.len(), step: spans[*axis].step };
                Op::Slice(spans)
            }
            (op, _) => op,
        };
        match op {
            // What takes all of its operand is that operand.
            Op::Slice(_) | Op::Broadcast | Op::Reshape if args[0].shape() == own_shape(&cut) => Some(args[0]),
            op => Some(e.like(op, &args, own_shape(&cut))),
        }
    }
}

/// The rows of each operand that some rows along an axis of an operation are computed from; none if they need others.
fn operands(op: &Op, args: &[Expr<'_>], shape: &Shape, (axis, rows): (usize, &Range<usize>)) -> Option<Vec<Cut>> {
    let of = |i: usize| args[i].shape();
    let at = |axis: usize| Some((axis, rows.clone()));
    Some(match op {
        Op::Unary(_) | Op::Binary(_) | Op::Select | Op::Cast | Op::StopGradient | Op::Opaque => {
            vec![at(axis); args.len()]
        }
        Op::Broadcast => {
            let own = (axis + of(0).rank()).checked_sub(shape.rank()).filter(|own| of(0).dims()[*own] > 1);
            vec![own.and_then(at)]
        }
        Op::Reshape => {
            let before = |shape: &Shape, axis: usize| shape.dims()[..axis].iter().product::<usize>();
            let is_same =
                |own: &usize| of(0).dims()[*own] == shape.dims()[axis] && before(&of(0), *own) == before(shape, axis);
            vec![at((0..of(0).rank()).find(is_same)?)]
        }
        Op::Permute(order) => vec![at(order[axis])],
        Op::Slice(spans) => {
            let Span { start, step, .. } = spans[axis];
            vec![Some((axis, start + rows.start * step..start + (rows.end - 1) * step + 1))]
        }
        Op::Concat(along) if *along != axis => vec![at(axis); args.len()],
        Op::Reduce(_, axes) => vec![at((0..of(0).rank()).filter(|a| !axes.contains(a)).nth(axis)?)],
        Op::CumSum { axis: along, .. } if *along != axis => vec![at(axis)],
        Op::MatMul { ta, tb } => match shape.rank() - axis {
            1 => vec![None, at(axis - usize::from(*tb))],
            2 => vec![at(axis + usize::from(*ta)), None],
            _ => vec![at(axis); 2],
        },
        Op::TriSolve { .. } => match shape.rank() - axis {
            1 => vec![None, at(axis)],
            2 => return None,
            _ => vec![at(axis); 2],
        },
        Op::Cholesky if axis + 2 < shape.rank() => vec![at(axis)],
        Op::Take(along) => match axis.checked_sub(*along) {
            None => vec![at(axis), None],
            Some(place) if place < of(1).rank() => vec![None, at(place)],
            Some(_) => vec![at(axis + 1 - of(1).rank()), None],
        },
        _ => return None,
    })
}
