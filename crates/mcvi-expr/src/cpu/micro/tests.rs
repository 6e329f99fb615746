//! Tests of the kernels: tables, special values, aliasing.

use super::MicroOp as O;
use super::tables as t;
use super::{Level, MAX_ORDER, MicroOp, Real, micro};

pub(super) fn levels() -> Vec<Level> {
    let best = Level::detect();
    [Level::Baseline, Level::Avx2, Level::Avx512]
        .into_iter()
        .filter(|l| *l <= best)
        .collect()
}

/// Runs a kernel on operands of any length, padded to whole blocks.
fn run<T: Real>(level: Level, op: MicroOp, a: &[f64], b: &[f64], c: &[f64]) -> Vec<f64> {
    let n = a.len().next_multiple_of(T::LANES);
    let pad = |v: &[f64]| -> Vec<T> {
        let last = v.last().copied().unwrap_or(0.0);
        (0..n).map(|i| T::lit(*v.get(i).unwrap_or(&last))).collect()
    };
    let (pa, pb, pc) = (pad(a), pad(b), pad(c));
    let mut out = vec![T::lit(7.0); n];
    // SAFETY: all four have n elements and the level is one the processor has.
    unsafe { micro::<T>(level, op)(out.as_mut_ptr(), pa.as_ptr(), pb.as_ptr(), pc.as_ptr(), n) };
    out[..a.len()].iter().map(|x| x.to_f64()).collect()
}

/// How results are compared: the unit an error is counted in, given the right value.
type Unit = fn(f64) -> f64;

fn ulp64(v: f64) -> f64 {
    let v = v.abs().max(f64::MIN_POSITIVE);
    f64::from_bits(v.to_bits() + 1) - v
}

fn ulp32(v: f64) -> f64 {
    let v = (v.abs() as f32).clamp(f32::MIN_POSITIVE, f32::MAX / 2.0);
    f64::from(f32::from_bits(v.to_bits() + 1) - v)
}

fn mixed(v: f64) -> f64 {
    v.abs().max(1.0)
}

fn relative(v: f64) -> f64 {
    v.abs()
}

/// Largest error over a table at all levels, in units.
fn worst<T: Real>(op: MicroOp, table: &[(f64, f64, f64)], unit: Unit) -> f64 {
    let a: Vec<f64> = table.iter().map(|r| r.0).collect();
    let b: Vec<f64> = table.iter().map(|r| r.1).collect();
    let mut worst = 0.0f64;
    for level in levels() {
        // One chunk, then row by row: the forms for easy chunks are met too.
        let mut got = run::<T>(level, op, &a, &b, &[]);
        got.extend((0..a.len()).map(|i| run::<T>(level, op, &a[i..=i], &b[i..=i], &[])[0]));
        for (i, g) in got.iter().enumerate() {
            let (x, y, want) = table[i % table.len()];
            let want_t = T::lit(want).to_f64();
            if want_t.is_infinite() {
                assert_eq!(*g, want_t, "{op:?} at {x:e}, {y:e}");
                continue;
            }
            let err = if *g == want {
                0.0
            } else {
                (g - want).abs() / unit(want)
            };
            assert!(!err.is_nan(), "{op:?} at {x:e}, {y:e}: {g:e}, not {want:e}");
            if std::env::var_os("MICRO_SHOW").is_some() && err > worst {
                println!("  {level:?} {op:?} {x:e} {y:e}: {g:e} not {want:e}: {err:.3e}");
            }
            worst = worst.max(err);
        }
    }
    worst
}

fn one(table: &[(f64, f64)]) -> Vec<(f64, f64, f64)> {
    table.iter().map(|&(x, v)| (x, 0.0, v)).collect()
}

#[test]
fn elementary_tables() {
    type Row = (MicroOp, &'static [(f64, f64)], f64, f64);
    let rows: [Row; 10] = [
        (O::Exp, t::EXP, 1.0, 1.0),
        (O::Expm1, t::EXPM1, 2.0, 2.0),
        (O::Ln, t::LN, 1.0, 1.0),
        (O::Log1p, t::LOG1P, 2.0, 2.0),
        (O::Softplus, t::SOFTPLUS, 2.0, 2.0),
        (O::Sigmoid, t::SIGMOID, 2.0, 2.0),
        (O::Tanh, t::TANH, 3.0, 3.0),
        (O::Sin, t::SIN, 1.0, 2.0),
        (O::Cos, t::COS, 1.0, 2.0),
        (O::Erf, t::ERF, 2.0, 2.0),
    ];
    let mut bad = Vec::new();
    for (op, table, lim64, lim32) in rows {
        let (e64, e32) = (
            worst::<f64>(op, &one(table), ulp64),
            worst::<f32>(op, &one(table), ulp32),
        );
        println!("{op:?}: {e64:.2} ulp, f32 {e32:.2} ulp");
        if e64 > lim64 || e32 > lim32 {
            bad.push((op, e64, e32));
        }
    }
    assert!(bad.is_empty(), "{bad:?}");
}

#[test]
fn gamma_tables() {
    type Row = (MicroOp, Vec<(f64, f64, f64)>, Unit, f64);
    let rows: [Row; 12] = [
        (O::Lgamma, one(t::LGAMMA), mixed, 1e-14),
        (O::Polygamma(0), one(t::DIGAMMA), mixed, 1e-14),
        (O::Polygamma(1), one(t::TRIGAMMA), mixed, 1e-14),
        (O::Polygamma(2), one(t::POLYGAMMA2), relative, 1e-12),
        (O::Polygamma(3), one(t::POLYGAMMA3), relative, 1e-12),
        (O::Polygamma(7), one(t::POLYGAMMA7), relative, 1e-12),
        (O::Polygamma(24), one(t::POLYGAMMA24), relative, 1e-12),
        (O::PolygammaDiff(0), t::DIFF0.to_vec(), relative, 1e-14),
        (O::PolygammaDiff(1), t::DIFF1.to_vec(), relative, 1e-14),
        (O::PolygammaDiff(2), t::DIFF2.to_vec(), relative, 1e-14),
        (O::PolygammaDiff(3), t::DIFF3.to_vec(), relative, 1e-12),
        (O::PolygammaDiff(5), t::DIFF5.to_vec(), relative, 1e-12),
    ];
    let mut bad = Vec::new();
    for (op, table, unit, limit) in rows {
        let e64 = worst::<f64>(op, &table, unit);
        // Arguments that are exact in f32, that is.
        let exact = |x: f64| f64::from(x as f32) == x;
        let sub: Vec<_> = table
            .iter()
            .copied()
            .filter(|r| exact(r.0) && exact(r.1))
            .collect();
        let e32 = worst::<f32>(op, &sub, |v| f64::max(1.0, v.abs()));
        println!("{op:?}: {e64:.2e}, f32 {e32:.2e}");
        if e64 > limit || e32 > 5e-7 {
            bad.push((op, e64, e32));
        }
    }
    assert!(bad.is_empty(), "{bad:?}");
}

const INF: f64 = f64::INFINITY;
const NAN: f64 = f64::NAN;

/// Equal including the sign of zero, any NaN equal to any.
fn same(x: f64, y: f64) -> bool {
    (x.is_nan() && y.is_nan()) || (x == y && x.is_sign_negative() == y.is_sign_negative())
}

#[test]
fn special_values() {
    let cases: &[(MicroOp, &[f64], &[f64])] = &[
        (
            O::Exp,
            &[0.0, -0.0, INF, -INF, NAN, 1000.0, -1000.0],
            &[1.0, 1.0, INF, 0.0, NAN, INF, 0.0],
        ),
        (
            O::Expm1,
            &[0.0, -0.0, INF, -INF, NAN, 1000.0],
            &[0.0, -0.0, INF, -1.0, NAN, INF],
        ),
        (
            O::Ln,
            &[0.0, -0.0, 1.0, INF, -INF, NAN, -1.0],
            &[-INF, -INF, 0.0, INF, NAN, NAN, NAN],
        ),
        (
            O::Log1p,
            &[0.0, -0.0, -1.0, -2.0, INF, -INF, NAN],
            &[0.0, -0.0, -INF, NAN, INF, NAN, NAN],
        ),
        (
            O::Softplus,
            &[INF, -INF, NAN, 1e30, -1e30],
            &[INF, 0.0, NAN, f64::NAN, 0.0],
        ),
        (
            O::Sigmoid,
            &[0.0, INF, -INF, NAN, 1e30, -1e30],
            &[0.5, 1.0, 0.0, NAN, 1.0, 0.0],
        ),
        (
            O::Tanh,
            &[0.0, -0.0, INF, -INF, NAN, 1e30],
            &[0.0, -0.0, 1.0, -1.0, NAN, 1.0],
        ),
        (
            O::Sin,
            &[0.0, -0.0, INF, -INF, NAN],
            &[0.0, -0.0, NAN, NAN, NAN],
        ),
        (
            O::Cos,
            &[0.0, -0.0, INF, -INF, NAN],
            &[1.0, 1.0, NAN, NAN, NAN],
        ),
        (
            O::Erf,
            &[0.0, -0.0, INF, -INF, NAN, 30.0],
            &[0.0, -0.0, 1.0, -1.0, NAN, 1.0],
        ),
        (
            O::Sign,
            &[0.0, -0.0, INF, -3.0, NAN, 1e-30],
            &[0.0, -0.0, 1.0, -1.0, NAN, 1.0],
        ),
        (
            O::Floor,
            &[
                0.0, -0.0, -0.5, 2.5, -2.5, 3.0, -3.0, INF, -INF, NAN, 1e30, 0.999,
            ],
            &[
                0.0,
                -0.0,
                -1.0,
                2.0,
                -3.0,
                3.0,
                -3.0,
                INF,
                -INF,
                NAN,
                f64::NAN,
                0.0,
            ],
        ),
        (
            O::Lgamma,
            &[0.0, -0.0, -1.0, -7.0, INF, -INF, NAN],
            &[INF, INF, INF, INF, INF, INF, NAN],
        ),
        (
            O::Polygamma(0),
            &[0.0, -0.0, -1.0, INF, -INF, NAN],
            &[-INF, INF, NAN, INF, NAN, NAN],
        ),
        (
            O::Polygamma(1),
            &[0.0, -0.0, -1.0, INF, -INF, NAN],
            &[INF, INF, INF, 0.0, NAN, NAN],
        ),
        (
            O::Polygamma(2),
            &[0.0, -1.0, INF, -INF, NAN],
            &[-INF, NAN, -0.0, NAN, NAN],
        ),
        (
            O::Polygamma(3),
            &[0.0, -1.0, INF, -INF, NAN],
            &[INF, INF, 0.0, NAN, NAN],
        ),
    ];
    for level in levels() {
        for &(op, x, want) in cases {
            let (r64, r32) = (
                run::<f64>(level, op, x, &[], &[]),
                run::<f32>(level, op, x, &[], &[]),
            );
            for i in 0..x.len() {
                // 1e30 maps to itself, but not to the same number in both types.
                let large = x[i] == 1e30 && want[i].is_nan();
                let (w64, w32) = if large {
                    (1e30, f64::from(1e30f32))
                } else {
                    (want[i], want[i])
                };
                assert!(same(r64[i], w64), "{level:?} {op:?}({}) = {}", x[i], r64[i]);
                assert!(
                    same(r32[i], w32),
                    "{level:?} f32 {op:?}({}) = {}",
                    x[i],
                    r32[i]
                );
            }
        }
    }
}

#[test]
fn f64_ranges() {
    let lo = 5e-324;
    let cases: &[(MicroOp, f64, f64, f64)] = &[
        (O::Exp, -745.0, 0.0, lo),
        (O::Exp, -720.0, 0.0, f64::exp(-720.0)),
        (O::Exp, 709.7, 0.0, 1.6549840276802644e308),
        (O::Expm1, 709.7, 0.0, 1.6549840276802644e308),
        (O::Ln, lo, 0.0, -744.4400719213812),
        (O::Ln, f64::MAX, 0.0, 709.782712893384),
        (O::Log1p, f64::MAX, 0.0, 709.782712893384),
        (O::Softplus, -740.0, 0.0, f64::exp(-740.0)),
        (O::Sigmoid, -740.0, 0.0, f64::exp(-740.0)),
        (O::Lgamma, 1e-300, 0.0, 690.7755278982137),
        (O::Lgamma, lo, 0.0, 744.4400719213812),
        (O::Lgamma, 1e300, 0.0, 6.897755278982137e302),
        (O::Lgamma, f64::MAX, 0.0, INF),
        (O::Polygamma(0), 1e-300, 0.0, -1e300),
        (O::Polygamma(0), f64::MAX, 0.0, 709.782712893384),
        (O::Polygamma(1), 1e-300, 0.0, INF),
        (O::Polygamma(1), 1e-150, 0.0, 1e300),
        (O::Polygamma(1), 1e300, 0.0, 1e-300),
        (O::PolygammaDiff(0), 1e300, 3.0, 3.0 * 690.7755278982137),
        (O::PolygammaDiff(0), f64::MAX, 3.0, 3.0 * 709.782712893384),
        (O::PolygammaDiff(0), 1e300, 1e-20, 690.7755278982137e-20),
        (O::PolygammaDiff(0), 1e-300, 1.0, -690.7755278982137),
        (O::PolygammaDiff(0), 1e-300, 1e-300, -std::f64::consts::LN_2),
        (O::PolygammaDiff(0), 1e-250, 1e-250, -std::f64::consts::LN_2),
        (O::PolygammaDiff(0), 0.5, 1e300, 6.897755278982137e302),
        (O::PolygammaDiff(1), 1e300, 1e300, std::f64::consts::LN_2),
        (O::PolygammaDiff(1), 1e-300, 1e-300, 5e299),
        (O::PolygammaDiff(1), 1e-200, 1e-200, 5e199),
        (O::PolygammaDiff(1), 1e-200, 1e10, 1e200),
        (O::PolygammaDiff(2), 1e-100, 1e-100, -0.75e200),
        (O::PolygammaDiff(2), 1e-100, 1e10, -1e200),
        (O::PolygammaDiff(2), 1e150, 1e150, -5e-151),
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
fn diff_edges() {
    for level in levels() {
        for k in 0..=4 {
            let a = [1e-300, 0.3, 1.0, 7.5, 8.0, 40.0, 1e26, 1e300];
            let r = run::<f64>(level, O::PolygammaDiff(k), &a, &[0.0; 8], &[]);
            assert!(r.iter().all(|x| *x == 0.0), "{level:?} {k}: {r:?}");
        }
        // Outside a > 0, a + n > 0: the plain difference.
        let r = run::<f64>(
            level,
            O::PolygammaDiff(0),
            &[2.5, -1.5, NAN, 1.0, INF],
            &[-3.0, 1.0, 1.0, NAN, 2.0],
            &[],
        );
        assert!(
            (r[0] - (1.2655121234846454 - 0.2846828704729192)).abs() < 1e-14,
            "{r:?}"
        );
        assert!(
            (r[1] - (1.2655121234846454 - 0.860_047_015_376_481)).abs() < 1e-14,
            "{r:?}"
        );
        assert!(r[2].is_nan() && r[3].is_nan() && r[4] == INF, "{r:?}");
    }
}

#[test]
fn basics() {
    let a = [1.5, -2.0, 0.0, 4.0, NAN, 3.0, INF, -0.0];
    let b = [0.5, -2.0, 1.0, -4.0, 1.0, NAN, 2.0, 5.0];
    let c = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0];
    let sel = |x: bool| if x { 1.0 } else { 0.0 };
    type Scalar = Box<dyn Fn(f64, f64, f64) -> f64>;
    let ops: Vec<(MicroOp, Scalar)> = vec![
        (O::Copy, Box::new(|a, _, _| a)),
        (O::Neg, Box::new(|a, _, _| -a)),
        (O::Recip, Box::new(|a, _, _| 1.0 / a)),
        (O::Square, Box::new(|a, _, _| a * a)),
        (O::Sqrt, Box::new(|a, _, _| a.sqrt())),
        (O::Abs, Box::new(|a, _, _| a.abs())),
        (O::Add, Box::new(|a, b, _| a + b)),
        (O::Sub, Box::new(|a, b, _| a - b)),
        (O::Mul, Box::new(|a, b, _| a * b)),
        (O::Div, Box::new(|a, b, _| a / b)),
        (
            O::Min,
            Box::new(|a, b, _| {
                if a.is_nan() || b.is_nan() {
                    NAN
                } else {
                    a.min(b)
                }
            }),
        ),
        (
            O::Max,
            Box::new(|a, b, _| {
                if a.is_nan() || b.is_nan() {
                    NAN
                } else {
                    a.max(b)
                }
            }),
        ),
        (O::Pow, Box::new(|a, b, _| a.powf(b))),
        (O::Lt, Box::new(move |a, b, _| sel(a < b))),
        (O::Le, Box::new(move |a, b, _| sel(a <= b))),
        (O::Eq, Box::new(move |a, b, _| sel(a == b))),
        (O::MulAdd, Box::new(|a, b, c| a * b + c)),
        (O::Select, Box::new(|a, b, c| if a != 0.0 { b } else { c })),
    ];
    for level in levels() {
        for (op, f) in &ops {
            let (r64, r32) = (
                run::<f64>(level, *op, &a, &b, &c),
                run::<f32>(level, *op, &a, &b, &c),
            );
            for i in 0..8 {
                let want = f(a[i], b[i], c[i]);
                assert!(
                    same(r64[i], want),
                    "{level:?} {op:?} {i}: {} not {want}",
                    r64[i]
                );
                let near = same(r32[i], want) || (r32[i] - want).abs() <= 1.2e-7 * want.abs();
                assert!(near, "{level:?} f32 {op:?} {i}: {} not {want}", r32[i]);
            }
        }
    }
}

/// The result written over an operand is the one written elsewhere, at any length.
fn in_place<T: Real>() {
    let ops = [
        O::Exp,
        O::Softplus,
        O::Lgamma,
        O::Polygamma(2),
        O::Sin,
        O::Add,
        O::Pow,
        O::MulAdd,
        O::Select,
        O::PolygammaDiff(0),
        O::PolygammaDiff(1),
    ];
    for level in levels() {
        for op in ops {
            for n in [T::LANES, 3 * T::LANES, 128 + T::LANES] {
                let v = |s: usize| -> Vec<T> {
                    (0..n)
                        .map(|i| T::lit(((i * s) % 97) as f64 * 0.25 - 1.0))
                        .collect()
                };
                let x = [v(31), v(17), v(5)];
                let f = micro::<T>(level, op);
                let mut want = v(1);
                // SAFETY: n elements each, a multiple of LANES, at a level the processor has.
                unsafe {
                    f(
                        want.as_mut_ptr(),
                        x[0].as_ptr(),
                        x[1].as_ptr(),
                        x[2].as_ptr(),
                        n,
                    )
                };
                for k in 0..3 {
                    let mut y = x.clone();
                    let mut p = y.each_mut().map(|v| v.as_mut_ptr());
                    if k > 0
                        && matches!(
                            op,
                            O::Exp | O::Softplus | O::Lgamma | O::Polygamma(2) | O::Sin
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
                    assert_eq!(
                        bits(got),
                        bits(&want),
                        "{level:?} {op:?} over operand {k}, n {n}"
                    );
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
        let p = run::<f64>(Level::Baseline, O::Polygamma(k), &[2.5], &[], &[])[0];
        let d = run::<f64>(
            Level::Baseline,
            O::PolygammaDiff(k + u32::from(k < MAX_ORDER)),
            &[2.5],
            &[0.5],
            &[],
        )[0];
        assert!(p.is_finite() && d.is_finite());
    }
}
