//! Tests of the kernels: special values, extreme ranges, the basic operations, aliasing.

use super::tests::{levels, run, run_both};
use super::{Level, Real, micro, scalar};
use crate::table::{Binary as B, Function, Function as O, MAX_ORDER, Pair, Unary as U};

const INF: f64 = f64::INFINITY;
const NAN: f64 = f64::NAN;

/// Equal including the sign of zero, any NaN equal to any.
fn same(x: f64, y: f64) -> bool {
    (x.is_nan() && y.is_nan()) || (x == y && x.is_sign_negative() == y.is_sign_negative())
}

#[test]
fn special_values() {
    let cases: &[(Function, &[f64], &[f64])] = &[
        (O::Unary(U::Exp), &[0.0, -0.0, INF, -INF, NAN, 1000.0, -1000.0], &[1.0, 1.0, INF, 0.0, NAN, INF, 0.0]),
        (O::Unary(U::Expm1), &[0.0, -0.0, INF, -INF, NAN, 1000.0], &[0.0, -0.0, INF, -1.0, NAN, INF]),
        (O::Unary(U::Ln), &[0.0, -0.0, 1.0, INF, -INF, NAN, -1.0], &[-INF, -INF, 0.0, INF, NAN, NAN, NAN]),
        (O::Unary(U::Log1p), &[0.0, -0.0, -1.0, -2.0, INF, -INF, NAN], &[0.0, -0.0, -INF, NAN, INF, NAN, NAN]),
        (O::Unary(U::Softplus), &[INF, -INF, NAN, 1e30, -1e30], &[INF, 0.0, NAN, f64::NAN, 0.0]),
        (O::Unary(U::Sigmoid), &[0.0, INF, -INF, NAN, 1e30, -1e30], &[0.5, 1.0, 0.0, NAN, 1.0, 0.0]),
        (O::Unary(U::Tanh), &[0.0, -0.0, INF, -INF, NAN, 1e30], &[0.0, -0.0, 1.0, -1.0, NAN, 1.0]),
        (O::Unary(U::Sin), &[0.0, -0.0, INF, -INF, NAN], &[0.0, -0.0, NAN, NAN, NAN]),
        (O::Unary(U::Cos), &[0.0, -0.0, INF, -INF, NAN], &[1.0, 1.0, NAN, NAN, NAN]),
        (O::Unary(U::Erf), &[0.0, -0.0, INF, -INF, NAN, 30.0], &[0.0, -0.0, 1.0, -1.0, NAN, 1.0]),
        (O::Unary(U::Erfc), &[0.0, -0.0, INF, -INF, NAN, 30.0, -30.0], &[1.0, 1.0, 0.0, 2.0, NAN, 0.0, 2.0]),
        (O::Unary(U::Erfcx), &[0.0, -0.0, INF, -INF, NAN, -30.0], &[1.0, 1.0, 0.0, INF, NAN, INF]),
        (O::Unary(U::LogErfc), &[0.0, -0.0, INF, NAN, -NAN], &[-0.0, 0.0, -INF, NAN, NAN]),
        (O::Unary(U::Sign), &[0.0, -0.0, INF, -3.0, NAN, 1e-30], &[0.0, -0.0, 1.0, -1.0, NAN, 1.0]),
        (
            O::Unary(U::Floor),
            &[0.0, -0.0, -0.5, 2.5, -2.5, 3.0, -3.0, INF, -INF, NAN, 1e30, 0.999],
            &[0.0, -0.0, -1.0, 2.0, -3.0, 3.0, -3.0, INF, -INF, NAN, f64::NAN, 0.0],
        ),
        (O::Unary(U::Lgamma), &[0.0, -0.0, -1.0, -7.0, INF, -INF, NAN], &[INF, INF, INF, INF, INF, INF, NAN]),
        (O::Unary(U::Polygamma(0)), &[0.0, -0.0, -1.0, INF, -INF, NAN], &[-INF, INF, NAN, INF, NAN, NAN]),
        (O::Unary(U::Polygamma(1)), &[0.0, -0.0, -1.0, INF, -INF, NAN], &[INF, INF, INF, 0.0, NAN, NAN]),
        (O::Unary(U::Polygamma(2)), &[0.0, -1.0, INF, -INF, NAN], &[-INF, NAN, -0.0, NAN, NAN]),
        (O::Unary(U::Polygamma(3)), &[0.0, -1.0, INF, -INF, NAN], &[INF, INF, 0.0, NAN, NAN]),
    ];
    for level in levels() {
        for &(op, x, want) in cases {
            let (r64, r32) = (run::<f64>(level, op, x, &[], &[]), run::<f32>(level, op, x, &[], &[]));
            for i in 0..x.len() {
                // 1e30 maps to itself, but not to the same number in both types.
                let large = x[i] == 1e30 && want[i].is_nan();
                let (w64, w32) = if large { (1e30, f64::from(1e30f32)) } else { (want[i], want[i]) };
                assert!(same(r64[i], w64), "{level:?} {op:?}({}) = {}", x[i], r64[i]);
                assert!(same(r32[i], w32), "{level:?} f32 {op:?}({}) = {}", x[i], r32[i]);
            }
        }
    }
}

#[test]
fn f64_ranges() {
    let lo = 5e-324;
    let cases: &[(Function, f64, f64, f64)] = &[
        (O::Unary(U::Exp), -745.0, 0.0, lo),
        (O::Unary(U::Exp), -720.0, 0.0, f64::exp(-720.0)),
        (O::Unary(U::Erfc), 27.0, 0.0, 5.2370486e-319),
        (O::Unary(U::LogErfc), 30.0, 0.0, -903.9741171106439),
        (O::Unary(U::LogErfc), 1e150, 0.0, -1e300),
        (O::Unary(U::LogErfc), 1e200, 0.0, -INF),
        (O::Unary(U::LogErfc), -INF, 0.0, std::f64::consts::LN_2),
        (O::Unary(U::Exp), 709.7, 0.0, 1.6549840276802644e308),
        (O::Unary(U::Expm1), 709.7, 0.0, 1.6549840276802644e308),
        (O::Unary(U::Ln), lo, 0.0, -744.4400719213812),
        (O::Unary(U::Ln), f64::MAX, 0.0, 709.782712893384),
        (O::Unary(U::Log1p), f64::MAX, 0.0, 709.782712893384),
        (O::Unary(U::Softplus), -740.0, 0.0, f64::exp(-740.0)),
        (O::Unary(U::Sigmoid), -740.0, 0.0, f64::exp(-740.0)),
        (O::Unary(U::Lgamma), 1e-300, 0.0, 690.7755278982137),
        (O::Unary(U::Lgamma), lo, 0.0, 744.4400719213812),
        (O::Unary(U::Lgamma), 1e300, 0.0, 6.897755278982137e302),
        (O::Unary(U::Lgamma), f64::MAX, 0.0, INF),
        (O::Unary(U::Polygamma(0)), 1e-300, 0.0, -1e300),
        (O::Unary(U::Polygamma(0)), f64::MAX, 0.0, 709.782712893384),
        (O::Unary(U::Polygamma(1)), 1e-300, 0.0, INF),
        (O::Unary(U::Polygamma(1)), 1e-150, 0.0, 1e300),
        (O::Unary(U::Polygamma(1)), 1e300, 0.0, 1e-300),
        (O::Binary(B::PolygammaDiff(0)), 1e300, 3.0, 3.0 * 690.7755278982137),
        (O::Binary(B::PolygammaDiff(0)), f64::MAX, 3.0, 3.0 * 709.782712893384),
        (O::Binary(B::PolygammaDiff(0)), 1e300, 1e-20, 690.7755278982137e-20),
        (O::Binary(B::PolygammaDiff(0)), 1e-300, 1.0, -690.7755278982137),
        (O::Binary(B::PolygammaDiff(0)), 1e-300, 1e-300, -std::f64::consts::LN_2),
        (O::Binary(B::PolygammaDiff(0)), 1e-250, 1e-250, -std::f64::consts::LN_2),
        (O::Binary(B::PolygammaDiff(0)), 0.5, 1e300, 6.897755278982137e302),
        (O::Binary(B::PolygammaDiff(1)), 1e300, 1e300, std::f64::consts::LN_2),
        (O::Binary(B::PolygammaDiff(1)), 1e-300, 1e-300, 5e299),
        (O::Binary(B::PolygammaDiff(1)), 1e-200, 1e-200, 5e199),
        (O::Binary(B::PolygammaDiff(1)), 1e-200, 1e10, 1e200),
        (O::Binary(B::PolygammaDiff(2)), 1e-100, 1e-100, -0.75e200),
        (O::Binary(B::PolygammaDiff(2)), 1e-100, 1e10, -1e200),
        (O::Binary(B::PolygammaDiff(2)), 1e150, 1e150, -5e-151),
    ];
    for level in levels() {
        for &(op, a, b, want) in cases {
            let got = run::<f64>(level, op, &[a], &[b], &[])[0];
            let ok = got == want || (got - want).abs() <= (1e-14 * want.abs()).max(5e-324);
            assert!(ok, "{level:?} {op:?}({a:e}, {b:e}) = {got:e}, not {want:e}");
        }
    }
}

#[test]
fn f32_ranges() {
    let ln = |x: f32| f64::from(x).ln();
    let cases: &[(Function, f32, f32, f64)] = &[
        (O::Unary(U::Erfc), 9.9, 0.0, 1.5e-44),
        (O::Unary(U::LogErfc), 30.0, 0.0, -903.9741171106439),
        (O::Unary(U::LogErfc), 1e19, 0.0, -1e38),
        (O::Unary(U::LogErfc), f32::NEG_INFINITY, 0.0, std::f64::consts::LN_2),
        (O::Unary(U::Exp), -103.0, 0.0, f64::exp(-103.0)),
        (O::Unary(U::Ln), 1e-45, 0.0, ln(1e-45)),
        (O::Unary(U::Log1p), f32::MAX, 0.0, ln(f32::MAX)),
        (O::Unary(U::Lgamma), 1e-45, 0.0, -ln(1e-45)),
        (O::Unary(U::Lgamma), 1e38, 0.0, INF),
        (O::Unary(U::Polygamma(0)), f32::MAX, 0.0, ln(f32::MAX)),
        (O::Unary(U::Polygamma(0)), 1e-38, 0.0, -1e38),
        (O::Unary(U::Polygamma(1)), 1e-30, 0.0, INF),
        (O::Unary(U::Polygamma(1)), 1e37, 0.0, 1e-37),
        (O::Binary(B::PolygammaDiff(0)), 1e38, 3.0, 3.0 * ln(1e38)),
        (O::Binary(B::PolygammaDiff(0)), 1e30, 1e-10, 1e-10 * ln(1e30)),
        (O::Binary(B::PolygammaDiff(0)), 1e-30, 1e-30, -std::f64::consts::LN_2),
        (O::Binary(B::PolygammaDiff(1)), 1e38, 1e38, std::f64::consts::LN_2),
        (O::Binary(B::PolygammaDiff(2)), 1e18, 1e18, -5e-19),
        (O::Binary(B::Pow), 1e-40, 0.5, f64::from(1e-40f32).sqrt()),
    ];
    for level in levels() {
        for &(op, a, b, want) in cases {
            let got = run::<f32>(level, op, &[a.into()], &[b.into()], &[])[0];
            let ok = got == want || (got - want).abs() <= (5e-7 * want.abs()).max(1.5e-45);
            assert!(ok, "{level:?} {op:?}({a:e}, {b:e}) = {got:e}, not {want:e}");
        }
    }
}

#[test]
fn diff_edges() {
    for level in levels() {
        for k in 0..=4 {
            let a = [1e-300, 0.3, 1.0, 7.5, 8.0, 40.0, 1e26, 1e300];
            let r = run::<f64>(level, O::Binary(B::PolygammaDiff(k)), &a, &[0.0; 8], &[]);
            assert!(r.iter().all(|x| *x == 0.0), "{level:?} {k}: {r:?}");
            if k < 2 {
                let r = run_both::<f64>(level, O::Pair(Pair::Diff(k)), &a, &[0.0; 8], &[]);
                assert!(r.iter().flatten().all(|x| *x == 0.0), "{level:?} pair {k}: {r:?}");
            }
        }
        // Outside a > 0, a + n > 0: the plain difference.
        let r = run::<f64>(
            level,
            O::Binary(B::PolygammaDiff(0)),
            &[2.5, -1.5, NAN, 1.0, INF],
            &[-3.0, 1.0, 1.0, NAN, 2.0],
            &[],
        );
        assert!((r[0] - (1.2655121234846454 - 0.2846828704729192)).abs() < 1e-14, "{r:?}");
        assert!((r[1] - (1.2655121234846454 - 0.860_047_015_376_481)).abs() < 1e-14, "{r:?}");
        assert!(r[2].is_nan() && r[3].is_nan() && r[4] == INF, "{r:?}");
    }
}

/// The kernels of differences: operation, which of its results, order.
const DIFFS: [(Function, usize, u32); 7] = [
    (O::Binary(B::PolygammaDiff(0)), 0, 0),
    (O::Binary(B::PolygammaDiff(1)), 0, 1),
    (O::Binary(B::PolygammaDiff(2)), 0, 2),
    (O::Pair(Pair::Diff(0)), 0, 0),
    (O::Pair(Pair::Diff(0)), 1, 1),
    (O::Pair(Pair::Diff(1)), 0, 1),
    (O::Pair(Pair::Diff(1)), 1, 2),
];

/// Lanes of every kind side by side: each has the bits it has alone, and the value of the scalar form.
fn mixed<T: Real>(tol: f64) {
    let kinds = [0.0, 1.0, 2.0, 3.0, -0.0, 4.0, 54.0, 0.7, -0.3, 1e-9, 3e4, 1e20];
    let bases = [0.4, 1.0, 2.7, 5.5, 7.9, 8.0, 21.0, 900.0, 1e-7, 1e-44, 1e18, 0.618];
    let at = |i: usize| (bases[(i * 7 + i / 11) % 12], kinds[(i * 5 + i / 7) % 12]);
    for ((op, nth, k), level) in DIFFS.into_iter().flat_map(|d| levels().into_iter().map(move |l| (d, l))) {
        // Few lanes of other kinds among the small whole numbers, then many.
        for sparse in [1, 2, 19, 83] {
            let rows: Vec<_> = (0..304)
                .map(|i| if i % sparse == 0 { at(i / sparse) } else { (0.5 + 0.02 * i as f64, (i % 4) as f64) })
                .map(|(a, n)| (T::lit(a).to_f64(), T::lit(n).to_f64()))
                .collect();
            let (a, b): (Vec<f64>, Vec<f64>) = rows.into_iter().unzip();
            let all = &run_both::<T>(level, op, &a, &b, &[])[nth];
            for i in 0..a.len() {
                let one = run_both::<T>(level, op, &a[i..=i], &b[i..=i], &[])[nth][0];
                let want = T::lit(scalar::polygamma_diff(k, a[i], b[i])).to_f64();
                assert_eq!(all[i].to_bits(), one.to_bits(), "{level:?} {op:?} {nth} {} {}", a[i], b[i]);
                let near = (one - want).abs() <= tol * want.abs().max(if k == 0 { 1.0 } else { 0.0 });
                assert!(same(one, want) || near, "{level:?} {op:?} {nth} {} {}: {one} not {want}", a[i], b[i]);
            }
        }
    }
}

#[test]
fn diff_mixed() {
    mixed::<f64>(1e-14);
    mixed::<f32>(1e-6);
}

/// The results of a pair are those of the single kernels, to `tol`: exact zeros, infinities and NaN too.
fn pairs<T: Real>(tol: f64) {
    let bases = [
        1e-300, 1e-200, 1e-60, 1e-44, 1e-30, 1e-9, 0.01, 0.5, 1.0, 3.3, 7.99, 8.0, 8.5, 40.0, 1e3, 1e9, 1e13, 1e26,
        1e37, 1e300, INF, 0.0, -0.5, -2.0, -INF, NAN,
    ];
    let steps = [
        0.0, -0.0, 1.0, 2.0, 3.0, 4.0, 54.0, 3e4, 0.3, 1e-3, 1e-9, 1e-30, 1e-320, 1e14, 1e26, 1e200, INF, -1e-9, -0.25,
        -1.0, -3.0, -7.0, -39.5, -INF, NAN,
    ];
    let rows = bases.iter().flat_map(|a| steps.iter().map(move |n| (*a, *n)));
    let (a, b): (Vec<f64>, Vec<f64>) = rows.map(|(a, n)| (T::lit(a).to_f64(), T::lit(n).to_f64())).unzip();
    for (level, k) in levels().into_iter().flat_map(|l| [(l, 0), (l, 1)]) {
        let both = run_both::<T>(level, O::Pair(Pair::Diff(k)), &a, &b, &[]);
        for (order, got) in (k..).zip(&both) {
            let want = run::<T>(level, O::Binary(B::PolygammaDiff(order)), &a, &b, &[]);
            for i in 0..a.len() {
                let (x, y, at) = (got[i], want[i], (level, k, order, a[i], b[i]));
                // lgamma's difference has zeros, near which the error is absolute.
                let unit = y.abs().max(if order == 0 && b[i].abs() > 1e-3 { 1.0 } else { 0.0 });
                let near = (x - y).abs() <= (tol * unit).max(T::MIN_NORMAL.to_f64());
                assert!(near || same(x, y) || x == y, "{at:?}: {x:e} not {y:e}");
                let inside = a[i] > 0.0 && a[i] < INF && b[i] == 0.0;
                assert!(!inside || x == 0.0, "{at:?}: {x:e}");
            }
        }
    }
}

#[test]
fn pairs_match() {
    pairs::<f64>(5e-15);
    pairs::<f32>(6e-7);
}

/// The softplus and the sigmoid have the same bits together as apart.
fn softplus_pair<T: Real>() {
    let edges = [0.0, -0.0, INF, -INF, NAN, 1e-300, -1e-300, 40.0, -40.0, 750.0, -750.0, 1e300, -1e300];
    let a: Vec<f64> = (-200..200).map(|i| f64::from(i) * 0.37).chain(edges).collect();
    for level in levels() {
        let both = run_both::<T>(level, O::Pair(Pair::Softplus), &a, &[], &[]);
        for (function, got) in Pair::Softplus.both().into_iter().zip(&both) {
            let want = run::<T>(level, function, &a, &[], &[]);
            for ((a, x), y) in a.iter().zip(got).zip(&want) {
                assert!(same(*x, *y), "{level:?} {function:?} at {a}: {x:e} not {y:e}");
            }
        }
    }
}

#[test]
fn softplus_pairs_match() {
    softplus_pair::<f64>();
    softplus_pair::<f32>();
}

/// Both results of a pair written over operands are those written elsewhere.
fn pairs_in_place<T: Real>() {
    for (level, pair) in levels().into_iter().flat_map(|l| Pair::ALL.map(|pair| (l, pair))) {
        let f = micro::<T>(level, O::Pair(pair));
        for n in [T::LANES, 3 * T::LANES, 128 + T::LANES] {
            // Chunks that are easy; some of whose lanes are few, odd, neither; none of whose lanes are few.
            for (low, step, whole) in [(9.0, 0.25, false), (-1.0, 0.25, true), (0.1, 0.3, false)] {
                let a: Vec<T> = (0..n).map(|i| T::lit(((i * 31) % 97) as f64 * 0.25 + low)).collect();
                let b = (0..n).map(|i| ((i * 17) % 23) as f64 * step).map(|x| if whole { x.floor() } else { x });
                let b: Vec<T> = b.map(T::lit).collect();
                let bits = |v: &[T]| v.iter().map(|x| x.to_f64().to_bits()).collect::<Vec<_>>();
                let mut want = [a.clone(), a.clone()];
                let [d, c] = want.each_mut().map(|v| v.as_mut_ptr());
                // SAFETY: n elements each, a multiple of LANES, at a level the processor has.
                unsafe { f(d, a.as_ptr(), b.as_ptr(), c, n) };
                // Where the results go: buffers 0 and 1 hold the operands.
                for (first, second) in [(0, 1), (1, 0), (0, 2), (1, 2), (2, 0), (2, 1)] {
                    let mut v = [a.clone(), b.clone(), a.clone()];
                    let p = v.each_mut().map(|v| v.as_mut_ptr());
                    // SAFETY: as above; the results are different buffers.
                    unsafe { f(p[first], p[0], p[1], p[second], n) };
                    assert_eq!(bits(&v[first]), bits(&want[0]), "{level:?} {pair:?} n {n} over {first}, {second}");
                    assert_eq!(bits(&v[second]), bits(&want[1]), "{level:?} {pair:?} n {n} over {first}, {second}");
                }
            }
        }
    }
}

#[test]
fn pairs_alias() {
    pairs_in_place::<f32>();
    pairs_in_place::<f64>();
}

#[test]
fn basics() {
    let a = [1.5, -2.0, 0.0, 4.0, NAN, 3.0, INF, -0.0];
    let b = [0.5, -2.0, 1.0, -4.0, 1.0, NAN, 2.0, 5.0];
    let c = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0];
    let sel = |x: bool| if x { 1.0 } else { 0.0 };
    type Scalar = Box<dyn Fn(f64, f64, f64) -> f64>;
    let ops: Vec<(Function, Scalar)> = vec![
        (O::Unary(U::Neg), Box::new(|a, _, _| -a)),
        (O::Unary(U::Recip), Box::new(|a, _, _| 1.0 / a)),
        (O::Unary(U::Square), Box::new(|a, _, _| a * a)),
        (O::Unary(U::Sqrt), Box::new(|a, _, _| a.sqrt())),
        (O::Unary(U::Abs), Box::new(|a, _, _| a.abs())),
        (O::Binary(B::Add), Box::new(|a, b, _| a + b)),
        (O::Binary(B::Sub), Box::new(|a, b, _| a - b)),
        (O::Binary(B::Mul), Box::new(|a, b, _| a * b)),
        (O::Binary(B::Div), Box::new(|a, b, _| a / b)),
        (O::Binary(B::Min), Box::new(|a, b, _| if a.is_nan() || b.is_nan() { NAN } else { a.min(b) })),
        (O::Binary(B::Max), Box::new(|a, b, _| if a.is_nan() || b.is_nan() { NAN } else { a.max(b) })),
        (O::Binary(B::Pow), Box::new(|a, b, _| a.powf(b))),
        (O::Binary(B::Lt), Box::new(move |a, b, _| sel(a < b))),
        (O::Binary(B::Le), Box::new(move |a, b, _| sel(a <= b))),
        (O::Binary(B::Eq), Box::new(move |a, b, _| sel(a == b))),
        (O::MUL_ADD, Box::new(|a, b, c| a * b + c)),
        (O::SELECT, Box::new(|a, b, c| if a != 0.0 { b } else { c })),
    ];
    for level in levels() {
        for (op, f) in &ops {
            let (r64, r32) = (run::<f64>(level, *op, &a, &b, &c), run::<f32>(level, *op, &a, &b, &c));
            for i in 0..8 {
                let want = f(a[i], b[i], c[i]);
                assert!(same(r64[i], want), "{level:?} {op:?} {i}: {} not {want}", r64[i]);
                let near = same(r32[i], want) || (r32[i] - want).abs() <= 1.2e-7 * want.abs();
                assert!(near, "{level:?} f32 {op:?} {i}: {} not {want}", r32[i]);
            }
        }
    }
}

/// The result written over an operand is the one written elsewhere, at any length.
fn in_place<T: Real>() {
    let ops = [
        O::Unary(U::Exp),
        O::Unary(U::Softplus),
        O::Unary(U::Lgamma),
        O::Unary(U::Polygamma(2)),
        O::Unary(U::Sin),
        O::Binary(B::Add),
        O::Binary(B::Pow),
        O::MUL_ADD,
        O::SELECT,
        O::Binary(B::PolygammaDiff(0)),
        O::Binary(B::PolygammaDiff(1)),
    ];
    for level in levels() {
        for op in ops {
            for n in [T::LANES, 3 * T::LANES, 128 + T::LANES] {
                let v = |s: usize| -> Vec<T> { (0..n).map(|i| T::lit(((i * s) % 97) as f64 * 0.25 - 1.0)).collect() };
                let x = [v(31), v(17), v(5)];
                let f = micro::<T>(level, op);
                let mut want = v(1);
                // SAFETY: n elements each, a multiple of LANES, at a level the processor has.
                unsafe { f(want.as_mut_ptr(), x[0].as_ptr(), x[1].as_ptr(), x[2].as_ptr(), n) };
                for k in 0..3 {
                    let mut y = x.clone();
                    let mut p = y.each_mut().map(|v| v.as_mut_ptr());
                    if k > 0
                        && matches!(
                            op,
                            O::Unary(U::Exp)
                                | O::Unary(U::Softplus)
                                | O::Unary(U::Lgamma)
                                | O::Unary(U::Polygamma(2))
                                | O::Unary(U::Sin)
                        )
                    {
                        p[1] = std::ptr::null_mut();
                        p[2] = std::ptr::null_mut();
                        p[k] = p[0];
                    }
                    // SAFETY: as above; dst is one of the operands, and unused ones are null.
                    unsafe { f(p[k], p[0], p[1], p[2], n) };
                    let got = if p[k] == p[0] { &y[0] } else { &y[k] };
                    let bits = |v: &[T]| v.iter().map(|x| x.to_f64().to_bits()).collect::<Vec<_>>();
                    assert_eq!(bits(got), bits(&want), "{level:?} {op:?} over operand {k}, n {n}");
                }
            }
        }
    }
}

#[test]
fn in_place_f32() {
    in_place::<f32>();
}

#[test]
fn in_place_f64() {
    in_place::<f64>();
}

#[test]
fn orders_exist() {
    for k in 0..=MAX_ORDER {
        let p = run::<f64>(Level::Baseline, O::Unary(U::Polygamma(k)), &[2.5], &[], &[])[0];
        let d =
            run::<f64>(Level::Baseline, O::Binary(B::PolygammaDiff(k + u32::from(k < MAX_ORDER))), &[2.5], &[0.5], &[])
                [0];
        assert!(p.is_finite() && d.is_finite());
    }
}
