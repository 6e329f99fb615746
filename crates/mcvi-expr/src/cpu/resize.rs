//! Resizing of images.

use super::arena::Arena;
use super::sources::Float;
use super::{At, Ctx, Job, Layout};
use crate::plan::Kernel;

pub(super) fn job<T: Float>(kernel: &Kernel, layout: &Layout<'_>) -> Box<dyn Job> {
    let &Kernel::Resize { planes, small, large, up, from, to, .. } = kernel else {
        unreachable!("called for resizing");
    };
    let columns = (0..large[1]).map(|x| x * small[1] / large[1]).collect();
    Box::new(ResizeJob { planes, small, large, up, columns, from: layout.at::<T>(from), to: layout.at(to) })
}

struct ResizeJob<T> {
    planes: usize,
    small: [usize; 2],
    large: [usize; 2],
    up: bool,
    /// The column of the small image for each of the large one.
    columns: Vec<usize>,
    from: At<T>,
    to: At<T>,
}

impl<T: Float> ResizeJob<T> {
    const PLANES: usize = 32;
}

impl<T: Float> Job for ResizeJob<T> {
    fn tiles(&self) -> usize {
        self.planes.div_ceil(Self::PLANES)
    }
    fn cost(&self) -> f64 {
        20.0 + (self.planes * self.large[0] * self.large[1]) as f64
    }
    unsafe fn run(&self, ctx: &Ctx<'_>, tile: usize, _: &mut Arena) {
        let ([h, w], [hh, ww]) = (self.small, self.large);
        let (small, large) = (h * w, hh * ww);
        for plane in tile * Self::PLANES..((tile + 1) * Self::PLANES).min(self.planes) {
            let (read, written) = if self.up { (small, large) } else { (large, small) };
            // SAFETY: the plan's extents describe complete buffers; the tile owns its planes of the result.
            let (from, to) = unsafe {
                let from = std::slice::from_raw_parts(ctx.ptr(self.from).add(plane * read), read);
                (from, std::slice::from_raw_parts_mut(ctx.ptr(self.to).add(plane * written), written))
            };
            if !self.up {
                to.fill(T::of(0.0));
            }
            for y in 0..hh {
                // The nearest pixel of the small image: ⌊y · h / H⌋.
                let (row, wide) = (y * h / hh * w, y * ww..(y + 1) * ww);
                if self.up {
                    let from = &from[row..row + w];
                    to[wide].iter_mut().zip(&self.columns).for_each(|(to, x)| *to = from[*x]);
                } else {
                    let to = &mut to[row..row + w];
                    from[wide].iter().zip(&self.columns).for_each(|(from, x)| to[*x] = to[*x].plus(*from));
                }
            }
        }
    }
}
