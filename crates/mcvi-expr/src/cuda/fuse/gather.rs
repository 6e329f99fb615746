//! Sums of gradients of filters, accumulated in the partial sums they are combined from: one combination for all of them, and
//! no sums in between.

use super::*;
use crate::graph::Reduction;
use crate::table::{Binary, Function};

/// The steps that compute a gradient of filters, where its partial sums are, and what they are combined into.
struct Gradient {
    conv: usize,
    combine: usize,
    partial: Place,
    to: Place,
    parts: usize,
    len: usize,
    accumulated: bool,
}

impl Steps {
    /// Add a gradient of filters to a sum of two: it is added to the partial sums of the earlier of these, so that two of them can
    /// be computed at a time, and all are combined in the end. `once` says whether what is at a place is read by one step only.
    pub(super) fn gather(&mut self, map: &Map, once: impl Fn(Place) -> bool) -> bool {
        let Some([left, right]) = sum(map).filter(|loads| loads.iter().all(|&l| once(l))) else { return false };
        let found = [(left, right), (right, left)].into_iter().find_map(|(pair, single)| {
            let (add, parts) = self.pair(pair)?;
            parts.iter().all(|g| once(g.to)).then_some(())?;
            Some((add, parts, self.gradient(single)?))
        });
        let Some((add, [a, b], c)) = found else { return false };
        let (a, b) = if self.steps[a.conv].time < self.steps[b.conv].time { (a, b) } else { (b, a) };
        let same = (a.parts, a.len, map.total) == (c.parts, c.len, a.len);
        if !same || c.accumulated || self.depended_on_by_others(c.conv, Some(c.combine)) {
            return false;
        }
        let (combine, mut work) = (self.steps[a.combine].work.clone(), self.steps[c.conv].work.clone());
        if let Work::Conv { conv, accumulate, .. } = &mut work {
            (conv.to, *accumulate) = (a.partial, true);
        }
        for gone in [add, a.combine, c.combine] {
            self.steps[gone].touches.clear();
        }
        self.replace(c.conv, work);
        self.replace(a.combine, combine);
        let mut map = map.clone();
        (map.loads[0].place, map.loads[1].place) = (a.to, b.to);
        self.push(Work::Plan(Kernel::Map(map)));
        true
    }

    /// Two gradients of filters whose sum is at `place`, and the step that adds them.
    fn pair(&self, place: Place) -> Option<(usize, [Gradient; 2])> {
        let add = self.writer(place)?;
        let Work::Plan(Kernel::Map(map)) = &self.steps[add].work else { return None };
        let [left, right] = sum(map).filter(|_| map.stores[0].to == place)?;
        let both = [self.gradient(left)?, self.gradient(right)?];
        // All of them, not the first part of an array that has others.
        both.iter().all(|g| g.len == map.total).then_some((add, both))
    }

    /// The last step that writes at a place.
    fn writer(&self, place: Place) -> Option<usize> {
        let writes = |s: &Step| s.touches.iter().any(|t| t.write && t.buf == place.buf && t.range.start == place.first);
        let of = self.of.get(&place.buf.0)?.iter().copied();
        of.filter(|&s| writes(&self.steps[s])).max_by_key(|&s| self.steps[s].time)
    }

    /// The gradient of filters that is combined from partial sums into `place`.
    fn gradient(&self, place: Place) -> Option<Gradient> {
        let combine = self.writer(place)?;
        let Work::Plan(Kernel::Combine { how: Reduction::Sum, parts, len, from, to, .. }) = self.steps[combine].work
        else {
            return None;
        };
        let conv = self.writer(from)?;
        let Work::Conv { conv: Conv { part: ConvPart::Weight, .. }, accumulate, .. } = self.steps[conv].work else {
            return None;
        };
        (to == place).then_some(Gradient { conv, combine, partial: from, to, parts, len, accumulated: accumulate })
    }
}

/// The operands of a map that is a sum of two arrays and nothing else.
fn sum(map: &Map) -> Option<[Place; 2]> {
    let ([left, right], [op], [store], []) = (&map.loads[..], &map.ops[..], &map.stores[..], &map.reduces[..]) else {
        return None;
    };
    let add = op.function == Function::Binary(Binary::Add) && store.value == Value::Op(0);
    let apart = matches!(op.args[..], [Value::Load(i), Value::Load(j)] if i != j);
    (add && apart && left.is_contiguous() && right.is_contiguous()).then_some([left.place, right.place])
}
