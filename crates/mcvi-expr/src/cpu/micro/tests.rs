//! Tests of the kernels against the tables.

use super::tables as t;
use super::tables_gamma as tg;
use super::{Level, Real, Short, Term, as_muladd, lists, micro};
use crate::table::{Binary as B, Function, Function as O, Pair, Unary as U};

pub(super) fn levels() -> Vec<Level> {
    let best = Level::detect();
    [Level::Baseline, Level::Avx2, Level::Avx512].into_iter().filter(|l| *l <= best).collect()
}

/// Runs a kernel on operands of any length, padded to whole blocks.
pub(super) fn run<T: Real>(level: Level, op: Function, a: &[f64], b: &[f64], c: &[f64]) -> Vec<f64> {
    let [first, _] = run_both::<T>(level, op, a, b, c);
    first
}

/// As `run`, with what c holds then: the second result, if there is one.
pub(super) fn run_both<T: Real>(level: Level, op: Function, a: &[f64], b: &[f64], c: &[f64]) -> [Vec<f64>; 2] {
    let n = a.len().next_multiple_of(T::LANES);
    let pad = |v: &[f64]| -> Vec<T> {
        let last = v.last().copied().unwrap_or(0.0);
        (0..n).map(|i| T::lit(*v.get(i).unwrap_or(&last))).collect()
    };
    let (pa, pb, mut pc) = (pad(a), pad(b), pad(c));
    let mut out = vec![T::lit(7.0); n];
    // SAFETY: all four have n elements and the level is one the processor has.
    unsafe { micro::<T>(level, op)(out.as_mut_ptr(), pa.as_ptr(), pb.as_ptr(), pc.as_mut_ptr(), n) };
    [out, pc].map(|v| v[..a.len()].iter().map(|x| x.to_f64()).collect())
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
fn worst<T: Real>(op: Function, table: &[(f64, f64, f64)], unit: Unit) -> f64 {
    worst_of::<T>(op, 0, table, unit)
}

/// As `worst`, of the first result (0) or the second (1).
fn worst_of<T: Real>(op: Function, nth: usize, table: &[(f64, f64, f64)], unit: Unit) -> f64 {
    let a: Vec<f64> = table.iter().map(|r| r.0).collect();
    let b: Vec<f64> = table.iter().map(|r| r.1).collect();
    let mut worst = 0.0f64;
    for level in levels() {
        // One chunk, then row by row: the forms for easy chunks are met too.
        let mut got = run_both::<T>(level, op, &a, &b, &[])[nth].clone();
        got.extend((0..a.len()).map(|i| run_both::<T>(level, op, &a[i..=i], &b[i..=i], &[])[nth][0]));
        for i in 0..a.len() {
            let (x, y) = (got[i].to_bits(), got[i + a.len()].to_bits());
            assert_eq!(x, y, "{level:?} {op:?}: a result depends on the other lanes");
        }
        for (i, g) in got.iter().enumerate() {
            let (x, y, want) = table[i % table.len()];
            let want_t = T::lit(want).to_f64();
            if want_t.is_infinite() {
                assert_eq!(*g, want_t, "{op:?} at {x:e}, {y:e}");
                continue;
            }
            let err = if *g == want { 0.0 } else { (g - want).abs() / unit(want) };
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
    type Row = (Function, &'static [(f64, f64)], f64, f64);
    let rows: [Row; 13] = [
        (O::Unary(U::Exp), t::EXP, 1.0, 1.0),
        (O::Unary(U::Expm1), t::EXPM1, 2.0, 2.0),
        (O::Unary(U::Ln), t::LN, 1.0, 1.0),
        (O::Unary(U::Log1p), t::LOG1P, 2.0, 2.0),
        (O::Unary(U::Softplus), t::SOFTPLUS, 2.0, 2.0),
        (O::Unary(U::Sigmoid), t::SIGMOID, 2.0, 2.0),
        (O::Unary(U::Tanh), t::TANH, 3.0, 3.0),
        (O::Unary(U::Sin), t::SIN, 1.0, 2.0),
        (O::Unary(U::Cos), t::COS, 1.0, 2.0),
        (O::Unary(U::Erf), t::ERF, 2.0, 2.0),
        (O::Unary(U::Erfc), t::ERFC, 3.0, 4.0),
        (O::Unary(U::Erfcx), t::ERFCX, 3.0, 4.0),
        (O::Unary(U::LogErfc), t::LOG_ERFC, 3.0, 3.0),
    ];
    let mut bad = Vec::new();
    for (op, table, lim64, lim32) in rows {
        let (e64, e32) = (worst::<f64>(op, &one(table), ulp64), worst::<f32>(op, &one(table), ulp32));
        println!("{op:?}: {e64:.2} ulp, f32 {e32:.2} ulp");
        if e64 > lim64 || e32 > lim32 {
            bad.push((op, e64, e32));
        }
    }
    let (e64, e32) = (worst::<f64>(O::Binary(B::Pow), t::POW, ulp64), worst::<f32>(O::Binary(B::Pow), t::POW, ulp32));
    println!("Pow: {e64:.2} ulp, f32 {e32:.2} ulp");
    assert!(e64 <= 1.0 && e32 <= 1.0 && bad.is_empty(), "{e64} {e32} {bad:?}");
}

#[test]
fn gamma_tables() {
    type Row = (Function, Vec<(f64, f64, f64)>, Unit, f64);
    let rows: [Row; 16] = [
        (O::Unary(U::Lgamma), one(tg::LGAMMA), mixed, 1e-14),
        (O::Unary(U::Polygamma(0)), one(tg::DIGAMMA), mixed, 1e-14),
        (O::Unary(U::Polygamma(1)), one(tg::TRIGAMMA), mixed, 1e-14),
        (O::Unary(U::Polygamma(2)), one(tg::POLYGAMMA2), relative, 1e-12),
        (O::Unary(U::Polygamma(3)), one(tg::POLYGAMMA3), relative, 1e-12),
        (O::Unary(U::Polygamma(7)), one(tg::POLYGAMMA7), relative, 1e-12),
        (O::Unary(U::Polygamma(24)), one(tg::POLYGAMMA24), relative, 1e-12),
        (O::Binary(B::PolygammaDiff(0)), tg::DIFF0.to_vec(), relative, 1e-14),
        (O::Binary(B::PolygammaDiff(1)), tg::DIFF1.to_vec(), relative, 1e-14),
        (O::Binary(B::PolygammaDiff(2)), tg::DIFF2.to_vec(), relative, 1e-14),
        (O::Pair(Pair::Diff(0)), tg::DIFF0.to_vec(), relative, 1e-14),
        (O::Pair(Pair::Diff(0)), tg::DIFF1.to_vec(), relative, 1e-14),
        (O::Pair(Pair::Diff(1)), tg::DIFF1.to_vec(), relative, 1e-14),
        (O::Pair(Pair::Diff(1)), tg::DIFF2.to_vec(), relative, 1e-14),
        (O::Binary(B::PolygammaDiff(3)), tg::DIFF3.to_vec(), relative, 1e-12),
        (O::Binary(B::PolygammaDiff(5)), tg::DIFF5.to_vec(), relative, 1e-12),
    ];
    let mut bad = Vec::new();
    for (i, (op, table, unit, limit)) in rows.into_iter().enumerate() {
        // Of a pair the results take turns.
        let nth = if matches!(op, O::Pair(_)) { i % 2 } else { 0 };
        let e64 = worst_of::<f64>(op, nth, &table, unit);
        // Arguments that are exact in f32, that is.
        let exact = |x: f64| f64::from(x as f32) == x;
        let sub: Vec<_> = table.iter().copied().filter(|r| exact(r.0) && exact(r.1)).collect();
        let e32 = worst_of::<f32>(op, nth, &sub, |v| f64::max(1.0, v.abs()));
        println!("{op:?} result {nth}: {e64:.2e}, f32 {e32:.2e}");
        if e64 > limit || e32 > 5e-7 {
            bad.push((op, e64, e32));
        }
    }
    assert!(bad.is_empty(), "{bad:?}");
}

/// Operations as a·b + c, in lists of blocks and of elements, against their kernels: all bits.
fn listed<T: Real>() {
    let odd = [0.0, -0.0, 1.0, -1.5, 1e-310, f64::MAX, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 3e-39, 0.1];
    let n = odd.len().pow(2).next_multiple_of(T::LANES);
    let numbers = |f: &dyn Fn(usize) -> f64| -> Vec<T> { (0..n).map(|i| T::lit(f(i))).collect() };
    let a = numbers(&|i| odd[i % odd.len()]);
    let b = numbers(&|i| odd[i / odd.len() % odd.len()]);
    let c = numbers(&|i| odd[(i * 7 + 3) % odd.len()]);
    for level in levels() {
        let lists = lists::<T>(level);
        for op in
            [O::Binary(B::Add), O::Binary(B::Sub), O::Binary(B::Mul), O::Unary(U::Square), O::Unary(U::Neg), O::MUL_ADD]
        {
            let mut want = vec![T::lit(7.0); n];
            // SAFETY: all have n elements and the level is one the processor has.
            unsafe { micro::<T>(level, op)(want.as_mut_ptr(), a.as_ptr(), b.as_ptr(), c.as_ptr(), n) };
            // The terms, then the results of either list.
            let terms = as_muladd(op).expect("a cheap operation").map(|term| match term {
                Term::Arg(k) => [&a, &b, &c][k].clone(),
                Term::Number(x) => vec![T::lit(x); n],
            });
            let mut memory = [terms.concat(), vec![T::lit(7.0); 2 * n]].concat();
            let at = |array: usize, i: usize| u32::try_from((array * n + i) * size_of::<T>()).expect("a small offset");
            let list = |to: usize, step: usize| -> Vec<Short> {
                (0..n).step_by(step).map(|i| Short { to: at(to, i), args: [0, 1, 2].map(|k| at(k, i)) }).collect()
            };
            let base = memory.as_mut_ptr().cast();
            // SAFETY: all offsets are of whole blocks, or of elements, within the memory.
            unsafe {
                (lists.blocks)(base, &list(3, T::LANES));
                (lists.elements)(base, &list(4, 1));
            }
            let same = |x: T, y: T| {
                let (x, y) = (x.to_f64(), y.to_f64());
                x.to_bits() == y.to_bits() || (x.is_nan() && y.is_nan())
            };
            for (i, x) in want.iter().enumerate() {
                let [block, element] = [3, 4].map(|array| memory[array * n + i]);
                assert!(same(block, *x) && same(element, *x), "{level:?} {op:?} of {:?}, {:?}, {:?}", a[i], b[i], c[i]);
            }
        }
        let mut memory = vec![T::lit(0.1); 2 * T::LANES];
        let short = Short { to: u32::try_from(T::LANES * size_of::<T>()).expect("a block"), args: [0; 3] };
        memory[T::LANES..].fill(T::lit(7.0));
        // SAFETY: a block is written, the second.
        unsafe { (lists.splats)(memory.as_mut_ptr().cast(), &[short]) };
        assert!(memory.iter().all(|x| *x == T::lit(0.1)), "{level:?}: {memory:?}");
    }
}

#[test]
fn operations_of_lists_equal_their_kernels() {
    listed::<f64>();
    listed::<f32>();
}
