//! What the threads of a team walk through: work for one of them, tiles for all, and loops of both.

use super::tape::Draft;
use super::{Job, Layout, job};
use crate::plan::Kernel;
use std::ops::Range;
use std::sync::atomic::AtomicUsize;

/// A level cheaper than this (in nanoseconds) is not worth waking other threads for.
const WORTH_SHARING: f64 = 8000.0;

pub(super) enum Segment {
    /// The tape of this number, for the first thread.
    Alone(usize),
    /// Tiles of independent jobs, the heaviest jobs first; the counter hands them out.
    Shared(Vec<(u32, u32)>, AtomicUsize),
    /// Segments that are walked through for each row.
    Loop { length: usize, reverse: bool, body: Vec<Segment> },
}

/// Makes jobs and segments of kernels.
pub(super) struct Builder<'a> {
    layout: &'a Layout<'a>,
    arena_bytes: usize,
    /// In the order of the kernels, those of a loop in its place.
    pub jobs: Vec<Box<dyn Job>>,
    pub drafts: Vec<Draft>,
    pub cost: Cost,
    /// How often what is added is run in a step.
    times: f64,
}

/// Rough nanoseconds of a step on one thread.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cost {
    pub total: f64,
    /// Of what threads share.
    pub shared: f64,
}

impl<'a> Builder<'a> {
    pub fn new(layout: &'a Layout<'a>, arena_bytes: usize) -> Self {
        Builder { layout, arena_bytes, jobs: vec![], drafts: vec![], cost: Cost::default(), times: 1.0 }
    }

    /// Segments for levels of kernels, and the number of the one that completes each kernel.
    pub fn segments(&mut self, kernels: &[Kernel], levels: &[Range<usize>]) -> (Vec<Segment>, Vec<usize>) {
        let (mut out, mut segment_of) = (vec![], vec![0; kernels.len()]);
        for level in levels {
            // Jobs are made in the order of the kernels; loops run after what else there is.
            let (mut plain, mut jobs, mut loops) = (vec![], vec![], vec![]);
            for k in level.clone() {
                if let Kernel::Loop(l) = &kernels[k] {
                    let before: Vec<usize> = l.before.iter().map(|k| self.job(k)).collect();
                    let times = self.times;
                    self.times *= l.length as f64;
                    let body = self.segments(&l.kernels, &l.levels).0;
                    self.times = times;
                    loops.push((k, before, Segment::Loop { length: l.length, reverse: l.reverse, body }));
                } else {
                    jobs.push(self.job(&kernels[k]));
                    plain.push(k);
                }
            }
            self.level(jobs, &mut out);
            plain.into_iter().for_each(|k| segment_of[k] = out.len() - 1);
            for (k, before, body) in loops {
                self.level(before, &mut out);
                out.push(body);
                segment_of[k] = out.len() - 1;
            }
        }
        (out, segment_of)
    }

    fn job(&mut self, kernel: &Kernel) -> usize {
        self.jobs.push(job(kernel, self.layout));
        self.jobs.len() - 1
    }

    /// Add jobs that do not depend on each other: tiles to share, or more work for one thread.
    fn level(&mut self, mut order: Vec<usize>, out: &mut Vec<Segment>) {
        if order.is_empty() {
            return;
        }
        let jobs = &self.jobs;
        let cost: f64 = order.iter().map(|&j| jobs[j].cost()).sum();
        let tiles: usize = order.iter().map(|&j| jobs[j].tiles()).sum();
        self.cost.total += cost * self.times;
        if cost >= WORTH_SHARING && tiles >= 2 {
            self.cost.shared += cost * self.times;
            let weight = |j: usize| jobs[j].cost() / jobs[j].tiles() as f64;
            order.sort_by(|&a, &b| weight(b).total_cmp(&weight(a)));
            let tiles = order.iter().flat_map(|&j| (0..jobs[j].tiles()).map(move |t| (j as u32, t as u32)));
            return out.push(Segment::Shared(tiles.collect(), AtomicUsize::new(0)));
        }
        if !matches!(out.last(), Some(Segment::Alone(_))) {
            self.drafts.push(Draft::new(self.arena_bytes));
            out.push(Segment::Alone(self.drafts.len() - 1));
        }
        let Some(Segment::Alone(tape)) = out.last() else { return };
        let draft = &mut self.drafts[*tape];
        for j in order {
            if !jobs[j].write_out(draft) {
                draft.job(j);
            }
        }
    }
}
