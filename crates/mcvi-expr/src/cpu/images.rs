//! Convolutions (as matrix products over unrolled patches) and resizing.

use super::arena::Arena;
use super::micro::Level;
use super::product::{Block, Factors, multiply};
use super::sources::Float;
use super::{At, Ctx, Job, Layout};
use crate::plan::{Conv, ConvPart, IMAGES_PER_TILE, Kernel};

pub(super) fn conv<T: Float>(c: &Conv, layout: &Layout<'_>) -> Box<dyn Job> {
    let from = [layout.at::<T>(c.from[0]), layout.at(c.from[1])];
    Box::new(ConvJob { c: c.clone(), from, to: layout.at(c.to), level: layout.level })
}

struct ConvJob<T> {
    c: Conv,
    from: [At<T>; 2],
    to: At<T>,
    level: Level,
}

impl<T: Float> ConvJob<T> {
    /// Rows and columns of the matrix of patches of one image: filter elements by output pixels.
    fn patches(&self) -> (usize, usize) {
        let ([_, c, fh, fw], [_, _, oh, ow]) = (self.c.f, self.c.y);
        (c * fh * fw, oh * ow)
    }

    /// For each filter element (rows) and each output row, the input row it meets and the range of output columns for
    /// which it meets a pixel, passed as `(patch index of column 0, image index of column 0, columns)`.
    fn rows(&self, mut f: impl FnMut(usize, Option<(usize, isize, std::ops::Range<usize>)>)) {
        let ([_, c, h, w], [_, _, fh, fw], [_, _, oh, ow]) = (self.c.x, self.c.f, self.c.y);
        let (stride, before) = (self.c.window.stride, self.c.window.before);
        for (channel, i, j) in (0..c).flat_map(|c| (0..fh).flat_map(move |i| (0..fw).map(move |j| (c, i, j)))) {
            let row = (channel * fh + i) * fw + j;
            // Columns x with 0 ≤ x · stride + j − before < w.
            let low = before.saturating_sub(j).div_ceil(stride).min(ow);
            let high = (w + before).saturating_sub(j).div_ceil(stride).clamp(low, ow);
            for y in 0..oh {
                let patch = (row * oh + y) * ow;
                match (y * stride + i).checked_sub(before).filter(|&r| r < h) {
                    Some(r) => {
                        f(patch, Some((patch, ((channel * h + r) * w + j) as isize - before as isize, low..high)))
                    }
                    None => f(patch, None),
                }
            }
        }
    }

    /// Unroll an image into patches.
    fn unroll(&self, image: &[T], patches: &mut [T]) {
        let (ow, stride) = (self.c.y[3], self.c.window.stride);
        self.rows(|patch, met| {
            let row = &mut patches[patch..patch + ow];
            let Some((_, first, columns)) = met.filter(|(.., columns)| !columns.is_empty()) else {
                return row.fill(T::of(0.0));
            };
            row[..columns.start].fill(T::of(0.0));
            row[columns.end..].fill(T::of(0.0));
            let pixels = &image[(first + (columns.start * stride) as isize) as usize..];
            let row = &mut row[columns];
            if stride == 1 {
                row.copy_from_slice(&pixels[..row.len()]);
            } else {
                row.iter_mut().zip(pixels.iter().step_by(stride)).for_each(|(to, pixel)| *to = *pixel);
            }
        });
    }

    /// Add patches back to the image they came from.
    fn roll(&self, patches: &[T], image: &mut [T]) {
        let stride = self.c.window.stride;
        image.fill(T::of(0.0));
        self.rows(|_, met| {
            let Some((patch, first, columns)) = met.filter(|(.., columns)| !columns.is_empty()) else { return };
            let pixels = &mut image[(first + (columns.start * stride) as isize) as usize..];
            let row = &patches[patch + columns.start..patch + columns.end];
            if stride == 1 {
                pixels.iter_mut().zip(row).for_each(|(pixel, x)| *pixel = pixel.plus(*x));
            } else {
                pixels.iter_mut().step_by(stride).zip(row).for_each(|(pixel, x)| *pixel = pixel.plus(*x));
            }
        });
    }
}

impl<T: Float> Job for ConvJob<T> {
    fn tiles(&self) -> usize {
        self.c.x[0].div_ceil(IMAGES_PER_TILE)
    }

    fn cost(&self) -> f64 {
        let (rows, pixels) = self.patches();
        (self.c.x[0] * rows * pixels) as f64 * (2.0 * self.c.f[0] as f64 / 50.0 + 1.0)
    }

    fn scratch(&self) -> usize {
        let (rows, pixels) = self.patches();
        (rows * pixels + T::SCRATCH) * size_of::<T>()
    }

    unsafe fn run(&self, ctx: &Ctx<'_>, tile: usize, scratch: &mut Arena) {
        let (rows, pixels) = self.patches();
        let outputs = self.c.f[0];
        let image: usize = self.c.x[1..].iter().product();
        let result = outputs * pixels;
        let first = tile * IMAGES_PER_TILE;
        let last = (first + IMAGES_PER_TILE).min(self.c.x[0]);
        // SAFETY: scratch holds the patches of one image and what a product needs; the plan's extents describe complete
        // buffers, and the tile owns its images of the result, or its own partial sum of the filters.
        unsafe {
            let patches = scratch.bytes().as_mut_ptr().cast::<T>();
            let rest = patches.add(rows * pixels);
            let (left, right, to) = (ctx.ptr(self.from[0]), ctx.ptr(self.from[1]), ctx.ptr(self.to));
            let multiply = |m, n, k, a: *mut T, a_strides, b: *mut T, b_strides, to, accumulate| {
                let factors = Factors { k, a: a.cast_const(), a_strides, b: b.cast_const(), b_strides };
                multiply(self.level, &Block { m, n, to, to_row: n as isize, accumulate }, &[factors], rest);
            };
            let (tall, wide) = (rows as isize, pixels as isize);
            let unroll = |i: usize| {
                let image = std::slice::from_raw_parts(left.add(i * image), image);
                self.unroll(image, std::slice::from_raw_parts_mut(patches, rows * pixels));
            };
            for i in first..last {
                match self.c.part {
                    ConvPart::Output => {
                        unroll(i);
                        let to = to.add(i * result);
                        multiply(outputs, pixels, rows, right, (tall, 1), patches, (wide, 1), to, false);
                    }
                    ConvPart::Input => {
                        let y = left.add(i * result);
                        multiply(rows, pixels, outputs, right, (1, tall), y, (wide, 1), patches, false);
                        let to = std::slice::from_raw_parts_mut(to.add(i * image), image);
                        self.roll(std::slice::from_raw_parts(patches, rows * pixels), to);
                    }
                    ConvPart::Weight => {
                        unroll(i);
                        let (y, to) = (right.add(i * result), to.add(tile * outputs * rows));
                        multiply(outputs, rows, pixels, y, (wide, 1), patches, (1, wide), to, i > first);
                    }
                }
            }
        }
    }
}

pub(super) fn resize<T: Float>(kernel: &Kernel, layout: &Layout<'_>) -> Box<dyn Job> {
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
