//! Maps taken apart: into parts that have nothing to do with each other, and into one pass for each kind of reduction.

use crate::plan::{Map, Over, Store, Value};
use std::collections::HashSet;

/// A map as parts that share no operation.
pub(super) fn parts(map: &Map) -> Vec<Map> {
    let read: HashSet<u32> = map.loads.iter().map(|l| l.place.buf.0).collect();
    // What overwrites something the map reads must stay with what reads it.
    if map.stores.iter().any(|s| read.contains(&s.to.buf.0)) {
        return vec![map.clone()];
    }
    let mut group: Vec<usize> = (0..map.ops.len()).collect();
    fn root(group: &mut [usize], mut i: usize) -> usize {
        while group[i] != i {
            group[i] = group[group[i]];
            i = group[i];
        }
        i
    }
    for (i, op) in map.ops.iter().enumerate() {
        for value in &op.args {
            if let Value::Op(j) = value {
                let (a, b) = (root(&mut group, i), root(&mut group, *j));
                group[a] = b;
            }
        }
    }
    // Results by the group they belong to; what is stored as it was read forms its own group.
    let mut key = |v: Value| if let Value::Op(i) = v { root(&mut group, i) } else { usize::MAX };
    let keys: Vec<usize> =
        map.stores.iter().map(|s| s.value).chain(map.reduces.iter().map(|r| r.value)).map(&mut key).collect();
    let mut found: Vec<usize> = vec![];
    for &k in &keys {
        if !found.contains(&k) {
            found.push(k);
        }
    }
    if found.len() < 2 {
        return vec![map.clone()];
    }
    let part = |k: usize| {
        let stores = map.stores.iter().zip(&keys).filter(|(_, g)| **g == k).map(|(s, _)| s.clone()).collect();
        let rest = &keys[map.stores.len()..];
        let reduces = map.reduces.iter().zip(rest).filter(|(_, g)| **g == k).map(|(r, _)| r.clone()).collect();
        trimmed(Map { stores, reduces, ..map.clone() })
    };
    found.into_iter().map(part).collect()
}

/// A map without what its results do not need.
pub(super) fn trimmed(map: Map) -> Map {
    let mut op_used = vec![false; map.ops.len()];
    let mut load_used = vec![false; map.loads.len()];
    let mut mark = |v: &Value, ops: &mut [bool]| match v {
        Value::Op(i) => ops[*i] = true,
        Value::Load(i) => load_used[*i] = true,
        Value::Const(_) => {}
    };
    map.stores.iter().for_each(|s| mark(&s.value, &mut op_used));
    map.reduces.iter().for_each(|r| mark(&r.value, &mut op_used));
    for i in (0..map.ops.len()).rev() {
        // The second result of a pair is computed by the operation before it.
        if op_used[i] {
            map.ops[i].args.iter().for_each(|v| mark(v, &mut op_used));
        }
    }
    let number = |used: &[bool]| -> Vec<usize> {
        used.iter()
            .scan(0, |n, u| {
                *n += usize::from(*u);
                Some(n.saturating_sub(1))
            })
            .collect()
    };
    let (op_number, load_number) = (number(&op_used), number(&load_used));
    let renamed = |v: Value| match v {
        Value::Op(i) => Value::Op(op_number[i]),
        Value::Load(i) => Value::Load(load_number[i]),
        c => c,
    };
    let mut out = map;
    let mut kept = op_used.iter();
    out.ops.retain(|_| *kept.next().unwrap_or(&true));
    let mut kept = load_used.iter();
    out.loads.retain(|_| *kept.next().unwrap_or(&true));
    out.ops.iter_mut().flat_map(|o| &mut o.args).for_each(|v| *v = renamed(*v));
    out.stores.iter_mut().for_each(|s| s.value = renamed(s.value));
    out.reduces.iter_mut().for_each(|r| r.value = renamed(r.value));
    out
}

/// One kind of reduction at a time: each kind has its own way over the elements.
pub(super) fn passes(map: Map) -> Vec<Map> {
    let kinds = [Over::Rows, Over::Columns, Over::All];
    let kinds: Vec<Over> = kinds.into_iter().filter(|k| map.reduces.iter().any(|r| r.over == *k)).collect();
    if kinds.len() < 2 {
        return vec![map];
    }
    let last = kinds.len() - 1;
    let pass = |(i, kind): (usize, &Over)| {
        let reduces = map.reduces.iter().filter(|r| r.over == *kind).cloned().collect();
        // Stores come last: they may overwrite what the map reads.
        let stores: Vec<Store> = if i == last { map.stores.clone() } else { vec![] };
        trimmed(Map { reduces, stores, ..map.clone() })
    };
    kinds.iter().enumerate().map(pass).collect()
}
