//! General matrices of parameters: against explicit formulas, and derivatives against differences.

use crate::{assert_near, evaluate, hessian_product, log_density, posterior};
use serde_json::json;

fn program(body: &str) -> String {
    format!(
        "transformed data {{ matrix[3, 3] D = [[1, 0.2, 0], [0.5, -2, 1], [0, 3, 0.1]]; }}
         parameters {{ matrix[3, 3] A; }} model {{ {body} }}"
    )
}

/// Column by column; not symmetric, and its first element is small, so that elimination needs another pivot.
const A: [f64; 9] = [1e-9, 1.5, -0.3, 2.0, 0.4, 0.7, -1.0, 0.6, 1.1];

#[test]
fn inverses_and_determinants() {
    let at = |body: &str| log_density(&posterior(&program(body), json!({})), &A);
    let a = |i: usize, j: usize| A[j * 3 + i];
    let minor = |i: usize, j: usize| {
        let r: Vec<usize> = (0..3).filter(|k| *k != i).collect();
        let c: Vec<usize> = (0..3).filter(|k| *k != j).collect();
        a(r[0], c[0]) * a(r[1], c[1]) - a(r[0], c[1]) * a(r[1], c[0])
    };
    let det = a(0, 0) * minor(0, 0) - a(0, 1) * minor(0, 1) + a(0, 2) * minor(0, 2);
    assert_near(at("target += determinant(A);"), det);
    assert_near(at("target += log_determinant(A);"), det.abs().ln());
    for i in 0..3 {
        for j in 0..3 {
            let sign = if (i + j) % 2 == 0 { 1.0 } else { -1.0 };
            let expected = sign * minor(j, i) / det;
            assert_near(at(&format!("target += inverse(A)[{}, {}];", i + 1, j + 1)), expected);
        }
    }
    assert_near(at("target += sum((A \\ (A * D)) - D);"), 0.0);
    assert_near(at("target += sum(((D * A) / A) - D);"), 0.0);
    assert_near(at("target += trace(matrix_power(A, 3)) - trace(A * A * A);"), 0.0);
    assert_near(at("target += trace_quad_form(A, D) - trace(D' * A * D);"), 0.0);
    assert_near(at("target += trace_gen_quad_form(A, D, A) - trace(A * A' * D * A);"), 0.0);
}

#[test]
fn exponentials() {
    // A turn by an angle, and a nilpotent matrix.
    let text = "parameters { real x; } model { target += matrix_exp([[0, -x], [x, 0]])[2, 1]; }";
    for x in [0.3, 2.0, -5.0] {
        assert_near(log_density(&posterior(text, json!({})), &[x]), x.sin());
    }
    let text = "parameters { real x; } model { target += matrix_exp([[0, x], [0, 0]])[1, 2]; }";
    assert_near(log_density(&posterior(text, json!({})), &[3.0]), 3.0);
}

#[test]
fn derivatives() {
    for body in [
        "target += log_determinant(A);",
        "target += determinant(A);",
        "target += sum(inverse(A) .* D);",
        "target += sum(matrix_exp(A) .* D);",
        "target += sum((A \\ D) .* D);",
    ] {
        let p = posterior(&program(body), json!({}));
        let direction: Vec<f64> = (0..9).map(|i| f64::from(i).cos()).collect();
        let h = 1e-5;
        let moved = |by: f64| A.iter().zip(&direction).map(|(x, d)| x + by * d).collect();
        let (values, gradients) = evaluate(&p, &[moved(h), moved(-h), A.to_vec()]);
        let slope: f64 = gradients[18..].iter().zip(&direction).map(|(g, d)| g * d).sum();
        let difference = (values[0] - values[1]) / (2.0 * h);
        assert!((slope - difference).abs() < 1e-7 * slope.abs().max(1.0), "{body}: {slope}, {difference}");
        let product = hessian_product(&p, &A, &direction);
        for i in 0..9 {
            let bend = (gradients[i] - gradients[9 + i]) / (2.0 * h);
            assert!((product[i] - bend).abs() < 1e-5 * bend.abs().max(1.0), "{body}: {}, {bend}", product[i]);
        }
    }
}

#[test]
fn decompositions_of_data() {
    let text = "transformed data {
        matrix[4, 2] X = [[1, 2], [3, 4], [5, 7], [-1, 0.5]];
        matrix[4, 2] Q = qr_thin_Q(X);
        matrix[2, 2] R = qr_thin_R(X);
        matrix[3, 3] S = [[2, 1, 0.5], [1, 3, -1], [0.5, -1, 1]];
        vector[3] e = eigenvalues_sym(S);
        matrix[3, 3] V = eigenvectors_sym(S);
    }
    parameters { real x; }
    model {
        target += sum(abs(to_vector(Q * R - X)));
        target += sum(abs(to_vector(Q' * Q - identity_matrix(2))));
        target += abs(R[2, 1]) + step(-R[1, 1]) + step(-R[2, 2]);
        target += sum(abs(to_vector(V * diag_matrix(e) * V' - S)));
        target += step(e[1] - e[2]) + step(e[2] - e[3]);
    }";
    assert!(log_density(&posterior(text, json!({})), &[0.0]).abs() < 1e-13);
}
