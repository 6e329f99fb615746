//! Statements and expressions: the target of small programs against numbers worked out by hand.

use crate::{assert_near, evaluate, log_density, posterior, refusal};
use serde_json::{Value, json};

/// The target of statements in the model, with parameters x and y at 0.3 and −0.7.
fn target(model: &str) -> f64 {
    target_with(model, "", json!({}))
}

fn target_with(model: &str, before: &str, data: Value) -> f64 {
    let program = format!("{before} parameters {{ real x; real y; }} model {{ {model} }}");
    let p = posterior(&program, data);
    let points = vec![vec![0.3, -0.7], vec![0.31, -0.7], vec![0.3, -0.68]];
    let (values, gradients) = evaluate(&p, &points);
    // Derivatives against central differences.
    let h = 1e-5;
    for i in 0..2 {
        let mut up = points[0].clone();
        let mut down = points[0].clone();
        up[i] += h;
        down[i] -= h;
        let difference = (log_density(&p, &up) - log_density(&p, &down)) / (2.0 * h);
        let error = (gradients[i] - difference).abs();
        assert!(error < 1e-6 * difference.abs().max(1.0), "{model}: derivative {} against {difference}", gradients[i]);
    }
    values[0]
}

#[test]
fn arithmetic_follows_stan() {
    let (x, y) = (0.3f64, -0.7f64);
    let cases = [
        ("target += 7 / 2 * x;", 3.0 * x),
        ("target += 7.0 / 2 * x;", 3.5 * x),
        ("target += -7 / 2 * x;", -3.0 * x),
        ("target += 7 % 3 * x + 7 %/% 3;", x + 2.0),
        ("target += -x^2;", -(x * x)),
        ("target += 2^3^2 * x;", 512.0 * x),
        ("target += x > 0 ? y : 1;", y),
        ("target += (x > 0) + !0 + (x < y || y < 0) * x;", 1.0 + 1.0 + x),
        ("target += [x, y] * [1, 2]' + ([x, y] .* [y, 3])[2];", x + 2.0 * y + 3.0 * y),
        ("target += {x, y};", x + y),
        ("target += [[x, y], [1, 2]] * [y, x]';", x * y + y * x + y + 2.0 * x),
        ("target += x; target += target() * 2;", 3.0 * x),
    ];
    for (model, expected) in cases {
        assert_near(target(model), expected);
    }
}

#[test]
fn loops_and_branches_on_data() {
    let (x, y) = (0.3f64, -0.7f64);
    assert_near(target("real s = 0; for (i in 1:4) { if (i == 3) continue; s += i * x; } target += s;"), 7.0 * x);
    assert_near(target("int i = 0; while (1) { i += 1; if (i > 5) break; target += x * i; }"), 15.0 * x);
    assert_near(target("for (v in {x, y, 2.0}) target += v^2;"), x * x + y * y + 4.0);
    assert_near(target("for (v in [[1, 2], [3, 4]]) target += v * x;"), 10.0 * x);
    // A recurrence.
    let mut e = x;
    let mut sum = 0.0;
    for t in 1..=20 {
        e = (e * y + f64::from(t) * 0.01).tanh();
        sum += e;
    }
    assert_near(target("real e = x; for (t in 1:20) { e = tanh(e * y + t * 0.01); target += e; }"), sum);
}

#[test]
fn assignment_to_parts() {
    let (x, y) = (0.3f64, -0.7f64);
    let cases = [
        (
            "vector[3] v = rep_vector(0, 3); v[2] = x; v[{1, 3}] = [y, 2]'; target += v .* [1, 2, 3]';",
            y + 2.0 * x + 6.0,
        ),
        (
            "matrix[2, 3] m = rep_matrix(1, 2, 3); m[1] = [x, y, 0]; m[, 2] += [1, x]'; target += m[:, 2];",
            y + 1.0 + 1.0 + x,
        ),
        (
            "array[2] vector[2] a; a[1] = [x, y]'; a[2][1] = 1; a[2, 2] = x; target += a[, 2]; target += a[2];",
            y + x + 1.0 + x,
        ),
        ("vector[4] v = [1, 2, 3, 4]'; v[2:3] *= x; target += v[3:]; target += v[:2];", 1.0 + 2.0 * x + 3.0 * x + 4.0),
        ("array[3] int n = {3, 1, 2}; vector[3] v = [x, y, 1]'; target += v[n][1] * 10 + v[n[2:]][2];", 10.0 + y),
    ];
    for (model, expected) in cases {
        assert_near(target(model), expected);
    }
}

#[test]
fn branches_on_parameters_select() {
    let (x, y) = (0.3f64, -0.7f64);
    let f = "functions { real f(real a) { if (a > 0) return a; return 5 * a; } }";
    assert_near(target_with("target += f(x) + f(y);", f, json!({})), x + 5.0 * y);
    assert_near(target("real s = 1; if (x > y) { s = x; target += 2; } else s = y; target += s;"), x + 2.0);
    assert_near(target("if (x < y) reject(\"x is \", x); target += x;"), x);
    // A side that returns, or goes on with the next iteration, leaves what follows to the other, however deep it is.
    let f = "functions {
        real g(real a) { real b = 2; if (a > 1) return 2 * a; else if (a < 0) { { b *= 3; } return a * b; } b += 1; return a + b; }
        real h(real a) { if (a > 0) { b_checked(a); return a; } else { if (a > -0.5) { return 7; } } return 11 * a; }
        real r(real a) { if (a < 0) reject(\"a is \", a); else return 3 * a; }
        void b_checked(real a) { if (a > 5) return; print(\"small\"); }
        void early_lp(real a) { target += 1; if (a > 0) return; target += 10 * a; }
    }";
    let term = |statement: &str| target_with(statement, f, json!({}));
    assert_near(term("target += g(x) + 100 * g(y) + 10000 * g(x + 1);"), x + 3.0 + 600.0 * y + 20000.0 * (x + 1.0));
    assert_near(term("target += h(x) + 100 * h(y) + 10000 * h(-x);"), x + 1100.0 * y + 70000.0);
    assert_near(term("target += r(x);"), 3.0 * x);
    assert_near(term("early_lp(x); early_lp(y);"), 2.0 + 10.0 * y);
    assert_near(
        term(
            "for (i in 1:3) { if (x > 0.5 * (i - 1)) { target += 10 * x; continue; } if (i == 3) continue; target += i * y; }",
        ),
        10.0 * x + 2.0 * y,
    );
    let leaves = "parameters { real x; } model { for (i in 1:3) { if (x > i) break; target += x; } }";
    assert_eq!(refusal(leaves, json!({})), "a branch on parameters cannot leave a loop");
    assert_eq!(
        refusal("parameters { real x; } model { while (x > 0) target += x; }", json!({})),
        "how often a loop runs cannot depend on parameters"
    );
}

#[test]
fn functions_recursion_and_overloads() {
    let f = "functions {
        int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
        real twice(real a) { return 2 * a; }
        vector twice(vector a) { return 20 * a; }
        real half_lpdf(real v, real s) { return normal_lpdf(v | 0, s) + log(2); }
        void bump_lp(real v) { target += 3 * v; }
        real slow(real a) { return slow(a); }
    }";
    let (x, y) = (0.3f64, -0.7f64);
    assert_near(target_with("target += fib(10) * x;", f, json!({})), 55.0 * x);
    assert_near(target_with("target += twice(x) + sum(twice([x, y]'));", f, json!({})), 2.0 * x + 20.0 * (x + y));
    assert_near(target_with("bump_lp(y);", f, json!({})), 3.0 * y);
    let half = -0.5 * (x / 2.0f64).powi(2) - 2f64.ln() - 0.5 * std::f64::consts::TAU.ln() + 2f64.ln();
    assert_near(target_with("x ~ half(2);", f, json!({})), half);
    let endless = format!("{f} parameters {{ real x; }} model {{ target += slow(x); }}");
    assert_eq!(refusal(&endless, json!({})), "functions call each other more than 200 deep");
    let forever = "parameters { real x; } model { while (1) { } }";
    assert!(refusal(forever, json!({})).starts_with("the program ran for more than"));
}

#[test]
fn loops_over_data_become_axes() {
    let text = "data { int N; array[N] int g; vector[N] y; }
        parameters { vector[3] a; real<lower=0> s; }
        transformed parameters { vector[N] mu; for (n in 1:N) mu[n] = a[g[n]] * 2; }
        model { for (n in 1:N) { if (g[n] == 1) y[n] ~ normal(mu[n], s); else y[n] ~ normal(mu[n] + 1, s); } }";
    let g: Vec<usize> = (0..300).map(|i| 1 + i * i % 3).collect();
    let y: Vec<f64> = (0..300).map(|i| (i as f64).sin()).collect();
    let p = posterior(text, json!({ "N": 300, "g": g, "y": y }));
    assert!(p.operations() < 12, "{} operations", p.operations());
    let (a, s) = ([0.2, -0.1, 0.4], 0.3f64);
    let expected: f64 = g
        .iter()
        .zip(&y)
        .map(|(g, y)| {
            let mu = 2.0 * a[g - 1] + if *g == 1 { 0.0 } else { 1.0 };
            -0.5 * ((y - mu) / s.exp()).powi(2) - s - 0.5 * std::f64::consts::TAU.ln()
        })
        .sum();
    assert_near(log_density(&p, &[a[0], a[1], a[2], s]), expected + s);
}

#[test]
fn equal_members_of_a_group() {
    // Both iterations multiply the same known row by the same parameters, which are put together anew each time.
    let model = "matrix[1, 2] m = [[1, 2]]; for (i in 1:3) { vector[2] v; v[1] = y; v[2] = x; target += m * v; }";
    assert_near(target(model), 3.0 * (-0.7 + 0.6));
}

#[test]
fn recurrences_become_loops() {
    // Carries start from data and from a parameter; iterations read data, parameters by place, and each other.
    let text = "data { int T; vector[T] y; array[T] int g; }
        parameters { real a; vector[3] b; }
        transformed parameters {
          vector[T] e;
          array[T] vector[2] s;
          e[1] = y[1] - a;
          s[1] = [0, b[1]]';
          for (t in 2:T) {
            e[t] = y[t] - a * e[t - 1] + b[g[t]];
            s[t, 1] = log_sum_exp(s[t - 1, 1] + a, s[t - 1, 2]);
            s[t, 2] = 0.5 * s[t - 1, 1] + e[t];
          }
        }
        model { e ~ normal(0, 1); target += s[T]; target += s[10, 2]; }";
    let n = 120;
    let y: Vec<f64> = (0..n).map(|i| (0.3 * f64::from(i)).sin()).collect();
    let g: Vec<usize> = (0..n as usize).map(|i| 1 + i * 7 % 3).collect();
    let p = posterior(text, json!({ "T": n, "y": y, "g": g }));
    assert!(p.operations() < 40, "{} operations", p.operations());
    let target = |z: &[f64]| {
        let (a, b) = (z[0], &z[1..]);
        let mut e = vec![y[0] - a];
        let mut s = vec![[0.0, b[0]]];
        for t in 1..y.len() {
            let now = y[t] - a * e[t - 1] + b[g[t] - 1];
            let [u, v] = s[t - 1];
            e.push(now);
            s.push([((u + a).exp() + v.exp()).ln(), 0.5 * u + now]);
        }
        let density: f64 = e.iter().map(|e| -0.5 * e * e - 0.5 * std::f64::consts::TAU.ln()).sum();
        density + s[y.len() - 1][0] + s[y.len() - 1][1] + s[9][1]
    };
    let points = vec![vec![0.3, -0.2, 0.1, 0.4], vec![-0.5, 0.3, 0.2, -0.1]];
    let (values, gradients) = evaluate(&p, &points);
    for (i, point) in points.iter().enumerate() {
        assert_near(values[i], target(point));
        for j in 0..4 {
            let shifted = |h: f64| {
                let mut z = point.clone();
                z[j] += h;
                target(&z)
            };
            let difference = (shifted(1e-5) - shifted(-1e-5)) / 2e-5;
            let error = (gradients[4 * i + j] - difference).abs();
            assert!(error < 1e-6 * difference.abs().max(1.0), "{} against {difference}", gradients[4 * i + j]);
        }
    }
}

#[test]
fn what_cannot_be_lowered_is_named_with_its_line() {
    let text = "parameters {\n real x;\n}\nmodel {\n target += eigenvalues_sym([[x]])[1];\n}";
    let program = crate::read(text).unwrap();
    let report = mcvi_stan::Posterior::new(&program, &json!({})).unwrap_err().to_string();
    assert!(
        report.contains("`eigenvalues_sym` of parameters is not supported") && report.contains("test.stan:5:"),
        "{report}"
    );
    let complex = "parameters { real x; } model { complex z = 1i; }";
    assert_eq!(refusal(complex, json!({})), "complex numbers are not supported");
    let tuple = "parameters { real x; } model { tuple(int, real) t = (1, 2.0); }";
    assert_eq!(refusal(tuple, json!({})), "tuples are not supported");
    let index = "parameters { real x; } model { vector[3] v; target += v[x > 0 ? 1 : 2]; }";
    assert_eq!(refusal(index, json!({})), "an index cannot depend on parameters");
}
