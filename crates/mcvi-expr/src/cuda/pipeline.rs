//! Convolutions of the same images, one after the other, as a pipeline: a block that has computed a tile of one continues with
//! the same images in the next, without waiting for other blocks.

use super::access::{Access, run, strided};
use super::conv::Convolution;
use super::fuse::Step;
use crate::plan::{ConvPart, Strided};

/// How a convolution is cut by images, and what of it is: every tile touches its own images there, and no others.
struct Images {
    /// All images, and those of a tile.
    count: (usize, usize),
    own: Vec<Access>,
}

impl Images {
    fn of(step: &Step, room: usize) -> Option<Images> {
        let of = Convolution::of(&step.work).filter(|c| c.conv.part != ConvPart::Weight)?;
        let (conv, n) = (of.conv, of.conv.x[0]);
        let count = (n, of.images(room)?);
        let in_memory = conv.with_images(of.extents());
        let ([read, filters], total) = (in_memory.operands(), in_memory.result());
        let mut own = vec![run(conv.from[0], read, false), run(conv.to, total, true)];
        // What tiles also read of other images, even where it is the same run of elements.
        let mut others = vec![run(conv.from[1], filters, false)];
        // Elements in any order, but image by image.
        let by_image = |s: &Strided| {
            let outer = s.dims.first().zip(s.strides.first());
            let whole = s.dims.iter().product::<usize>() == total && s.strides.iter().all(|s| *s > 0);
            s.is_contiguous() || whole && outer.is_some_and(|(d, s)| d % n == 0 && d * s.unsigned_abs() == total)
        };
        for e in of.epilogues {
            if !by_image(&e.map.loads[e.load]) {
                return None;
            }
            for load in &e.map.loads {
                match by_image(load) {
                    true => own.push(run(load.place, total, false)),
                    false => others.push(strided(load, false)),
                }
            }
            own.extend(e.map.stores.iter().map(|s| run(s.to, total, true)));
        }
        own.retain(|access| !others.contains(access));
        Some(Images { count, own })
    }
}

/// Number the pipelines of steps, given what must come before each.
pub(super) fn link(steps: &mut [Step], before: &[Vec<usize>], room: usize) {
    let images: Vec<Option<Images>> = steps.iter().map(|s| Images::of(s, room)).collect();
    let alike = |a: usize, b: usize| match (&images[a], &images[b]) {
        (Some(x), Some(y)) => x.count == y.count,
        _ => false,
    };
    // Whether a step needs of an earlier one only the same images.
    let same = |steps: &[Step], a: usize, b: usize| {
        let (Some(x), Some(y)) = (&images[a], &images[b]) else { return false };
        let pairs = steps[a].touches().iter().flat_map(|s| steps[b].touches().iter().map(move |t| (s, t)));
        let mut conflicts = pairs.filter(|(s, t)| s.conflicts(t));
        conflicts.all(|(s, t)| s.range == t.range && x.own.contains(s) && y.own.contains(t))
    };
    let mut order: Vec<usize> = (0..steps.len()).filter(|&s| images[s].is_some()).collect();
    order.sort_by_key(|&s| (steps[s].level, steps[s].time()));
    // The first and last level of each.
    let mut pipelines: Vec<(usize, usize)> = vec![];
    for s in order {
        let last = before[s].iter().copied().filter(|&b| alike(b, s)).max_by_key(|&b| steps[b].level);
        let pipeline = last.and_then(|b| steps[b].pipeline).filter(|&pipeline| {
            let (first, last) = pipelines[pipeline];
            let late = before[s].iter().filter(|&&b| steps[b].until >= first);
            last < steps[s].level && late.into_iter().all(|&b| steps[b].pipeline == Some(pipeline) && same(steps, b, s))
        });
        let level = steps[s].level;
        let pipeline = pipeline.unwrap_or_else(|| {
            pipelines.push((level, level));
            pipelines.len() - 1
        });
        pipelines[pipeline].1 = level;
        steps[s].pipeline = Some(pipeline);
    }
    // What a pipeline of several touches, others that run meanwhile must not: a tile may be as far as its end.
    for s in steps.iter_mut() {
        s.during = s.pipeline.map_or((s.level, s.until), |c| pipelines[c]);
    }
}
