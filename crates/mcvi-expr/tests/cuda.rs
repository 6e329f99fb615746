//! The GPU against the CPU: one program for each kind of operation, run on both and compared. Where there is no GPU the
//! programs' source is still made, and compiled for an H100 where NVRTC is found (`MCVI_NVRTC` says where).

#![cfg(feature = "cuda")]

mod common;

use common::{array, irregular};
use mcvi_expr::{Array, DType, Device, Error, Expr, External, Graph, Program, Run, Shape, grad};
use std::sync::Arc;

/// The GPU to test on, if there is one.
fn gpu() -> Option<Device> {
    match Device::Cuda(0).check() {
        Ok(()) => Some(Device::Cuda(0)),
        Err(why) => {
            eprintln!("SKIPPED on the GPU: {why}");
            None
        }
    }
}

/// What is compared element by element.
const ELEMENTWISE: &str = "functions";

type Outputs<'g> = Vec<(String, Expr<'g>)>;

/// A program by its outputs, computed on both devices; largest error of each, relative to its largest element: a sum of many
/// terms may come out small. Elementwise functions are held to every element, down to the scale that is theirs.
fn agree(what: &str, dtype: DType, full: bool, tolerance: f64, build: impl Fn(&Graph) -> Outputs<'_>) {
    let compile = |device: Option<Device>| -> Result<Program, String> {
        let graph = Graph::new();
        let mut builder = graph.program().seed(3);
        for (name, e) in build(&graph) {
            if let Some(error) = e.error() {
                panic!("{what}, {name}: {error}");
            }
            builder = builder.output(&name, e);
        }
        if full {
            builder = builder.full_precision();
        }
        match device {
            Some(device) => builder.device(device).compile().map_err(|e| e.to_string()),
            None => {
                let (source, compiled) = builder.cuda_source("sm_90");
                assert!(source.contains("walk("), "{what}: the source has no entry point");
                match compiled {
                    Some(Ok(size)) => eprintln!("{what} {dtype}: {size} bytes of machine code"),
                    Some(Err(error)) => panic!("{what} {dtype}: {error}"),
                    None => eprintln!("{what} {dtype}: source made, no NVRTC to compile it"),
                }
                Err(String::new())
            }
        }
    };
    let Some(device) = gpu() else {
        let _ = compile(None);
        return;
    };
    let mut cpu = compile(Some(Device::Cpu)).unwrap();
    let mut cuda = compile(Some(device)).unwrap();
    // The second step has other noise, and memory that was used before.
    for program in [&mut cpu, &mut cuda] {
        program.run(2).unwrap();
    }
    let names: Vec<String> = cpu.output_names().into_iter().map(str::to_owned).collect();
    let mut wrong = vec![];
    for name in names {
        let (want, got) = (cpu.output(&name).unwrap().to_f64(), cuda.output(&name).unwrap().to_f64());
        let size = want.iter().filter(|x| x.is_finite()).fold(1e-30f64, |a, x| a.max(x.abs()));
        // Log-gamma and its kin have zeros that no argument hits exactly.
        let floor = if name.contains("gamma") { 1.0 } else { 1e-35 };
        let off = |(w, g): (&f64, &f64)| {
            let size = if what == ELEMENTWISE { w.abs().max(floor) } else { size };
            if w == g || (w.is_nan() && g.is_nan()) { 0.0 } else { (w - g).abs() / size }
        };
        let worst = want.iter().zip(&got).map(off).fold(0.0, |a: f64, x| if x > a || x.is_nan() { x } else { a });
        // Asked this way round, NaN is not close.
        let close = worst <= tolerance;
        if !close {
            wrong.push(format!("{name}: off by {worst:e} of {size:e}"));
        }
    }
    assert!(wrong.is_empty(), "{what} {dtype}: {}", wrong.join("; "));
}

fn literal<'g>(g: &'g Graph, dtype: DType, shape: &[usize], seed: usize) -> Expr<'g> {
    let shape = Shape::from(shape);
    g.literal(array(shape.clone(), irregular(shape.size(), seed)).cast(dtype))
}

/// In f64, in f32 with full precision, and in f32 with products in TF32, to tolerances of each.
fn everywhere(what: &str, f64_off: f64, f32_off: f64, tf32_off: f64, build: impl Fn(&Graph, DType) -> Outputs<'_>) {
    agree(what, DType::F64, false, f64_off, |g| build(g, DType::F64));
    agree(what, DType::F32, true, f32_off, |g| build(g, DType::F32));
    if tf32_off > f32_off {
        agree(&format!("{what} (TF32)"), DType::F32, false, tf32_off, |g| build(g, DType::F32));
    }
}

#[test]
fn elementwise_functions_agree() {
    everywhere(ELEMENTWISE, 2e-14, 2e-6, 0.0, |g, t| {
        let mut out = vec![];
        let wide: Vec<f64> = (0..400).map(|i| (f64::from(i) - 199.5) * 0.08).collect();
        let edges = [0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1e-30, -1e-30, 80.0, -80.0];
        let x = g.literal(array(409, [wide.clone(), edges.to_vec()].concat()).cast(t));
        let p = g.literal(array(400, wide.iter().map(|x| x.abs() + 0.01).collect::<Vec<_>>()).cast(t));
        let n = g.literal(array(400, (0..400).map(|i| f64::from(i % 7) * 0.5).collect::<Vec<_>>()).cast(t));
        let y = x.cos();
        let named: [(&str, Expr<'_>); 30] = [
            ("neg", -x),
            ("recip", 1.0 / x),
            ("square", x.square()),
            ("sqrt", p.sqrt()),
            ("abs", x.abs()),
            ("sign", x.sign()),
            ("floor", x.floor()),
            ("exp", (x * 0.2).exp()),
            ("expm1", (x * 0.2).expm1()),
            ("ln", p.ln()),
            ("log1p", p.log1p()),
            ("softplus", x.softplus()),
            ("sigmoid", x.sigmoid()),
            ("tanh", x.tanh()),
            ("sin", x.sin()),
            ("atan", x.atan()),
            ("erf", x.erf()),
            ("erfc", x.erfc()),
            ("erfcx", x.erfcx()),
            ("log_erfc", x.log_erfc()),
            ("lgamma", p.lgamma()),
            ("digamma", p.digamma()),
            ("trigamma", p.polygamma(1)),
            ("tetragamma", (p + 0.5).polygamma(2)),
            ("min", x.min(y)),
            ("max", x.max(y)),
            ("lt", x.lt(y)),
            ("le", x.le(y)),
            ("eq", x.eq(x)),
            ("select", x.lt(0.0).select(x, y)),
        ];
        out.extend(named.map(|(name, e)| (name.to_owned(), e)));
        out.push(("pow".to_owned(), p.pow(n)));
        out.push(("div".to_owned(), n / p));
        let diff = p.lgamma_diff(n);
        let d1 = grad(diff.sum_all(), &[p]).unwrap()[0];
        let d2 = grad(d1.sum_all(), &[p]).unwrap()[0];
        let d3 = grad(d2.sum_all(), &[p]).unwrap()[0];
        for (i, e) in [diff, d1, d2, d3].into_iter().enumerate() {
            out.push((format!("lgamma difference, order {i}"), e));
        }
        out
    });
}

#[test]
fn reductions_and_layouts_agree() {
    everywhere("reductions", 1e-13, 5e-6, 0.0, |g, t| {
        let mut out: Outputs<'_> = vec![];
        for (i, dims) in
            [vec![5, 3], vec![100, 300], vec![7, 784], vec![1030, 5], vec![3000, 2], vec![9, 40, 17], vec![1000, 300]]
                .iter()
                .enumerate()
        {
            let x = literal(g, t, dims, i);
            let last = dims.len() - 1;
            let name = |what: &str| format!("{what} of {dims:?}");
            let y = (x * 1.5).tanh();
            out.push((name("rows"), y.sum(&[last])));
            out.push((name("columns"), y.sum(&[0])));
            out.push((name("all"), y.sum_all()));
            out.push((name("kept"), y));
            out.push((name("row max"), (x * 0.5).max_over(&[last])));
            out.push((name("column max"), (x * 0.5).max_over(&[0])));
            out.push((name("logsumexp"), x.logsumexp(&[last])));
            out.push((name("cumsum"), x.cumsum(last)));
            out.push((name("cumsum down"), x.cumsum(0)));
            out.push((name("transposed"), (x.t() * 2.0).exp()));
            out.push((name("broadcast"), x - x.sum(&[0])));
            out.push((name("slice"), x.slice(last, 1..dims[last]) * 2.0));
            out.push((name("joined"), g.concat(&[x, y, x], last)));
            out.push((name("stacked"), g.concat(&[x.square(), y], 0)));
            let part = grad((x.slice(0, 1..dims[0]).square()).sum_all(), &[x]).unwrap()[0];
            out.push((name("embedded"), part));
            out.push((name("converted"), (x * 3.0).cast(DType::I32).cast(DType::F64).cast(t)));
        }
        out
    });
}

#[test]
fn products_agree() {
    everywhere("products", 1e-13, 2e-5, 1e-2, |g, t| {
        let mut out: Outputs<'_> = vec![];
        for (i, &(m, k, n)) in
            [(1, 1, 1), (2, 2, 2), (100, 32, 300), (100, 300, 784), (33, 65, 31), (640, 100, 700), (7, 784, 5)]
                .iter()
                .chain(&[(1000, 32, 300), (1000, 300, 784), (1000, 784, 300), (1001, 301, 303), (300, 1000, 784)])
                .enumerate()
        {
            let (a, b) = (literal(g, t, &[m, k], i), literal(g, t, &[k, n], i + 50));
            let (at, bt) = (literal(g, t, &[k, m], i + 7), literal(g, t, &[n, k], i + 57));
            let bias = literal(g, t, &[n], i);
            let name = |what: &str| format!("{what} {m}x{k}x{n}");
            out.push((name("plain"), a.matmul(b)));
            out.push((name("transposed left"), at.t().matmul(b)));
            out.push((name("transposed right"), a.matmul(bt.t())));
            out.push((name("both"), at.t().matmul(bt.t())));
            let h = a.matmul(b) * (0.1 / k as f64) + bias;
            out.push((name("layer"), h.softplus()));
            out.push((name("slope"), h.sigmoid()));
            out.push((name("row sums after"), h.tanh().sum(&[1])));
            let sum = a.matmul(b) + at.t().matmul(b) + a.matmul(bt.t()) + at.t().matmul(bt.t()) + a.matmul(b * 2.0);
            out.push((name("sum"), sum));
            out.push((name("after the sum"), sum.square()));
        }
        let (a, b) = (literal(g, t, &[3, 4, 10, 6], 1), literal(g, t, &[3, 4, 6, 9], 2));
        out.push(("batched".to_owned(), a.matmul(b)));
        out.push(("batched, then mapped".to_owned(), (a.matmul(b) * 0.1).exp()));
        let wide = literal(g, t, &[60, 30], 3);
        let strided = wide.slice(1, 3..23);
        out.push(("of a slice".to_owned(), strided.t().matmul(strided)));
        out
    });
}

#[test]
fn factorisations_agree() {
    everywhere("factorisations", 1e-11, 2e-4, 0.0, |g, t| {
        let mut out: Outputs<'_> = vec![];
        for (i, &(batch, n)) in [(1, 1), (3, 2), (2, 40), (1, 70)].iter().enumerate() {
            let x = literal(g, t, &[batch, n, n], i);
            let unit: Vec<f64> = (0..n * n).map(|e| if e % (n + 1) == 0 { n as f64 } else { 0.0 }).collect();
            let spd = x.permute(&[0, 2, 1]).matmul(x) + g.literal(array([n, n], unit).cast(t));
            let b = literal(g, t, &[batch, n, 11], i + 9);
            let l = spd.cholesky();
            let name = |what: &str| format!("{what} {batch} of {n}");
            out.push((name("cholesky"), l));
            out.push((name("lower"), l.solve_lower(b)));
            let loss = l.solve_lower(b).square().sum_all();
            out.push((name("derivative"), grad(loss, &[x]).unwrap()[0]));
        }
        out
    });
}

#[test]
fn images_agree() {
    everywhere("images", 1e-12, 5e-6, 4e-3, |g, t| {
        let mut out: Outputs<'_> = vec![];
        // Images, channels, size, filters, their size, stride, padding.
        let cases = [
            (3, 2, 7, 4, 3, 1, (1, 1)),
            (20, 1, 28, 16, 5, 2, (1, 2)),
            (9, 16, 14, 32, 5, 2, (1, 2)),
            (2, 3, 9, 5, 4, 3, (0, 2)),
        ];
        for (i, (n, c, size, o, f, stride, padding)) in cases.into_iter().enumerate() {
            let (x, w) = (literal(g, t, &[n, c, size, size], i), literal(g, t, &[o, c, f, f], i + 3));
            let y = x.conv2d(w, stride, padding);
            let d = grad((y * 0.1).tanh().sum_all(), &[x, w]).unwrap();
            let name = |what: &str| format!("{what} {i}");
            out.push((name("conv"), y));
            out.push((name("conv, images"), d[0]));
            out.push((name("conv, filters"), d[1]));
            let up = x.upsample(size * 2 - 1, size + 3);
            out.push((name("upsample"), up));
            out.push((name("downsample"), grad(up.square().sum_all(), &[x]).unwrap()[0]));
        }
        let small = literal(g, t, &[2, 4, 4], 1);
        out.push(("4 to 7".to_owned(), small.upsample(7, 7)));
        out
    });
}

/// Every part of a convolution, with work that follows it.
fn convolution<'g>(g: &'g Graph, t: DType, case: Case) -> Outputs<'g> {
    let Case { n, c, h, w, o, fh, fw, stride, padding } = case;
    let (x, f) = (literal(g, t, &[n, c, h, w], 1), literal(g, t, &[o, c, fh, fw], 2));
    let y = x.conv2d(f, stride, padding);
    let dims = y.shape().dims().to_vec();
    let (oh, ow) = (dims[2], dims[3]);
    let ct = literal(g, t, &[n, o, oh, ow], 3);
    let d = grad((y * ct).sum_all(), &[x, f]).unwrap();
    let size = 1.0 / ((c * fh * fw) as f64).sqrt();
    let bias = literal(g, t, &[o, 1, 1], 4);
    let mut out: Outputs<'g> = vec![
        ("output".to_owned(), y),
        ("images".to_owned(), d[0]),
        ("filters".to_owned(), d[1]),
        ("layer".to_owned(), (y * size + bias).softplus()),
        ("slope".to_owned(), d[0] * x.sigmoid()),
        // Elements of the result in another order.
        ("turned".to_owned(), (y.permute(&[0, 3, 1, 2]) * size).tanh()),
        ("resized".to_owned(), x.upsample(2 * h - 1, w + 1).conv2d(f, stride, padding).square()),
        ("turned twice".to_owned(), (y * size).tanh().permute(&[0, 2, 3, 1]).reshape([n, oh, ow * o]).square()),
    ];
    if o % 2 == 0 {
        let four = (y * size + bias).softplus().reshape([n, 2, o / 2, oh, ow]);
        out.push(("shuffled".to_owned(), four.permute(&[0, 2, 3, 1, 4]).reshape([n, o / 2, 2 * oh, ow])));
    }
    let up = x.upsample(h + 2, 2 * w).conv2d(f, stride, padding);
    let d = grad((up * size).tanh().sum_all(), &[x, f]).unwrap();
    out.extend([("resized, images".to_owned(), d[0] * x), ("resized, filters".to_owned(), d[1])]);
    // The derivative of a gradient has the same parts again.
    let second = grad((y * size).tanh().sum_all(), &[x]).unwrap()[0].square().sum_all();
    let d = grad(second, &[x, f]).unwrap();
    out.extend([("second, images".to_owned(), d[0]), ("second, filters".to_owned(), d[1])]);
    out
}

#[derive(Clone, Copy, Debug)]
struct Case {
    n: usize,
    c: usize,
    h: usize,
    w: usize,
    o: usize,
    fh: usize,
    fw: usize,
    stride: usize,
    padding: (usize, usize),
}

#[test]
fn convolutions_agree() {
    let case = |n, c, [h, w]: [usize; 2], o, [fh, fw]: [usize; 2], stride, padding| Case {
        n,
        c,
        h,
        w,
        o,
        fh,
        fw,
        stride,
        padding,
    };
    let cases = [
        // Those of the auto-encoder.
        case(100, 1, [28, 28], 16, [5, 5], 2, (2, 2)),
        case(3, 16, [14, 14], 32, [5, 5], 2, (2, 2)),
        case(100, 32, [7, 7], 32, [5, 5], 2, (2, 2)),
        case(100, 32, [7, 7], 32, [5, 5], 1, (2, 2)),
        case(100, 32, [7, 7], 64, [3, 3], 1, (1, 1)),
        case(3, 16, [14, 14], 4, [3, 3], 1, (1, 1)),
        case(1, 32, [14, 14], 16, [5, 5], 1, (2, 2)),
        case(3, 16, [28, 28], 1, [5, 5], 1, (2, 2)),
        // Odd ones.
        case(1, 1, [1, 1], 1, [1, 1], 1, (0, 0)),
        case(3, 3, [9, 5], 5, [4, 2], 3, (0, 1)),
        case(1, 5, [6, 11], 7, [3, 5], 2, (2, 0)),
        case(130, 9, [5, 4], 20, [2, 3], 1, (1, 0)),
        // Too large for tiles of whole images.
        case(2, 24, [40, 40], 130, [3, 3], 1, (1, 1)),
        case(1, 200, [6, 6], 70, [5, 5], 1, (2, 2)),
    ];
    // Most of the time is NVRTC's.
    std::thread::scope(|all| {
        for case in cases {
            all.spawn(move || everywhere(&format!("{case:?}"), 1e-12, 1e-5, 4e-3, |g, t| convolution(g, t, case)));
        }
    });
}

#[test]
fn gradients_of_filters_used_again_and_again_agree() {
    fn build(g: &Graph, t: DType) -> Outputs<'_> {
        let (mut x, f) = (literal(g, t, &[9, 8, 6, 6], 1), literal(g, t, &[8, 8, 3, 3], 2));
        for _ in 0..5 {
            x = (x.conv2d(f, 1, (1, 1)) * 0.1).tanh();
        }
        let loss = x.square().sum_all();
        let d = grad(loss, &[f]).unwrap()[0];
        let again = grad((d * 0.1).square().sum_all(), &[f]).unwrap()[0];
        vec![("images".to_owned(), x), ("filters".to_owned(), d), ("filters again".to_owned(), again)]
    }
    everywhere("one filter", 1e-11, 1e-4, 1e-2, build);
    // They are accumulated, and a block keeps its images.
    let graph = Graph::new();
    let mut builder = graph.program();
    for (name, e) in build(&graph, DType::F32) {
        builder = builder.output(&name, e);
    }
    assert!(builder.cuda_source("none").0.contains("ONTO = 1"));
}

#[test]
fn gradients_of_filters_that_others_read_too_agree() {
    /// Gradients of the same filters by losses of different depth.
    fn gradients<'g>(g: &'g Graph, t: DType) -> [Expr<'g>; 3] {
        let (f, h) = (literal(g, t, &[8, 8, 3, 3], 2), literal(g, t, &[8, 8, 3, 3], 3));
        [1, 2, 3].map(|depth| {
            let start = literal(g, t, &[9, 8, 6, 6], 3 + depth);
            let x = (0..depth).fold(start, |x, _| (x.conv2d(h, 1, (1, 1)) * 0.1).tanh());
            grad((x.conv2d(f, 1, (1, 1)) * 0.1).tanh().square().sum_all(), &[f]).unwrap()[0]
        })
    }
    fn build(g: &Graph, t: DType) -> Outputs<'_> {
        let [a, b, c] = gradients(g, t);
        vec![("product".to_owned(), a * b), ("sum".to_owned(), a + b + c)]
    }
    fn part(g: &Graph, t: DType) -> Outputs<'_> {
        let [a, b, c] = gradients(g, t);
        let some = a.slice(0, 0..4) + b.slice(0, 0..4);
        vec![("sum".to_owned(), g.concat(&[some, literal(g, t, &[4, 8, 3, 3], 9)], 0) + c)]
    }
    for build in [build, part] {
        everywhere("filters read by others", 1e-11, 1e-4, 1e-2, build);
        let graph = Graph::new();
        let mut builder = graph.program();
        for (name, e) in build(&graph, DType::F32) {
            builder = builder.output(&name, e);
        }
        assert!(!builder.cuda_source("none").0.contains("ONTO = 1"));
    }
}

#[test]
fn convolutions_that_read_other_images_wait_for_them() {
    // As many images as channels: images in the place of channels are the same run of memory.
    everywhere("other images", 1e-11, 1e-4, 1e-2, |g, t| {
        let f = |seed| literal(g, t, &[40, 40, 3, 3], seed);
        let x = (literal(g, t, &[40, 40, 6, 6], 1).conv2d(f(2), 1, (1, 1)) * 0.1).tanh();
        let turned = x.conv2d(f(3), 1, (1, 1)) + x.permute(&[1, 0, 2, 3]);
        vec![("turned".to_owned(), turned), ("filtered by itself".to_owned(), x.conv2d(x, 1, (2, 2)))]
    });
}

#[test]
fn views_between_resizing_and_convolutions_agree() {
    everywhere("views", 1e-12, 1e-5, 4e-3, |g, t| {
        let (x, f) = (literal(g, t, &[1, 1, 4, 4], 1), literal(g, t, &[2, 1, 3, 3], 2));
        let large = x.upsample(8, 8);
        let reshaped = large.reshape([1, 4, 4, 4]).conv2d(literal(g, t, &[3, 4, 1, 1], 3), 1, (0, 0));
        let rows = large.slice(2, 0..4).conv2d(f, 1, (1, 1));
        // The gradient of the first channels of what was joined; the others' is not asked for.
        let (a, b) = (literal(g, t, &[1, 4, 4, 4], 4), literal(g, t, &[1, 3, 8, 8], 5));
        let joined = g.concat(&[a.upsample(8, 8), b], 1).conv2d(literal(g, t, &[2, 7, 3, 3], 6), 1, (1, 1));
        let d = grad((joined * 0.1).tanh().sum_all(), &[a]).unwrap()[0];
        let named = [("reshaped", reshaped), ("some rows", rows), ("joined", d)];
        named.into_iter().map(|(name, e)| (name.to_owned(), e)).collect()
    });
}

#[test]
fn convolutions_resize_what_was_resized_for_them_and_nothing_else() {
    // Where it was not joined to a convolution, resizing is a function of its own.
    let apart = |up: bool, build: &dyn for<'g> Fn(&'g Graph) -> Expr<'g>| {
        let graph = Graph::new();
        let out = build(&graph);
        assert!(out.error().is_none(), "{:?}", out.error());
        graph.program().output("out", out).cuda_source("none").0.contains(&format!("resize<float, {up}>(a"))
    };
    fn image<'g>(g: &'g Graph, name: &str, shape: [usize; 4]) -> Expr<'g> {
        g.input(name, DType::F32, shape)
    }
    fn gradient<'g>(y: Expr<'g>, x: Expr<'g>) -> Expr<'g> {
        grad((y * 0.1).tanh().sum_all(), &[x]).unwrap()[0]
    }
    assert!(!apart(true, &|g| {
        image(g, "x", [1, 1, 4, 4]).upsample(8, 8).conv2d(image(g, "f", [2, 1, 3, 3]), 1, (1, 1))
    }));
    assert!(apart(true, &|g| {
        let x = image(g, "x", [1, 1, 4, 4]).upsample(8, 8).reshape([1, 4, 4, 4]);
        x.conv2d(image(g, "f", [3, 4, 1, 1]), 1, (0, 0))
    }));
    assert!(apart(true, &|g| {
        let x = image(g, "x", [1, 1, 4, 4]).upsample(8, 8).slice(2, 0..4);
        x.conv2d(image(g, "f", [2, 1, 3, 3]), 1, (1, 1))
    }));
    assert!(!apart(false, &|g| {
        let x = image(g, "x", [1, 4, 4, 4]);
        gradient(x.upsample(8, 8).conv2d(image(g, "f", [2, 4, 3, 3]), 1, (1, 1)), x)
    }));
    assert!(apart(false, &|g| {
        let (a, b) = (image(g, "a", [1, 4, 4, 4]), image(g, "b", [1, 3, 8, 8]));
        let joined = g.concat(&[a.upsample(8, 8), b], 1);
        gradient(joined.conv2d(image(g, "f", [2, 7, 3, 3]), 1, (1, 1)), a)
    }));
}

#[test]
fn indexing_agrees() {
    everywhere("indexing", 1e-14, 1e-6, 0.0, |g, t| {
        let x = literal(g, t, &[6, 9, 5], 1);
        let index = g.literal(Array::new(7, vec![2, 0, 2, 8, 5, 5, 5]).unwrap());
        let taken = x.take(1, index);
        let d = grad((taken * literal(g, t, &[6, 7, 5], 2)).sum_all(), &[x]).unwrap()[0];
        vec![("take".to_owned(), taken), ("put".to_owned(), d)]
    });
}

#[test]
fn noise_has_the_same_bits() {
    for (t, off) in [(DType::F64, 1e-15), (DType::F32, 2e-6)] {
        agree("normal noise", t, false, off, |g| {
            vec![("normal".to_owned(), g.normal(5, t, [1003])), ("few".to_owned(), g.normal(6, t, [3]))]
        });
        agree("uniform noise", t, false, 0.0, |g| vec![("uniform".to_owned(), g.uniform(5, t, [20_001]))]);
    }
}

/// Σ zᵢ⁴ by hand.
struct Quartic;

impl External for Quartic {
    fn name(&self) -> &str {
        "quartic"
    }
    fn dimension(&self) -> usize {
        3
    }
    fn value(&self, z: &[f64]) -> Result<f64, String> {
        if z[0] > 100.0 {
            return Err("too large".to_owned());
        }
        Ok(z.iter().map(|z| z.powi(4)).sum())
    }
    fn gradient(&self, z: &[f64], gradient: &mut [f64]) -> Result<f64, String> {
        gradient.iter_mut().zip(z).for_each(|(g, z)| *g = 4.0 * z.powi(3));
        self.value(z)
    }
    fn hessian_vector(&self, z: &[f64], v: &[f64], product: &mut [f64]) -> Result<(), String> {
        product.iter_mut().zip(z).zip(v).for_each(|((p, z), v)| *p = 12.0 * z * z * v);
        Ok(())
    }
    fn has_hessian_vector(&self) -> bool {
        true
    }
}

#[test]
fn external_functions_agree() {
    agree("external", DType::F64, false, 1e-13, |g| {
        let x = literal(g, DType::F64, &[10, 3], 4);
        let y = (x * 1.5).external(Arc::new(Quartic));
        let d = grad(y.sum_all(), &[x]).unwrap()[0];
        let dd = grad(d.square().sum_all(), &[x]).unwrap()[0];
        vec![("value".to_owned(), y), ("gradient".to_owned(), d * 2.0), ("second".to_owned(), dd)]
    });
}

/// Stochastic gradient descent with inputs fed, outputs recorded, and a choice of rows by index.
fn training(graph: &Graph, device: Device) -> Program {
    let w = graph.state("w", Array::filled(DType::F64, [4, 3], 0.1).unwrap());
    let count = graph.state("count", Array::scalar(0.0));
    let x = graph.input("x", DType::F64, [8, 4]);
    let index = graph.input("index", DType::I32, [5]);
    let noise = graph.normal(graph.fresh_stream(), DType::F64, [5, 3]) * 0.01;
    let y = (x.take(0, index).matmul(w) + noise).tanh();
    let loss = (y - 0.3).square().mean_all();
    let d = grad(loss, &[w]).unwrap()[0];
    let builder = graph.program().output("loss", loss).output("y", y).update(w, w - d).update(count, count + 1.0);
    builder.device(device).seed(11).compile().unwrap()
}

#[test]
fn runs_with_feeds_records_and_failures_agree() {
    let Some(device) = gpu() else { return };
    let steps = 150;
    let x = array([steps, 8, 4], irregular(steps * 32, 1));
    let picks: Vec<i32> = (0..steps as i32 * 5).map(|i| i * 7 % 8).collect();
    let index = Array::new([steps, 5], picks.clone()).unwrap();
    let graphs = [Graph::new(), Graph::new()];
    let mut programs = [training(&graphs[0], Device::Cpu), training(&graphs[1], device)];
    let mut results = vec![];
    for program in &mut programs {
        let run = Run::steps(steps).feed("x", &x).feed("index", &index).record("loss").record("y");
        let recorded = program.execute(&run).unwrap();
        assert_eq!(program.step(), steps as u64);
        results.push([recorded, program.states().unwrap().into_iter().map(|s| s.1).collect()].concat());
    }
    for (want, got) in results[0].iter().zip(&results[1]) {
        common::assert_close(&got.to_f64(), &want.to_f64(), 1e-10);
    }
    // A step that fails leaves everything as it was before it.
    let mut bad = picks;
    bad[5 * 70 + 2] = 8;
    let index = Array::new([steps, 5], bad).unwrap();
    let mut ends = vec![];
    for program in &mut programs {
        let run = Run::steps(steps).feed("x", &x).feed("index", &index).record("loss");
        let error = program.execute(&run).unwrap_err();
        assert!(matches!(error, Error::Index { op: "take", index: 8, len: 8 }), "{error}");
        assert_eq!(program.step(), steps as u64 + 70);
        ends.push(program.read("w").unwrap().to_f64());
        assert_eq!(program.read("count").unwrap().to_f64(), [steps as f64 + 70.0]);
    }
    common::assert_close(&ends[1], &ends[0], 1e-10);
}

#[test]
fn a_run_repeats_itself_on_any_number_of_multiprocessors() {
    let Some(device) = gpu() else { return };
    let run = |count: usize| {
        let g = Graph::new();
        let w = g.state("w", array([64, 300], irregular(64 * 300, 1)).cast(DType::F32));
        let x = g.normal(1, DType::F32, [100, 64]);
        let y = x.matmul(w).softplus();
        let loss = (y.square().sum(&[1]).mean_all() * 0.01).tanh();
        let d = grad(loss, &[w]).unwrap()[0];
        let builder = g.program().output("loss", loss).update(w, w - d * 0.1).device(device).multiprocessors(count);
        let mut program = builder.compile().unwrap();
        let losses = program.execute(&Run::steps(200).record("loss")).unwrap();
        (losses, program.states().unwrap())
    };
    let first = run(1000);
    assert_eq!(first, run(1000));
    assert_eq!(first, run(5));
    assert_eq!(first, run(1));
}

#[test]
fn convolutions_repeat_themselves_on_any_number_of_multiprocessors() {
    let Some(device) = gpu() else { return };
    let run = |count: usize| {
        let g = Graph::new();
        let f = g.state("f", array([20, 3, 5, 5], irregular(1500, 1)).cast(DType::F32));
        let x = g.normal(1, DType::F32, [50, 3, 12, 12]);
        let y = (x.conv2d(f, 2, (2, 2)) * 0.1).softplus();
        let loss = y.upsample(11, 11).square().mean_all();
        let slope = grad(loss, &[x]).unwrap()[0].square().mean_all();
        let d = grad(loss + slope, &[f]).unwrap()[0];
        let builder = g.program().output("loss", loss).update(f, f - d * 0.1).device(device).multiprocessors(count);
        let mut program = builder.compile().unwrap();
        let losses = program.execute(&Run::steps(100).record("loss")).unwrap();
        (losses, program.states().unwrap())
    };
    let first = run(1000);
    assert_eq!(first, run(1000));
    assert_eq!(first, run(7));
    assert_eq!(first, run(1));
}

#[test]
fn programs_in_several_threads_do_not_disturb_each_other() {
    let Some(device) = gpu() else { return };
    let run = |seed: usize, count: usize| {
        let g = Graph::new();
        let w = g.state("w", array([64, 300], irregular(64 * 300, seed)).cast(DType::F32));
        let x = g.normal(1, DType::F32, [200, 64]);
        let loss = (x.matmul(w).softplus().square().sum(&[1]).mean_all() * 0.01).tanh();
        let d = grad(loss, &[w]).unwrap()[0];
        let builder = g.program().output("loss", loss).update(w, w - d * 0.1).device(device).multiprocessors(count);
        let mut program = builder.compile().unwrap();
        let losses = program.execute(&Run::steps(300).record("loss")).unwrap();
        (losses, program.states().unwrap())
    };
    let alone: Vec<_> = (0..4).map(|i| run(i, 1000)).collect();
    // All of the GPU for each, and a part of it.
    for count in [1000, 30] {
        let together: Vec<_> = std::thread::scope(|s| {
            let threads: Vec<_> = (0..4).map(|i| s.spawn(move || run(i, count))).collect();
            threads.into_iter().map(|t| t.join().unwrap()).collect()
        });
        assert!(alone == together);
    }
}

#[test]
fn what_is_missing_is_said() {
    let error = Device::Cuda(1000).check().unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with("cuda:1000: "), "{text}");
    assert!(text.contains("GPUs here") || text.contains("driver"), "{text}");
    if let Some(device) = gpu() {
        let g = Graph::new();
        let x = g.state("x", Array::scalar(0.0));
        let huge = (g.normal(0, DType::F64, [1 << 20, 1 << 17]) + x).cumsum(0);
        let error = g.program().output("y", huge.sum_all()).device(device).compile().unwrap_err();
        assert!(matches!(error, Error::DeviceMemory { .. }), "{error}");
    }
}

#[test]
fn loops_agree() {
    everywhere("loops", 1e-12, 2e-5, 5e-3, |g, t| {
        let (z, w, x) = (literal(g, t, &[20, 8], 1), literal(g, t, &[8, 8], 2), literal(g, t, &[13, 8], 3));
        // Products, reductions and draws of rows that begin within a block of the generator.
        let (last, ys) = g.scan(13, &[z], &[x], |c, x| {
            let noise = g.normal(11, t, [7]);
            let next = ((c[0].matmul(w) + x[0]) * 0.3).tanh() + noise.sum_all() * 0.01;
            (vec![next], vec![next.sum(&[1]), noise])
        });
        // A loop within a loop, and one in segments.
        let (nested, _) = g.scan(3, &[z], &[x.slice(0, 0..3)], |c, x| {
            let (inner, ys) = g.scan(4, &[c[0] * 0.5], &[], |d, _| (vec![(d[0] + x[0]).sin()], vec![d[0] * c[0]]));
            (vec![inner[0] + ys[0].sum(&[0])], vec![])
        });
        let (segments, rows) = g.scan_checkpointed(13, &[z], &[x], |c, x| {
            let noise = g.uniform(12, t, [8]);
            (vec![c[0] * 0.9 + (x[0] * noise).cos()], vec![c[0].sum(&[0])])
        });
        let y = (last[0] * nested[0]).sum_all() + ys[0].square().sum_all() + (segments[0] * last[0]).sum_all();
        let d = grad(y + rows[0].sin().sum_all(), &[z, w, x]).unwrap();
        let dd = grad((d[0] * z).sum_all() + d[1].square().sum_all(), &[w, x]).unwrap();
        let named = [("last", last[0]), ("sums", ys[0]), ("noise", ys[1]), ("nested", nested[0]), ("rows", rows[0])];
        let derived = [("dz", d[0]), ("dw", d[1]), ("dx", d[2]), ("ddw", dd[0]), ("ddx", dd[1])];
        named.into_iter().chain(derived).map(|(name, e)| (name.to_owned(), e)).collect()
    });
}

#[test]
fn the_source_of_a_loop_does_not_grow_with_its_length() {
    let source = |length: usize| {
        let g = Graph::new();
        let z = g.input("z", DType::F64, [16]);
        let (last, _) = g.scan(length, &[z], &[], |c, _| (vec![(c[0] * 1.1).sin()], vec![]));
        let d = grad(last[0].sum_all(), &[z]).unwrap();
        g.program().output("d", d[0]).cuda_source("sm_90").0
    };
    assert_eq!(source(5).len(), source(50).len());
}
