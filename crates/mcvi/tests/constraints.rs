//! The transforms against 200-digit ones (tests/data/constraints.py): values, Jacobians, round trips, mistakes.

#[path = "../../mcvi-expr/tests/common/mod.rs"]
mod common;

use common::{array, assert_close, check_derivatives, evaluate};
use mcvi::model::{Constraint, Model, half_normal, normal};
use mcvi_expr::{DType, Expr, Graph};
use serde_json::Value;

const INF: f64 = f64::INFINITY;

struct Case {
    name: String,
    constraint: Constraint<'static>,
    u: Vec<f64>,
    k: usize,
    value: Vec<f64>,
    log_jacobian: f64,
}

fn cases() -> Vec<Case> {
    let all: Vec<Value> = serde_json::from_str(include_str!("data/constraints.json")).unwrap();
    let numbers = |v: &Value| v.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect::<Vec<f64>>();
    let case = |case: &Value| {
        let name = case["constraint"].as_str().unwrap();
        let constraint = match name {
            "real" => Constraint::Real,
            "positive" => Constraint::Positive,
            "lower" => Constraint::lower(-1.5),
            "upper" => Constraint::upper(2.25),
            "interval" => Constraint::interval(-1.0, 3.0),
            "unit" => Constraint::interval(0.0, 1.0),
            "ordered" => Constraint::Ordered,
            "positive_ordered" => Constraint::PositiveOrdered,
            "simplex" => Constraint::Simplex,
            _ => Constraint::CorrelationCholesky,
        };
        let (u, value) = (numbers(&case["u"]), numbers(&case["value"]));
        let k = if name == "correlation" { value.len().isqrt() } else { value.len() };
        let name = format!("{name} of {u:?}");
        Case { name, constraint, u, k, value, log_jacobian: case["log_jacobian"].as_f64().unwrap() }
    };
    all.iter().map(case).collect()
}

/// The value and the log Jacobian of two rows, the second of them the one given.
fn constrain(constraint: Constraint<'static>, u: &[f64], k: usize) -> (Vec<f64>, f64) {
    let rows = array([2, u.len()], [vec![0.1; u.len()], u.to_vec()].concat());
    let out = evaluate(&[rows], |x| {
        let (value, log_jacobian) = constraint.constrain(x[0], k);
        vec![value, log_jacobian]
    });
    let (value, log_jacobian) = (out[0].to_f64(), out[1].to_f64());
    assert_eq!(log_jacobian.len(), 2);
    (value[value.len() / 2..].to_vec(), log_jacobian[1])
}

#[test]
fn values_and_jacobians_are_those_of_200_digits() {
    for case in cases() {
        assert_eq!(case.constraint.free(case.k), case.u.len(), "{}", case.name);
        let (value, log_jacobian) = constrain(case.constraint, &case.u, case.k);
        for (ours, theirs) in value.iter().zip(&case.value) {
            assert!((ours - theirs).abs() <= 1e-12 * theirs.abs().max(1e-300), "{}: {ours} not {theirs}", case.name);
        }
        assert_eq!(value.len(), case.value.len());
        let error = (log_jacobian - case.log_jacobian).abs();
        assert!(error <= 1e-12 * case.log_jacobian.abs().max(1.0), "{}: log Jacobian {log_jacobian}", case.name);
    }
}

#[test]
fn unconstrain_undoes_constrain() {
    for case in cases() {
        // Beside a bound, a value has room for fewer digits: those of the free number that are left.
        let lost = match case.constraint {
            Constraint::Lower(_) | Constraint::Upper(_) | Constraint::Interval(..) | Constraint::Ordered => {
                case.u.iter().fold(0.0, |a: f64, u| a.max(u.abs())).exp() * 1e-15
            }
            // Beside a larger number, too.
            Constraint::PositiveOrdered => {
                let spread = |a: f64, u: &f64| a.max(case.u.iter().fold(0.0, |b: f64, v| b.max(u - v)));
                case.u.iter().fold(0.0, spread).exp() * 1e-15
            }
            _ => 0.0,
        };
        let (value, _) = constrain(case.constraint, &case.u, case.k);
        match case.constraint.unconstrain(&value) {
            Some(u) => assert_close(&u, &case.u, 1e-12 + lost),
            // Rounded onto the bound itself.
            None => assert!(lost > 1.0, "{} is outside", case.name),
        }
    }
}

#[test]
fn derivatives_are_finite_differences() {
    for case in cases().into_iter().filter(|c| c.u.iter().all(|u| u.abs() < 5.0)) {
        let u = array([1, case.u.len()], case.u.clone());
        let value = check_derivatives(std::slice::from_ref(&u), |x| case.constraint.constrain(x[0], case.k).0);
        value.unwrap_or_else(|e| panic!("{}: {e}", case.name));
        let log_jacobian = check_derivatives(&[u], |x| case.constraint.constrain(x[0], case.k).1);
        log_jacobian.unwrap_or_else(|e| panic!("{}, log Jacobian: {e}", case.name));
    }
}

#[test]
fn derivatives_are_finite_far_out() {
    for case in cases() {
        let graph = Graph::new();
        let u = graph.input("u", DType::F64, [1, case.u.len()]);
        let (value, log_jacobian) = case.constraint.constrain(u, case.k);
        let slope = mcvi_expr::grad(value.sum_all() + log_jacobian.sum_all(), &[u]).unwrap()[0];
        let curve = mcvi_expr::grad(slope.sum_all(), &[u]).unwrap()[0];
        let mut program = graph.program().output("slope", slope).output("curve", curve).compile().unwrap();
        if program.input_names().contains(&"u") {
            program.write("u", &array([1, case.u.len()], case.u.clone())).unwrap();
        }
        program.run(1).unwrap();
        for name in ["slope", "curve"] {
            let finite = program.output(name).unwrap().to_f64().iter().all(|d| d.is_finite());
            assert!(finite, "{}: {name} {:?}", case.name, program.output(name).unwrap().to_f64());
        }
    }
}

#[test]
fn numbers_near_zero_come_back_with_their_jacobian() {
    for (knee, unit) in [(0.05, 0.1), (1.0, 1.0), (0.2, 4.0)] {
        let constraint = Constraint::NearZero { knee, unit };
        for u in [-7.5, -2.0, -0.3, 0.0, 0.8, 3.0, 9.0] {
            let (value, log_jacobian) = constrain(constraint, &[u], 1);
            let back = constraint.unconstrain(&value).expect("a positive number");
            assert!((back[0] - u).abs() < 1e-9, "{u}: {back:?}");
            let h = 1e-5;
            let slope = (constrain(constraint, &[u + h], 1).0[0] - constrain(constraint, &[u - h], 1).0[0]) / (2.0 * h);
            assert!((slope.ln() - log_jacobian).abs() < 1e-6, "{u}: {} and {log_jacobian}", slope.ln());
            let at = array([1, 1], vec![u]);
            check_derivatives(&[at], |x| constraint.constrain(x[0], 1).1).unwrap_or_else(|e| panic!("{u}: {e}"));
        }
        assert!(constraint.unconstrain(&[0.0]).is_none() && constraint.unconstrain(&[-1.0]).is_none());
    }
}

#[test]
fn numbers_in_other_units_come_back_with_their_jacobian() {
    let constraint = Constraint::Affine { offset: 3.0.into(), multiplier: 0.25.into() };
    let (value, log_jacobian) = constrain(constraint, &[-1.0, 2.0], 2);
    assert_eq!(value, [2.75, 3.5]);
    assert!((log_jacobian - 2.0 * 0.25_f64.ln()).abs() < 1e-14, "{log_jacobian}");
    assert_eq!(constraint.unconstrain(&value).expect("free numbers"), [-1.0, 2.0]);
}

#[test]
fn skewed_numbers_come_back_with_their_jacobian() {
    for by in [-0.6, 0.0, 0.25] {
        let constraint = Constraint::Skewed(by.into());
        for u in [-30.0, -1.0, 0.0, 0.4, 8.0] {
            let (value, log_jacobian) = constrain(constraint, &[u], 1);
            assert!((constraint.unconstrain(&value).expect("a free number")[0] - u).abs() < 1e-9, "{by}, {u}");
            let h = 1e-5;
            let slope = (constrain(constraint, &[u + h], 1).0[0] - constrain(constraint, &[u - h], 1).0[0]) / (2.0 * h);
            assert!((slope.ln() - log_jacobian).abs() < 1e-6, "{by}, {u}: {} and {log_jacobian}", slope.ln());
        }
    }
}

#[test]
fn units_may_be_expressions_of_other_parameters() {
    let model = Model::new(|m| {
        let s = m.positive("s", half_normal(1.0));
        let units = Constraint::Affine { offset: m.data(&[1.0, -1.0]).into(), multiplier: s.into() };
        m.parameter("x", units, 2, normal(0.0, 2.0));
        m.parameter("y", Constraint::Skewed((s * 0.1).into()), 1, normal(0.0, 1.0));
    })
    .expect("a model");
    let z = vec![vec![0.3, 0.5, -0.2, 1.5], vec![-1.0, 2.0, 0.0, -3.0]];
    let q = model.constrained(&z).expect("parameters").parameters;
    let s = 0.3_f64.exp();
    let x = &q[1].values;
    assert!((x[0] - (1.0 + 0.5 * s)).abs() < 1e-14 && (x[1] - (-1.0 - 0.2 * s)).abs() < 1e-14, "{x:?}");
    let back = model.unconstrained(&q).expect("free coordinates");
    assert!(back.concat().iter().zip(z.concat()).all(|(a, b)| (a - b).abs() < 1e-12), "{back:?}");
}

#[test]
fn what_is_outside_has_no_free_numbers() {
    let outside: &[(Constraint<'_>, &[f64])] = &[
        (Constraint::Real, &[f64::NAN]),
        (Constraint::Real, &[INF]),
        (Constraint::Positive, &[1.0, 0.0]),
        (Constraint::Positive, &[-1.0]),
        (Constraint::lower(2.0), &[1.0]),
        (Constraint::upper(2.0), &[3.0]),
        (Constraint::interval(0.0, 1.0), &[1.0]),
        (Constraint::interval(0.0, 1.0), &[-0.5]),
        (Constraint::interval(1.0, 0.0), &[0.5]),
        (Constraint::Ordered, &[1.0, 1.0]),
        (Constraint::Ordered, &[1.0, 0.5, 2.0]),
        (Constraint::PositiveOrdered, &[0.0, 1.0]),
        (Constraint::PositiveOrdered, &[-1.0, 1.0]),
        (Constraint::PositiveOrdered, &[1.0, 1.0]),
        (Constraint::PositiveOrdered, &[2.0, 1.0]),
        (Constraint::Simplex, &[]),
        (Constraint::Simplex, &[0.5, 0.4]),
        (Constraint::Simplex, &[0.6, 0.6, -0.2]),
        (Constraint::Simplex, &[0.0, 1.0]),
        (Constraint::Simplex, &[f64::NAN, 1.0]),
        (Constraint::CorrelationCholesky, &[]),
        (Constraint::CorrelationCholesky, &[1.0, 0.0, 0.6]),
        (Constraint::CorrelationCholesky, &[1.0, 0.0, 0.6, -0.8]),
        (Constraint::CorrelationCholesky, &[1.0, 0.0, 0.6, 0.7]),
        (Constraint::CorrelationCholesky, &[1.0, 0.2, 0.6, 0.8]),
        (Constraint::CorrelationCholesky, &[1.0, 0.0, f64::NAN, 0.8]),
    ];
    for (constraint, value) in outside {
        assert_eq!(constraint.unconstrain(value), None, "{constraint:?} of {value:?}");
    }
}

#[test]
fn bounds_at_infinity_are_none() {
    for constraint in [Constraint::lower(-INF), Constraint::upper(INF), Constraint::interval(-INF, INF)] {
        assert_eq!(constrain(constraint, &[0.3, -7.0], 2), (vec![0.3, -7.0], 0.0));
        assert_eq!(constraint.unconstrain(&[0.3, -7.0]), Some(vec![0.3, -7.0]));
    }
    let (half, lower) = (Constraint::interval(1.0, INF), Constraint::lower(1.0));
    assert_eq!(constrain(half, &[0.3], 1), constrain(lower, &[0.3], 1));
    let (half, upper) = (Constraint::interval(-INF, 1.0), Constraint::upper(1.0));
    assert_eq!(constrain(half, &[0.3], 1), constrain(upper, &[0.3], 1));
}

#[test]
fn a_value_without_choice_is_one() {
    for constraint in [Constraint::Simplex, Constraint::CorrelationCholesky] {
        assert_eq!(constraint.free(1), 0);
        assert_eq!(constrain(constraint, &[0.3], 1), (vec![1.0], 0.0));
        assert_eq!(constraint.unconstrain(&[1.0]), Some(vec![]));
    }
}

#[test]
fn another_number_of_free_numbers_is_an_error() {
    let graph = Graph::new();
    let u = graph.input("u", DType::F64, [4, 3]);
    for constraint in [
        Constraint::Real,
        Constraint::Positive,
        Constraint::interval(0.0, 1.0),
        Constraint::Ordered,
        Constraint::PositiveOrdered,
        Constraint::Simplex,
        Constraint::CorrelationCholesky,
    ] {
        for k in [0, 2, 5] {
            let (value, log_jacobian) = constraint.constrain(u, k);
            assert!(value.error().is_some() && log_jacobian.error().is_some(), "{constraint:?} of {k}");
        }
    }
}

/// Constraints with bounds that are expressions, as numbers and as inputs.
fn bounded<'g>(kind: &str, low: Expr<'g>, high: Expr<'g>) -> Constraint<'g> {
    match kind {
        "lower" => Constraint::lower(low),
        "upper" => Constraint::upper(high),
        "low" => Constraint::interval(low, 3.0),
        "high" => Constraint::interval(-1.0, high),
        "open" => Constraint::interval(low, INF),
        _ => Constraint::interval(low, high),
    }
}

const KINDS: [&str; 6] = ["lower", "upper", "low", "high", "open", "both"];

#[test]
fn bounds_that_are_expressions_are_those_of_their_values() {
    let u = array([2, 3], vec![0.4, -2.1, 5.0, 1.3, -0.2, 0.0]);
    // One bound for all, one for each row, for each element, for each of each.
    for (low, high) in [
        (array([1], vec![-1.0]), array([1], vec![3.0])),
        (array([2, 1], vec![-1.0, 0.5]), array([2, 1], vec![3.0, 0.75])),
        (array([3], vec![-1.0, 0.5, 2.0]), array([3], vec![3.0, 0.75, 2.5])),
        (array([2, 3], vec![-1.0, 0.5, 2.0, 0.0, 1.0, -4.0]), array([2, 3], vec![2.0, 0.75, 9.0, 4.0, 8.0, -1.0])),
    ] {
        let at = |bound: &mcvi_expr::Array, i: usize, j: usize| {
            let dims = bound.shape().dims();
            let (row, column) = (if dims.len() == 2 { i } else { 0 }, if dims[dims.len() - 1] == 3 { j } else { 0 });
            bound.to_f64()[row * dims[dims.len() - 1] + column]
        };
        for kind in KINDS {
            let found = evaluate(&[u.clone(), low.clone(), high.clone()], |x| {
                let (value, log_jacobian) = bounded(kind, x[1], x[2]).constrain(x[0], 3);
                vec![value, log_jacobian]
            });
            for i in 0..2 {
                let mut total = 0.0;
                for j in 0..3 {
                    let (low, high) = (at(&low, i, j), at(&high, i, j));
                    let numbers = match kind {
                        "lower" | "open" => Constraint::lower(low),
                        "upper" => Constraint::upper(high),
                        "low" => Constraint::interval(low, 3.0),
                        "high" => Constraint::interval(-1.0, high),
                        _ => Constraint::interval(low, high),
                    };
                    let (value, log_jacobian) = constrain(numbers, &[u.to_f64()[3 * i + j]], 1);
                    assert_close(&[found[0].to_f64()[3 * i + j]], &value, 1e-15);
                    total += log_jacobian;
                }
                let log_jacobian = found[1].to_f64()[i];
                // An interval that ends before it begins has no values.
                let same = log_jacobian == total || log_jacobian.is_nan() && total.is_nan();
                assert!(same || (log_jacobian - total).abs() < 1e-13, "{kind}: {log_jacobian}, not {total}");
            }
        }
    }
}

#[test]
fn the_jacobian_of_expression_bounds_is_the_slope_and_all_derivatives_are_finite_differences() {
    let inputs = [array([1, 1], vec![0.7]), array([1, 1], vec![-1.2]), array([1, 1], vec![1.9])];
    for kind in KINDS {
        for part in 0..2 {
            let checked = check_derivatives(&inputs, |x| {
                let (value, log_jacobian) = bounded(kind, x[1], x[2]).constrain(x[0], 1);
                [value, log_jacobian][part]
            });
            checked.unwrap_or_else(|e| panic!("{kind}, part {part}: {e}"));
        }
        let out = evaluate(&inputs, |x| {
            let (value, log_jacobian) = bounded(kind, x[1], x[2]).constrain(x[0], 1);
            vec![mcvi_expr::grad(value.sum_all(), &[x[0]]).unwrap()[0].abs().ln(), log_jacobian]
        });
        assert_close(&out[0].to_f64(), &out[1].to_f64(), 1e-14);
    }
}

#[test]
fn bounds_of_another_width_are_errors() {
    let graph = Graph::new();
    let (u, wide) = (graph.input("u", DType::F64, [4, 1]), graph.input("wide", DType::F64, [3]));
    for kind in KINDS {
        let (value, _) = bounded(kind, wide, wide).constrain(u, 1);
        assert!(value.error().is_some(), "{kind}");
    }
    let unknown = Constraint::lower(wide);
    assert_eq!(unknown.unconstrain(&[1.0]), None, "the bound's value is not known");
}
