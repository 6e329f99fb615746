//! Convolutions: how they are cut into tiles, on the tensor cores where they fit there (`source/conv.cu`).

use super::code::{self, Planes, SPREAD, THREADS, WARPS, type_name};
use super::fuse::{Epilogue, Work};
use super::task::{Functions, Layout, Precision, REDUCTION, Task};
use crate::plan::{Conv, ConvPart, IMAGES_PER_TILE};
use crate::shape::DType;
use std::fmt::Write;

/// A way to compute a convolution on the tensor cores.
struct Cut {
    /// The structure it is described by.
    constants: Vec<(&'static str, usize)>,
    tiles: usize,
    /// Tiles that share their images, and how many those are.
    across: usize,
    images: usize,
    shared: usize,
    cost: f64,
}

/// The smallest number from `least` on that leaves as much as `like` when divided by `by`.
fn congruent(least: usize, like: usize, by: usize) -> usize {
    least + (like % by + by - least % by) % by
}

/// The same for what is read by whole warps: 32 banks.
fn stride(least: usize, rest: usize) -> usize {
    congruent(least, rest, 32)
}

/// Ways to give the small products of a tile, `rows` of them down, to some of the warps: products of a warp down, groups of warps
/// down, products of a warp across.
fn shares(rows: usize, warps: usize) -> impl Iterator<Item = (usize, usize, usize)> {
    (1..=4usize).flat_map(move |mt| {
        let mg = rows.div_ceil(mt);
        (1..=8usize).filter(move |nt| mt * nt <= 16 && mg <= warps && mt <= rows).map(move |nt| (mt, mg, nt))
    })
}

/// Nanoseconds for reads of shared memory by whole warps and products of 16 by 8 by 8, and for the steps of a warp with `each`
/// of these, as measured on an H200: products take most of it.
fn inner(reads: usize, products: usize, steps: usize, each: usize) -> f64 {
    0.5 * (1.5 * reads as f64).max(4.1 * products as f64).max(steps as f64 * (16.4 * each as f64).max(220.0))
}

impl Cut {
    /// Images and the filters applied to them, or those of the adjoint.
    fn images(c: &Conv, small: [usize; 2], whole: bool, shared: usize) -> Option<Cut> {
        let ([n, ch, h, w], [o, _, fh, fw], [_, _, oh, ow]) = (c.x, c.f, c.y);
        let back = c.part == ConvPart::Input;
        let (from, to) = if back { ([o, oh, ow], [ch, h, w]) } else { ([ch, h, w], [o, oh, ow]) };
        // What of it is smaller in memory.
        let (source, result) = if back { ([oh, ow], small) } else { (small, [oh, ow]) };
        // Planes: zeros before and between pixels, and how far apart the filter's places are.
        let (down, right) = if back { (c.window.adjoint(fh), c.window.adjoint(fw)) } else { (c.window, c.window) };
        let (by, bx, space, step) = (down.before, right.before, if back { c.window.stride } else { 1 }, down.stride);
        // The eight pixels of a column of products lie in different banks if they follow each other, modulo eight, also where
        // a row ends.
        let (gh, gw) = (down.reach(to[1], fh), congruent(right.reach(to[2], fw), to[2] * step, 8));
        let (depth, plane) = (from[0].next_multiple_of(8), stride(gh * gw, 8));
        let k = ch * fh * fw;
        let frow = stride(k, if back { 8 } else { 4 });
        let (p, parts) = (to[1] * to[2], depth / 8 * fh);
        let mut best: Option<(f64, Cut)> = None;
        for images in [1usize, 2, 4] {
            let blocks = (images * p).div_ceil(8);
            for (mt, mg, nt) in shares(to[0].div_ceil(16), WARPS) {
                let ng = blocks.div_ceil(nt);
                if mg * ng > WARPS {
                    continue;
                }
                let ks = (WARPS / (mg * ng)).min(parts);
                let orow = stride(ng * nt * 8, 8);
                let filled = o * frow + images * depth * plane;
                let bytes = 4 * filled.max(ks * to[0] * orow);
                if bytes > shared {
                    continue;
                }
                let steps = parts.div_ceil(ks) * fw;
                let all = parts * fw * mg * ng;
                let compute = inner(all * (4 * mt + 2 * nt), all * mt * nt, steps, mt * nt);
                let cost = 2500.0
                    + (o * k) as f64 * 0.04
                    + (images * depth * gh * gw) as f64 * 0.12
                    + compute
                    + (ks * to[0] * orow) as f64 * 0.04;
                let tiles = n.div_ceil(images);
                let whole_cost = tiles.div_ceil(SPREAD) as f64 * cost;
                if best.as_ref().is_none_or(|b| whole_cost < b.0) {
                    let constants = vec![
                        ("N", n),
                        ("IMAGES", images),
                        ("C", from[0]),
                        ("CPAD", depth),
                        ("H", from[1]),
                        ("W", from[2]),
                        ("SH", source[0]),
                        ("SW", source[1]),
                        ("GH", gh),
                        ("GW", gw),
                        ("BY", by),
                        ("BX", bx),
                        ("SPACE", space),
                        ("STEP", step),
                        ("PLANE", plane),
                        ("FH", fh),
                        ("FW", fw),
                        ("ROWS", o),
                        ("K", k),
                        ("FROW", frow),
                        ("FILTERS", o * frow),
                        ("WHOLE", usize::from(whole)),
                        ("BACK", usize::from(back)),
                        ("O", to[0]),
                        ("OH", to[1]),
                        ("OW", to[2]),
                        ("P", p),
                        ("RH", result[0]),
                        ("RW", result[1]),
                        ("MT", mt),
                        ("MG", mg),
                        ("NT", nt),
                        ("NG", ng),
                        ("KS", ks),
                        ("OROW", orow),
                    ];
                    best = Some((whole_cost, Cut { constants, tiles, across: 1, images, shared: bytes, cost }));
                }
            }
        }
        best.map(|b| b.1)
    }

    /// The gradient of filters. It mostly runs beside other work, so what counts is what all tiles cost together.
    fn weight(c: &Conv, small: [usize; 2], onto: bool, shared: usize) -> Option<Cut> {
        let ([n, ch, h, w], [o, _, fh, fw], [_, _, oh, ow]) = (c.x, c.f, c.y);
        let (step, before, p) = (c.window.stride, c.window.before, oh * ow);
        // Here four follow each other.
        let (gh, gw) = (c.window.reach(oh, fh), congruent(c.window.reach(ow, fw), ow * step, 4));
        let (depth, plane) = (ch.next_multiple_of(8), stride(gh * gw, 4));
        let ppad = p.next_multiple_of(8);
        let yrow = stride(ppad, 4);
        let (images, blocks) = (IMAGES_PER_TILE, depth / 8 * fh * fw);
        let filled = images * (depth * plane + o * yrow);
        let mut best: Option<(f64, Cut)> = None;
        let ways = [1, 2, 4].into_iter().flat_map(|s| shares(o.div_ceil(16), WARPS / s).map(move |share| (s, share)));
        for (slices, (mt, mg, nt)) in ways {
            let ng = (WARPS / slices / mg).min(blocks.div_ceil(nt));
            let nb = ng * nt;
            // A warp's writes meet in no bank either.
            let pitch = congruent(nb, 4, 16);
            let orow = stride(8 * pitch, 1);
            let bytes = 4 * filled.max(slices * o * orow);
            if bytes > shared {
                continue;
            }
            let across = blocks.div_ceil(nb);
            let (tiles, steps, active) = (n.div_ceil(images) * across, ppad / 8 * images / slices, mg * ng * slices);
            let cost = 2500.0
                + filled as f64 * 0.13
                + inner(steps * active * (4 * mt + 2 * nt), steps * active * mt * nt, steps, mt * nt)
                + (slices * o * orow) as f64 * 0.02
                + (o * ch * fh * fw) as f64 * 0.12;
            let whole_cost = tiles as f64 * cost;
            if best.as_ref().is_none_or(|b| whole_cost < b.0) {
                let constants = vec![
                    ("N", n),
                    ("IMAGES", images),
                    ("C", ch),
                    ("CPAD", depth),
                    ("H", h),
                    ("W", w),
                    ("SH", small[0]),
                    ("SW", small[1]),
                    ("GH", gh),
                    ("GW", gw),
                    ("BY", before),
                    ("BX", before),
                    ("SPACE", 1),
                    ("STEP", step),
                    ("PLANE", plane),
                    ("FH", fh),
                    ("FW", fw),
                    ("O", o),
                    ("OW", ow),
                    ("P", p),
                    ("PPAD", ppad),
                    ("YROW", yrow),
                    ("MT", mt),
                    ("MG", mg),
                    ("NT", nt),
                    ("NG", ng),
                    ("NB", nb),
                    ("PITCH", pitch),
                    ("SLICES", slices),
                    ("OROW", orow),
                    ("ONTO", usize::from(onto)),
                ];
                best = Some((whole_cost, Cut { constants, tiles, across, images, shared: bytes, cost }));
            }
        }
        best.map(|b| b.1)
    }
}

/// The name of a structure with these constants.
fn structure(constants: &[(&'static str, usize)], functions: &mut Functions) -> String {
    let values: Vec<String> = constants.iter().map(|(_, v)| v.to_string()).collect();
    let name = format!("Conv_{}", values.join("_"));
    let mut text = format!("struct {name} {{ enum {{ ");
    for (constant, value) in constants {
        let _ = write!(text, "{constant} = {value}, ");
    }
    functions.structure(&(text + "}; };\n"));
    name
}

/// A convolution, and what is done with its elements.
pub(super) struct Convolution<'a> {
    pub conv: &'a Conv,
    /// What its images are in memory, if smaller.
    pub small: Option<[usize; 2]>,
    pub epilogues: &'a [Epilogue],
    pub keep: bool,
    /// Whether it is added to what is there.
    pub accumulate: bool,
}

impl<'a> Convolution<'a> {
    pub fn of(work: &'a Work) -> Option<Self> {
        let Work::Conv { conv, small, epilogues, keep, accumulate } = work else { return None };
        Some(Convolution { conv, small: *small, epilogues, keep: *keep, accumulate: *accumulate })
    }

    /// What its images are in memory.
    pub fn extents(&self) -> [usize; 2] {
        self.small.unwrap_or([self.conv.x[2], self.conv.x[3]])
    }

    /// On the tensor cores, if it fits there; `whole` if filters can be copied four elements at a time.
    fn cut(&self, whole: bool, shared: usize) -> Option<Cut> {
        let c = self.conv;
        if c.dtype != DType::F32 {
            return None;
        }
        let small = self.extents();
        if c.part == ConvPart::Weight {
            return Cut::weight(c, small, self.accumulate, shared);
        }
        let mut cut = Cut::images(c, small, whole, shared)?;
        let elements =
            if c.part == ConvPart::Output { c.y[1..].iter().product() } else { c.x[1] * small[0] * small[1] };
        let after: f64 = self.epilogues.iter().map(|e| e.map.element_cost()).sum();
        cut.cost += (cut.images * elements / THREADS) as f64 * (30.0 + after * 15.0);
        Some(cut)
    }

    /// Images of a tile, likewise.
    pub fn images(&self, shared: usize) -> Option<usize> {
        self.cut(true, shared).map(|c| c.images)
    }

    /// How many tiles it is cut into on the tensor cores, and nanoseconds of each.
    pub fn size(&self, shared: usize) -> Option<(usize, f64)> {
        self.cut(true, shared).map(|c| (c.tiles, c.cost))
    }
}

/// The task of a convolution.
pub(super) fn task(
    of: &Convolution<'_>,
    level: usize,
    layout: &Layout<'_>,
    precision: Precision,
    functions: &mut Functions,
) -> Task {
    let Convolution { conv: c, epilogues, .. } = *of;
    let t = type_name(c.dtype);
    let small = of.extents();
    let mut words = vec![layout.address(c.to), layout.address(c.from[0]), layout.address(c.from[1])];
    let whole = words[2].is_multiple_of(16) && (c.f[1] * c.f[2] * c.f[3]).is_multiple_of(4);
    let cut = if precision == Precision::Tf32 { of.cut(whole, layout.shared) } else { None };
    let ([n, ch, h, w], [o, _, fh, fw], [_, _, oh, ow]) = (c.x, c.f, c.y);
    // Planes of the result, and as many of them as an image (or a part of the images) has.
    let (planes, count) = match c.part {
        ConvPart::Output => (Planes { plane: oh * ow, image: o * oh * ow }, n),
        ConvPart::Input => (Planes { plane: small[0] * small[1], image: ch * small[0] * small[1] }, n),
        ConvPart::Weight => (Planes { plane: fh * fw, image: o * ch * fh * fw }, c.parts()),
    };
    let mut tail = code::Tail::images(c.dtype, planes);
    if of.accumulate {
        tail.accumulate();
    }
    if of.keep {
        tail.keep();
    }
    for e in epilogues {
        let places = tail.map(e, words.len());
        words.extend(places.iter().map(|p| layout.address(*p)));
    }
    let (mut body, mut prepare) = (String::new(), None);
    let (tiles, cost, shared) = match cut {
        Some(Cut { constants, tiles, across, shared, cost, .. }) if c.part == ConvPart::Weight => {
            let name = structure(&constants, functions);
            prepare = Some(format!(
                "conv_near<{name}>(at<float>(a, 0), at<float>(a, 1), at<float>(a, 2), tile / {across});\n"
            ));
            body = format!(
                "conv_weight<{name}>(at<float>(a, 0), at<float>(a, 1), at<float>(a, 2), tile / {across}, tile % {across});\n"
            );
            (tiles, cost, shared)
        }
        Some(Cut { constants, tiles, images, shared, cost, .. }) => {
            let name = structure(&constants, functions);
            prepare = Some(format!("{}conv_filters<{name}>(at<float>(a, 2));\n", tail.near(images, n)));
            let call = format!("conv_images<{name}>(at<float>(a, 1), tile * {images});\n");
            tail.run(&mut body, &call, images, count, &format!("conv_result<{name}>(image - tile * {images}, o, p)"));
            (tiles, cost, shared)
        }
        None => {
            let (part, depth) = match c.part {
                ConvPart::Output => ("output", ch * fh * fw),
                ConvPart::Input => ("input", o * fh * fw),
                ConvPart::Weight => ("weight", n.min(IMAGES_PER_TILE) * oh * ow),
            };
            let constants = [
                ("N", n),
                ("C", ch),
                ("H", h),
                ("W", w),
                ("SH", small[0]),
                ("SW", small[1]),
                ("O", o),
                ("FH", fh),
                ("FW", fw),
                ("OH", oh),
                ("OW", ow),
                ("STRIDE", c.window.stride),
                ("BEFORE", c.window.before),
                ("PART", IMAGES_PER_TILE),
            ];
            let name = structure(&constants, functions);
            let value = format!("plain_{part}<{t}, {name}>(at<{t}>(a, 1), at<{t}>(a, 2), i)");
            tail.run(&mut body, "", 1, count, &value);
            let turns = planes.image.div_ceil(THREADS);
            (count, 1000.0 + (turns * depth) as f64 * 20.0, REDUCTION)
        }
    };
    let function = functions.prepared(body, prepare);
    Task { shared: shared.max(REDUCTION), ..Task::new(function, words, (tiles, cost), level) }
}
