//! Improvements within one fused kernel, and what its operations cost.

use super::{Function, Map, MapOp, Value};
use crate::ops::{Binary, Unary};

/// Roughly the nanoseconds an element of type f64 takes on one core.
pub(super) fn cost(function: Function) -> f64 {
    match function {
        Function::Unary(u) => match u {
            Unary::Neg | Unary::Square | Unary::Abs | Unary::Sign | Unary::Floor => 0.1,
            Unary::Recip | Unary::Sqrt => 0.4,
            Unary::Exp | Unary::Ln | Unary::Sigmoid => 0.8,
            Unary::Expm1 | Unary::Log1p | Unary::Softplus | Unary::Tanh | Unary::Sin | Unary::Cos | Unary::Erf => 1.5,
            Unary::Lgamma | Unary::Polygamma(0 | 1) => 1.5,
            Unary::Polygamma(_) => 200.0,
        },
        Function::Binary(b) => match b {
            Binary::Div => 0.4,
            Binary::Pow => 20.0,
            Binary::PolygammaDiff(0..=2) => 2.0,
            Binary::PolygammaDiff(_) => 400.0,
            _ => 0.1,
        },
        Function::Select | Function::MulAdd => 0.1,
        Function::DiffPair(_) => 2.5,
        Function::Second => 0.0,
    }
}

/// Compute two orders of a difference of polygamma functions at once where both are wanted: they share most of the work.
pub(super) fn pair_differences(map: &mut Map) {
    // Digamma with trigamma first; lgamma with digamma where that is left.
    for order in [1, 0] {
        let find = |map: &Map, k: u32, from: usize| {
            let wanted = Function::Binary(Binary::PolygammaDiff(k));
            (from..map.ops.len()).find(|&i| map.ops[i].function == wanted)
        };
        let mut from = 0;
        while let Some(i) = find(map, order, from) {
            from = i + 1;
            let same = |j: &usize| map.ops[*j].args == map.ops[i].args;
            let next = Function::Binary(Binary::PolygammaDiff(order + 1));
            let Some(j) = (0..map.ops.len()).filter(|j| map.ops[*j].function == next).find(same) else { continue };
            // The pair takes the place of whichever came first: its operands are there.
            let (first, second) = (i.min(j), i.max(j));
            let args = map.ops[i].args.clone();
            map.ops.remove(second);
            map.ops[first] = MapOp { function: Function::DiffPair(order), args };
            map.ops.insert(first + 1, MapOp { function: Function::Second, args: vec![Value::Op(first)] });
            let moved = |x: usize| match x {
                x if x == i => first,
                x if x == j => first + 1,
                x if x > first && x < second => x + 1,
                x => x,
            };
            let rename = |value: &mut Value| {
                if let Value::Op(x) = value {
                    *x = moved(*x);
                }
            };
            for (at, op) in map.ops.iter_mut().enumerate() {
                if at != first + 1 {
                    op.args.iter_mut().for_each(rename);
                }
            }
            map.stores.iter_mut().map(|s| &mut s.value).for_each(rename);
            map.reduces.iter_mut().map(|r| &mut r.value).for_each(rename);
            from = first + 2;
        }
    }
}

/// Join products with the sums that are their only use: one operation less, one rounding less.
pub(super) fn multiply_add(map: &mut Map) {
    let mut uses = vec![0; map.ops.len()];
    let args = map.ops.iter().flat_map(|op| &op.args);
    let outs = map.stores.iter().map(|s| &s.value).chain(map.reduces.iter().map(|r| &r.value));
    for value in args.chain(outs) {
        if let Value::Op(i) = value {
            uses[*i] += 1;
        }
    }
    let mut gone = vec![false; map.ops.len()];
    for i in 0..map.ops.len() {
        if map.ops[i].function != Function::Binary(Binary::Add) {
            continue;
        }
        let product = map.ops[i].args.iter().position(|v| match v {
            Value::Op(j) => uses[*j] == 1 && map.ops[*j].function == Function::Binary(Binary::Mul),
            _ => false,
        });
        let Some(side) = product else { continue };
        let Value::Op(j) = map.ops[i].args[side] else { continue };
        let (factors, addend) = (map.ops[j].args.clone(), map.ops[i].args[1 - side]);
        map.ops[i].function = Function::MulAdd;
        map.ops[i].args = vec![factors[0], factors[1], addend];
        gone[j] = true;
    }
    // Renumber what is left.
    let mut number = 0;
    let renumbered: Vec<usize> = gone
        .iter()
        .map(|gone| {
            number += usize::from(!gone);
            number.saturating_sub(1)
        })
        .collect();
    let rename = |value: &mut Value| {
        if let Value::Op(i) = value {
            *i = renumbered[*i];
        }
    };
    map.ops.iter_mut().flat_map(|op| &mut op.args).for_each(rename);
    map.stores.iter_mut().map(|s| &mut s.value).for_each(rename);
    map.reduces.iter_mut().map(|r| &mut r.value).for_each(rename);
    let mut gone = gone.into_iter();
    map.ops.retain(|_| !gone.next().unwrap_or(false));
}
