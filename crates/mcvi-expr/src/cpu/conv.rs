//! Convolutions as sums of matrix products, one for each element of the filter, over images that are laid out so that no patch
//! is ever copied.
//!
//! An image is given its borders and stored row after row. An element of the filter then meets, for all output pixels, the same
//! pixels a fixed distance further on: a product of the filters' values there (outputs by channels) with the shifted image
//! (channels by pixels). Where rows meet, some columns are computed and not used. With a stride the image is first sorted by row and
//! column modulo the stride into *phases*, within each of which the stride is one.

use super::arena::Arena;
use super::micro::Level;
use super::product::{Block, Factors, multiply};
use super::sources::Float;
use super::{At, Ctx, Job, Layout};
use crate::plan::{Conv, ConvPart, IMAGES_PER_TILE, MAX_TERMS};

pub(super) fn job<T: Float>(c: &Conv, layout: &Layout<'_>) -> Box<dyn Job> {
    let from = [layout.at::<T>(c.from[0]), layout.at(c.from[1])];
    Box::new(ConvJob { sizes: Sizes::new(c), part: c.part, from, to: layout.at(c.to), level: layout.level })
}

struct ConvJob<T> {
    sizes: Sizes,
    part: ConvPart,
    from: [At<T>; 2],
    to: At<T>,
    level: Level,
}

/// One element of the filter.
#[derive(Clone, Copy)]
struct Element {
    /// Its number in the filter.
    number: usize,
    /// The phase it meets, and how many rows and columns of it further on.
    phase: usize,
    down: usize,
    right: usize,
}

/// Extents: `images` of `channels` by `input` pixels become `outputs` by `output` pixels.
struct Sizes {
    images: usize,
    channels: usize,
    outputs: usize,
    input: [usize; 2],
    output: [usize; 2],
    /// By phase.
    elements: Vec<Element>,
    stride: usize,
    before: usize,
    /// Rows and columns that phases have more than the output.
    more: [usize; 2],
}

impl Sizes {
    fn new(c: &Conv) -> Self {
        let ([images, channels, h, w], [outputs, _, fh, fw], [_, _, oh, ow]) = (c.x, c.f, c.y);
        let stride = c.window.stride;
        let element = |number: usize| {
            let (i, j) = (number / fw, number % fw);
            Element { number, phase: i % stride * stride + j % stride, down: i / stride, right: j / stride }
        };
        let mut elements: Vec<Element> = (0..fh * fw).map(element).collect();
        elements.sort_by_key(|e| e.phase);
        Sizes {
            images,
            channels,
            outputs,
            input: [h, w],
            output: [oh, ow],
            elements,
            stride,
            before: c.window.before,
            more: [(fh - 1) / stride, (fw - 1) / stride],
        }
    }

    fn phases(&self) -> usize {
        self.stride * self.stride
    }

    /// Rows and columns of a phase.
    fn phase(&self) -> [usize; 2] {
        [self.output[0] + self.more[0], self.output[1] + self.more[1]]
    }

    /// Elements from the first output pixel to the last, where rows are as far apart as in a phase.
    fn span(&self) -> usize {
        (self.output[0] - 1) * self.phase()[1] + self.output[1]
    }

    fn filter(&self) -> usize {
        self.outputs * self.channels
    }

    /// Pixels of an image's row or column (`axis`) that phase number `part` along it holds: the first of them, their place
    /// in the phase, and how many.
    fn met(&self, axis: usize, part: usize) -> (usize, usize, usize) {
        // Place u of the phase is pixel u · stride + part − before.
        let first = self.before.saturating_sub(part).div_ceil(self.stride);
        let pixel = first * self.stride + part - self.before;
        let left = self.input[axis].saturating_sub(pixel).div_ceil(self.stride);
        (pixel, first, left.min(self.phase()[axis].saturating_sub(first)))
    }

    /// Calls `f` with the index of a pixel in a channel, its place in its phase, and how many follow in that row, for each
    /// row of each phase: `f(phase, pixel, place, count)`.
    fn rows(&self, mut f: impl FnMut(usize, usize, usize, usize)) {
        let (w, wide) = (self.input[1], self.phase()[1]);
        for phase in 0..self.phases() {
            let (row, top, rows) = self.met(0, phase / self.stride);
            let (column, left, columns) = self.met(1, phase % self.stride);
            if columns > 0 {
                for r in 0..rows {
                    f(phase, (row + r * self.stride) * w + column, (top + r) * wide + left, columns);
                }
            }
        }
    }
}

/// A phase's part of the gradient of images: the pixels there are, and the outputs with borders that they follow from.
struct Frame<'a> {
    s: &'a Sizes,
    /// The first pixel, its place in the phase and how many there are, of rows and of columns.
    rows: (usize, usize, usize),
    columns: (usize, usize, usize),
}

impl<'a> Frame<'a> {
    fn new(s: &'a Sizes, phase: usize) -> Self {
        Frame { s, rows: s.met(0, phase / s.stride), columns: s.met(1, phase % s.stride) }
    }

    /// Columns with their borders.
    fn wide(&self) -> usize {
        self.columns.2 + self.s.more[1]
    }

    /// Elements of an output with borders.
    fn plane(&self) -> usize {
        (self.rows.2 + self.s.more[0]) * self.wide()
    }

    /// Elements from the first pixel to the last, where rows are as far apart as with borders.
    fn span(&self) -> usize {
        let (rows, columns) = (self.rows.2, self.columns.2);
        if rows * columns == 0 { 0 } else { (rows - 1) * self.wide() + columns }
    }

    /// How far on an element of the filter meets what pixels follow from.
    fn shift(&self, e: &Element) -> usize {
        (self.s.more[0] - e.down) * self.wide() + self.s.more[1] - e.right
    }

    /// Give an output its borders.
    fn place<T: Float>(&self, from: &[T], to: &mut [T]) {
        let ([oh, ow], [down, right]) = (self.s.output, self.s.more);
        to.fill(T::of(0.0));
        // Output (y, x) goes to row y + down − top and column x + right − left.
        let (top, left) = (self.rows.1, self.columns.1);
        let (y, x) = (top.saturating_sub(down), left.saturating_sub(right));
        let (row, column) = (y + down - top, x + right - left);
        let columns = (self.wide() - column).min(ow.saturating_sub(x));
        for (to, y) in to.chunks_exact_mut(self.wide()).skip(row).zip(y..oh) {
            to[column..column + columns].copy_from_slice(&from[y * ow + x..][..columns]);
        }
    }

    /// Put pixels where they belong in the image.
    fn take<T: Float>(&self, from: &[T], image: &mut [T]) {
        let (w, stride, columns) = (self.s.input[1], self.s.stride, self.columns.2);
        for (r, row) in from.chunks(self.wide()).enumerate() {
            let to = image[(self.rows.0 + r * stride) * w + self.columns.0..].iter_mut().step_by(stride);
            to.zip(&row[..columns]).for_each(|(to, x)| *to = *x);
        }
    }
}

/// Whether the channels or the outputs are adjacent in products for the gradient of filters: whichever fills vectors better.
fn channels_adjacent<T: Float>(s: &Sizes) -> bool {
    let vectors = |n: usize| n.div_ceil(T::LANES);
    let (channels, outputs) = (s.outputs * vectors(s.channels), s.channels * vectors(s.outputs));
    channels < outputs || (channels == outputs && s.channels >= s.outputs)
}

/// Elements of scratch memory, one part after the other: filters by element, images, results.
fn scratch(s: &Sizes, part: ConvPart) -> [usize; 3] {
    let [h, w] = s.phase();
    let phases = s.phases() * s.channels * h * w;
    let filters = s.elements.len() * s.filter();
    match part {
        ConvPart::Output | ConvPart::Weight => [filters, phases, s.outputs * s.span()],
        ConvPart::Input => {
            // No phase has more pixels than this.
            let most = (h + s.more[0]) * (w + s.more[1]);
            [filters, s.outputs * most, s.channels * most]
        }
    }
}

impl<T: Float> ConvJob<T> {
    /// The sum of the products of some elements: `a` and `b` tell the left and right side of each.
    ///
    /// # Safety
    /// As for `multiply`, for every element.
    unsafe fn sum(
        &self,
        mut block: Block<T>,
        elements: &[Element],
        factors: impl Fn(&Element) -> Factors<T>,
        scratch: *mut T,
    ) {
        for some in elements.chunks(MAX_TERMS) {
            let mut all = [factors(&some[0]); MAX_TERMS];
            all.iter_mut().zip(some).for_each(|(to, element)| *to = factors(element));
            // SAFETY: promised by the caller.
            unsafe { multiply(self.level, &block, &all[..some.len()], scratch) };
            block.accumulate = true;
        }
    }

    /// Filters by element: outputs by channels, or channels by outputs.
    fn sorted(&self, filters: &[T], to: &mut [T], by_channel: bool) {
        let s = &self.sizes;
        let elements = s.elements.len();
        for (i, filter) in filters.chunks_exact(elements).enumerate() {
            let (output, channel) = (i / s.channels, i % s.channels);
            let place = if by_channel { channel * s.outputs + output } else { i };
            filter.iter().enumerate().for_each(|(e, x)| to[e * s.filter() + place] = *x);
        }
    }

    /// An image by phases, `[phase][channel][pixel]` or `[phase][pixel][channel]`; borders are left as they are.
    fn spread(&self, image: &[T], to: &mut [T], by_pixel: bool) {
        let s = &self.sizes;
        let (pixels, place) = (s.input[0] * s.input[1], s.phase()[0] * s.phase()[1]);
        s.rows(|phase, pixel, first, count| {
            for (channel, plane) in image.chunks_exact(pixels).enumerate() {
                let row = plane[pixel..].iter().step_by(s.stride);
                if by_pixel {
                    let to = &mut to[(phase * place + first) * s.channels + channel..];
                    to.iter_mut().step_by(s.channels).zip(row).take(count).for_each(|(to, x)| *to = *x);
                } else {
                    let to = &mut to[(phase * s.channels + channel) * place + first..][..count];
                    if s.stride == 1 {
                        to.copy_from_slice(&plane[pixel..pixel + count]);
                    } else {
                        to.iter_mut().zip(row).for_each(|(to, x)| *to = *x);
                    }
                }
            }
        });
    }
}

impl<T: Float> Job for ConvJob<T> {
    fn tiles(&self) -> usize {
        self.sizes.images.div_ceil(IMAGES_PER_TILE)
    }

    fn cost(&self) -> f64 {
        let s = &self.sizes;
        (s.images * s.filter() * s.elements.len() * s.span()) as f64 * 2.0 * size_of::<T>() as f64 / 4.0 / 80.0
    }

    fn scratch(&self) -> usize {
        (scratch(&self.sizes, self.part).iter().sum::<usize>() + T::SCRATCH) * size_of::<T>()
    }

    unsafe fn run(&self, ctx: &Ctx<'_>, tile: usize, memory: &mut Arena) {
        let s = &self.sizes;
        let (m_o, m_c) = (s.outputs, s.channels);
        let [oh, ow] = s.output;
        let [_, wide] = s.phase();
        let plane = s.phase()[0] * wide;
        let (pixels, results) = (s.channels * s.input[0] * s.input[1], s.outputs * oh * ow);
        let first = tile * IMAGES_PER_TILE;
        let last = (first + IMAGES_PER_TILE).min(s.images);
        let zero = T::of(0.0);
        let [filters, images, flat] = scratch(s, self.part);
        // SAFETY: scratch has room for all parts and for what a product needs; the plan's extents describe complete buffers, and
        // the tile owns its images of the result, or its own partial sum of the filters. Products stay within the parts:
        // a shift is at most what a phase (or a bordered output) has beyond the span.
        unsafe {
            let base = memory.bytes().as_mut_ptr().cast::<T>();
            let filters = std::slice::from_raw_parts_mut(base, filters);
            let images = std::slice::from_raw_parts_mut(base.add(filters.len()), images);
            let flat = std::slice::from_raw_parts_mut(base.add(filters.len() + images.len()), flat);
            let rest = base.add(filters.len() + images.len() + flat.len());
            let (left, right, to) = (ctx.ptr(self.from[0]), ctx.ptr(self.from[1]), ctx.ptr(self.to));
            let read = |p: *mut T, i: usize, len: usize| std::slice::from_raw_parts(p.cast_const().add(i * len), len);
            let write = |p: *mut T, i: usize, len: usize| std::slice::from_raw_parts_mut(p.add(i * len), len);
            let block = |m: usize, n: usize, to: &mut [T]| {
                let to_row = n as isize;
                Block { m, n, to: to.as_mut_ptr(), to_row, accumulate: false }
            };
            images.fill(zero);
            match self.part {
                ConvPart::Output => {
                    self.sorted(read(right, 0, filters.len()), filters, false);
                    for i in first..last {
                        self.spread(read(left, i, pixels), images, false);
                        let factors = |e: &Element| Factors {
                            k: m_c,
                            a: filters[e.number * s.filter()..].as_ptr(),
                            a_strides: (m_c as isize, 1),
                            b: images[e.phase * m_c * plane + e.down * wide + e.right..].as_ptr(),
                            b_strides: (plane as isize, 1),
                        };
                        self.sum(block(m_o, s.span(), flat), &s.elements, factors, rest);
                        for (to, from) in write(to, i, results).chunks_exact_mut(oh * ow).zip(flat.chunks(s.span())) {
                            to.chunks_exact_mut(ow)
                                .zip(from.chunks(wide))
                                .for_each(|(to, row)| to.copy_from_slice(&row[..ow]));
                        }
                    }
                }
                ConvPart::Input => {
                    self.sorted(read(right, 0, filters.len()), filters, true);
                    for i in first..last {
                        let result = write(to, i, pixels);
                        result.fill(zero);
                        for own in s.elements.chunk_by(|a, b| a.phase == b.phase) {
                            let frame = Frame::new(s, own[0].phase);
                            if frame.span() == 0 {
                                continue;
                            }
                            let plane = frame.plane();
                            for (y, to) in
                                read(left, i, results).chunks_exact(oh * ow).zip(images.chunks_exact_mut(plane))
                            {
                                frame.place(y, to);
                            }
                            let factors = |e: &Element| Factors {
                                k: m_o,
                                a: filters[e.number * s.filter()..].as_ptr(),
                                a_strides: (m_o as isize, 1),
                                b: images[frame.shift(e)..].as_ptr(),
                                b_strides: (plane as isize, 1),
                            };
                            self.sum(block(m_c, frame.span(), flat), own, factors, rest);
                            let area = s.input[0] * s.input[1];
                            for (from, to) in flat.chunks_exact(frame.span()).zip(result.chunks_exact_mut(area)) {
                                frame.take(from, to);
                            }
                        }
                    }
                }
                ConvPart::Weight => {
                    let by_pixel = channels_adjacent::<T>(s);
                    flat.fill(zero);
                    for i in first..last {
                        self.spread(read(left, i, pixels), images, by_pixel);
                        for (o, y) in read(right, i, results).chunks_exact(oh * ow).enumerate() {
                            for (r, row) in y.chunks_exact(ow).enumerate() {
                                if by_pixel {
                                    flat[o * s.span() + r * wide..][..ow].copy_from_slice(row);
                                } else {
                                    let to = flat[r * wide * m_o + o..].iter_mut().step_by(m_o);
                                    to.zip(row).for_each(|(to, x)| *to = *x);
                                }
                            }
                        }
                        for e in &s.elements {
                            let shift = e.down * wide + e.right;
                            let (m, n, factors) = if by_pixel {
                                let b = images[(e.phase * plane + shift) * m_c..].as_ptr();
                                let (a, a_strides) = (flat.as_ptr(), (s.span() as isize, 1));
                                (m_o, m_c, Factors { k: s.span(), a, a_strides, b, b_strides: (m_c as isize, 1) })
                            } else {
                                let a = images[e.phase * m_c * plane + shift..].as_ptr();
                                let (a_strides, b) = ((plane as isize, 1), flat.as_ptr());
                                (m_c, m_o, Factors { k: s.span(), a, a_strides, b, b_strides: (m_o as isize, 1) })
                            };
                            let block = block(m, n, &mut filters[e.number * s.filter()..]);
                            multiply(self.level, &Block { accumulate: i > first, ..block }, &[factors], rest);
                        }
                    }
                    // As the filters are stored: output, channel, element.
                    let result = write(to, tile, filters.len());
                    for (i, to) in result.chunks_exact_mut(s.elements.len()).enumerate() {
                        let place = if by_pixel { i } else { i % m_c * m_o + i / m_c };
                        to.iter_mut().enumerate().for_each(|(e, to)| *to = filters[e * s.filter() + place]);
                    }
                }
            }
        }
    }
}
