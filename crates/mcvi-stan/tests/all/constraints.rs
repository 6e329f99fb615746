//! Constrained parameters: values that meet the constraint, and Jacobians against differences.

use crate::{assert_near, constrained, log_density, posterior};
use serde_json::json;

/// Whether a list is as declared.
type Meets = fn(&[f64]) -> bool;

/// ln |det| of a square matrix, by elimination.
fn log_determinant(mut a: Vec<Vec<f64>>) -> f64 {
    let n = a.len();
    let mut sum = 0.0;
    for c in 0..n {
        let pivot = (c..n).max_by(|&i, &j| a[i][c].abs().total_cmp(&a[j][c].abs())).unwrap();
        a.swap(c, pivot);
        sum += a[c][c].abs().ln();
        let (done, rest) = a.split_at_mut(c + 1);
        for row in rest {
            let f = row[c] / done[c][c];
            row.iter_mut().zip(&done[c]).for_each(|(x, y)| *x -= f * y);
        }
    }
    sum
}

/// Checks the values of a declaration, and its Jacobian at the elements that determine the value.
fn check(declaration: &str, free: &[f64], elements: &[usize], meets: Meets) {
    let p = posterior(&format!("parameters {{ {declaration} }} model {{ }}"), json!({}));
    assert_eq!(p.dim(), free.len(), "{declaration}");
    let value = constrained(&p, free).pop().unwrap();
    assert!(meets(&value), "{declaration}: {value:?}");
    let h = 1e-5;
    let columns: Vec<Vec<f64>> = (0..free.len())
        .map(|j| {
            let at = |step: f64| {
                let mut z = free.to_vec();
                z[j] += step;
                constrained(&p, &z).pop().unwrap()
            };
            let (up, down) = (at(h), at(-h));
            elements.iter().map(|&i| (up[i] - down[i]) / (2.0 * h)).collect()
        })
        .collect();
    let (found, expected) = (log_density(&p, free), log_determinant(columns));
    assert!((found - expected).abs() < 1e-7, "{declaration}: {found} against {expected}");
}

fn sums_to(x: &[f64], total: f64) -> bool {
    (x.iter().sum::<f64>() - total).abs() < 1e-12
}

#[test]
fn values_and_jacobians() {
    let u = [0.3, -0.8, 0.5, 0.1, -0.4, 0.9, -0.2, 0.6, 0.7, -0.1];
    let all = |n: usize| (0..n).collect::<Vec<_>>();
    check("real<lower=2> x;", &u[..1], &[0], |x| x[0] > 2.0);
    check("vector<upper=-1>[2] x;", &u[..2], &all(2), |x| x.iter().all(|x| *x < -1.0));
    check("vector<lower=-1, upper=3>[2] x;", &u[..2], &all(2), |x| x.iter().all(|x| *x > -1.0 && *x < 3.0));
    check("array[2] vector<lower=[0, 5]'>[2] x;", &u[..4], &all(4), |x| x[1] > 5.0 && x[3] > 5.0);
    check("matrix<offset=1, multiplier=4>[2, 2] x;", &u[..4], &all(4), |x| (x[1] - 3.0).abs() < 1e-12);
    check("ordered[3] x;", &u[..3], &all(3), |x| x[0] < x[1] && x[1] < x[2]);
    check("positive_ordered[3] x;", &u[..3], &all(3), |x| 0.0 < x[0] && x[0] < x[1] && x[1] < x[2]);
    check("simplex[4] x;", &u[..3], &all(3), |x| sums_to(x, 1.0));
    check("array[2] simplex[3] x;", &u[..4], &[0, 1, 3, 4], |x| sums_to(&x[..3], 1.0) && sums_to(&x[3..], 1.0));
    check("cholesky_factor_corr[3] x;", &u[..3], &[3, 6, 7], |x| {
        (0..3).all(|i| (x[3 * i..3 * i + 3].iter().map(|x| x * x).sum::<f64>() - 1.0).abs() < 1e-12)
    });
    check("corr_matrix[3] x;", &u[..3], &[3, 6, 7], |x| (0..3).all(|i| (x[4 * i] - 1.0).abs() < 1e-12));
    check("corr_matrix[4] x;", &u[..6], &[4, 8, 9, 12, 13, 14], |x| (x[1] - x[4]).abs() < 1e-12);
    check("cholesky_factor_cov[2] x;", &u[..3], &[0, 2, 3], |x| x[0] > 0.0 && x[1] == 0.0);
    check("cholesky_factor_cov[3, 2] x;", &u[..5], &[0, 2, 3, 4, 5], |x| x[3] > 0.0);
    check("cov_matrix[3] x;", &u[..6], &[0, 3, 4, 6, 7, 8], |x| x[0] > 0.0 && (x[1] - x[3]).abs() < 1e-12);
    check("row_stochastic_matrix[2, 3] x;", &u[..4], &[0, 1, 3, 4], |x| sums_to(&x[..3], 1.0));
}

#[test]
fn unit_vectors_and_sums_to_zero() {
    let unit = posterior("parameters { unit_vector[3] x; } model { }", json!({}));
    let u = [0.3, -0.8, 0.5];
    let value = constrained(&unit, &u).pop().unwrap();
    assert_near(value.iter().map(|x| x * x).sum(), 1.0);
    assert_near(log_density(&unit, &u), -0.5 * (0.09 + 0.64 + 0.25));
    // An isometry: lengths stay, and the Jacobian is 1.
    let zero = posterior("parameters { sum_to_zero_vector[4] x; } model { }", json!({}));
    let value = constrained(&zero, &u).pop().unwrap();
    assert!(sums_to(&value, 0.0));
    assert_near(value.iter().map(|x| x * x).sum(), 0.09 + 0.64 + 0.25);
    assert_eq!(log_density(&zero, &u), 0.0);
    // Of a matrix by stanli 0.24, whose sides have another basis.
    let zero = posterior("parameters { sum_to_zero_matrix[3, 4] x; } model { }", json!({}));
    let value = constrained(&zero, &[0.0, 0.0, 1.0, 1.0, 0.0, 1.0]).pop().unwrap();
    assert_near(value[1], 0.5773502691896258 - 1.0 / 3.0 + 0.11785113019775793);
    assert!((0..3).all(|i| sums_to(&value[4 * i..4 * i + 4], 0.0)));
    assert!((0..4).all(|j| sums_to(&[value[j], value[4 + j], value[8 + j]], 0.0)));
    assert_near(value.iter().map(|x| x * x).sum(), 3.0);
}

#[test]
fn unconstrained_numbers_come_in_stans_order() {
    let p = posterior("parameters { real a; matrix[2, 3] m; array[2] vector[2] v; } model { }", json!({}));
    let z: Vec<f64> = (0..11).map(f64::from).collect();
    let values = constrained(&p, &z);
    // A matrix by columns, shown row by row; arrays element by element.
    assert_eq!(values[1], [1.0, 3.0, 5.0, 2.0, 4.0, 6.0]);
    assert_eq!(values[2], [7.0, 8.0, 9.0, 10.0]);
}

#[test]
fn bounds_may_be_parameters() {
    let p = posterior(
        "parameters { real<lower=0> a; real<lower=0, upper=1 - a> b; } transformed parameters { real s = a + b; } model { }",
        json!({}),
    );
    let (u, v) = (-1.2f64, 0.4f64);
    let a = u.exp();
    let share = 1.0 / (1.0 + (-v).exp());
    let values = constrained(&p, &[u, v]);
    assert_near(values[2][0], a + share * (1.0 - a));
    assert_near(log_density(&p, &[u, v]), u + (1.0 - a).ln() + share.ln() + (1.0 - share).ln());
}
