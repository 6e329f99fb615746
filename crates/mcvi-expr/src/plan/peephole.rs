//! Peephole optimisation: improvements of a few operations within one fused kernel.

use super::{Map, MapOp, Value};
use crate::table::{Binary, Function, Pair};

/// Compute two functions of the same operands at once where they share most of their work.
pub(super) fn pairs(map: &mut Map) {
    for pair in Pair::ALL {
        let [one, other] = pair.both();
        let mut from = 0;
        while let Some(i) = (from..map.ops.len()).find(|&i| map.ops[i].function == one) {
            from = i + 1;
            let same = |j: &usize| map.ops[*j].args == map.ops[i].args;
            let Some(j) = (0..map.ops.len()).filter(|j| map.ops[*j].function == other).find(same) else { continue };
            // The pair takes the place of whichever came first: its operands are there.
            let (first, second) = (i.min(j), i.max(j));
            let args = map.ops[i].args.clone();
            map.ops.remove(second);
            map.ops[first] = MapOp { function: Function::Pair(pair), args };
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
        map.ops[i].function = Function::MUL_ADD;
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
