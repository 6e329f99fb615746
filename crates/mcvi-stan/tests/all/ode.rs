//! Differential equations against their exact solutions.

use crate::{constrained, evaluate, posterior, refusal};
use mcvi::{BayesianModel, Hardware};
use mcvi_stan::StanModel;
use serde_json::json;

const OSCILLATOR: &str = "functions {
      vector swing(real t, vector y, real w) { return [y[2], -w^2 * y[1]]'; }
      array[] real decay(real t, array[] real y, array[] real k, data array[] real x, data array[] int n) {
        return {-k[1] * y[1] + x[1] * t};
      }
    }
    data { int T; array[T] real ts; }
    parameters { real<lower=0> w; }
    transformed parameters {
      array[T] vector[2] y = ode_rk45(swing, [1, 0]', 0, ts, w);
      array[T, 1] real z = integrate_ode_bdf(decay, {w}, 0, ts, {w}, {0.5}, {1}, 1e-8, 1e-8, 1e4);
    }
    model { target += y[T, 1] + sum(to_array_1d(z)); }
    generated quantities { array[T] vector[2] again = ode_bdf_tol(swing, [1, 0]', 0, ts, 1e-6, 1e-6, 100, w); }";

/// y' = −k y + t/2, y(0) = k.
fn decayed(k: f64, t: f64) -> f64 {
    let slope = 0.5 / k;
    (k + slope / k) * (-k * t).exp() + slope * t - slope / k
}

#[test]
fn solutions_and_derivatives_are_exact() {
    let data = json!({ "T": 3, "ts": [0.5, 1.0, 4.0] });
    let p = posterior(OSCILLATOR, data.clone());
    let (u, w) = (0.3f64, 0.3f64.exp());
    let values = constrained(&p, &[u]);
    for (i, t) in [0.5, 1.0, 4.0].into_iter().enumerate() {
        assert!((values[1][2 * i] - (w * t).cos()).abs() < 1e-7);
        assert!((values[1][2 * i + 1] + w * (w * t).sin()).abs() < 1e-7);
        assert!((values[2][i] - decayed(w, t)).abs() < 1e-7);
    }
    let target = |w: f64| (4.0 * w).cos() + [0.5, 1.0, 4.0].map(|t| decayed(w, t)).iter().sum::<f64>() + w.ln();
    let (value, gradient) = evaluate(&p, &[vec![u]]);
    assert!((value[0] - target(w)).abs() < 1e-7);
    let h = 1e-5;
    let expected = (target((u + h).exp()) - target((u - h).exp())) / (2.0 * h);
    assert!((gradient[0] - expected).abs() < 1e-6, "{} against {expected}", gradient[0]);
    assert!(p.solver_error().is_some_and(|e| e < 1e-8));
    // Generated quantities take the same steps on the host.
    let model = StanModel::compile(OSCILLATOR, &data).unwrap_or_else(|e| panic!("{e}"));
    let q = model.quantities(&[vec![u]], Some(1), Hardware::with_threads(1)).unwrap();
    let again = q.generated.iter().find(|q| q.name == "again").unwrap();
    again.values.iter().zip(&values[1]).for_each(|(a, b)| assert!((a - b).abs() < 1e-7));
}

#[test]
fn times_must_be_known_and_increase() {
    let data = json!({ "T": 2, "ts": [1.0, 0.5] });
    assert_eq!(refusal(OSCILLATOR, data), "times must increase, and come after the first");
    let unknown = OSCILLATOR.replace("[1, 0]', 0, ts, w);\n", "[1, 0]', w, ts, w);\n");
    let data = json!({ "T": 1, "ts": [1.0] });
    assert_eq!(refusal(&unknown, data), "the times of differential equations cannot depend on parameters");
}
