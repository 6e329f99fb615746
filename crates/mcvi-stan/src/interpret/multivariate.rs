//! Densities of vectors and matrices, of categories, and of regressions.

use super::expression::{joined, transposed};
use super::{Machine, Run, fail};
use crate::source::Span;
use crate::syntax::ast::{Base, BinaryOp};
use crate::trace::Flat;
use crate::value::Value;
use std::f64::consts::{LN_2, PI};

/// ln √(2π).
const HALF_LN_TAU: f64 = 0.918_938_533_204_672_8;

/// The vectors of a value: itself, or the elements of an array.
fn vectors(value: &Value) -> Vec<Value> {
    match value.dimensions() {
        0 => vec![Value::vector(value.flat.clone())],
        _ => (0..value.shape[0]).map(|i| Value::vector(value.element(i).flat)).collect(),
    }
}

impl Machine<'_> {
    /// Densities that are not of single numbers; none if the name is of none.
    pub fn multivariate(&mut self, name: &str, arguments: &[Value], span: Span) -> Run<Option<Value>> {
        Ok(Some(match (name, arguments) {
            ("multi_normal_lpdf" | "multi_normal_cholesky_lpdf" | "multi_normal_prec_lpdf", [y, mu, s]) => {
                self.multi_normal(name, y, mu, s, span)?
            }
            ("multi_student_t_lpdf" | "multi_student_t_cholesky_lpdf", [y, nu, mu, s]) => {
                self.multi_student_t(name, y, nu, mu, s, span)?
            }
            ("dirichlet_lpdf", [theta, alpha]) => self.dirichlet(theta, alpha, span)?,
            ("categorical_lpmf", [y, theta]) => {
                let logs = self.map_named("log", std::slice::from_ref(theta), span)?;
                self.picked(y, &logs, span)?
            }
            ("categorical_logit_lpmf", [y, x]) => {
                let logs = self.apply("log_softmax", vec![x.clone()], span)?;
                self.picked(y, &logs, span)?
            }
            ("multinomial_lpmf" | "multinomial_logit_lpmf", [y, theta]) => {
                let logs = match name {
                    "multinomial_lpmf" => None,
                    _ => Some(self.apply("log_softmax", vec![theta.clone()], span)?),
                };
                let counts = y.clone().into_vector();
                let terms = match logs {
                    Some(logs) => self.binary(BinaryOp::ElementMultiply, &counts, &logs, span)?,
                    None => self.map_named("lmultiply", &[counts.clone(), theta.clone()], span)?,
                };
                let more = self.binary(BinaryOp::Add, &counts, &Value::real(1.0), span)?;
                let orders = self.map_named("lgamma", &[more], span)?;
                let each = self.binary(BinaryOp::Subtract, &terms, &orders, span)?;
                let sum = self.sum(&each);
                let total = self.sum(&counts);
                let total = self.binary(BinaryOp::Add, &total, &Value::real(1.0), span)?;
                let all = self.map_named("lgamma", &[total], span)?;
                self.binary(BinaryOp::Add, &sum, &all, span)?
            }
            ("ordered_logistic_lpmf" | "ordered_probit_lpmf", [y, eta, c]) => self.ordered(name, y, eta, c, span)?,
            ("lkj_corr_cholesky_lpdf" | "lkj_corr_lpdf", [l, eta]) => self.lkj(name, l, eta, span)?,
            ("wishart_lpdf" | "inv_wishart_lpdf", [w, nu, s]) => self.wishart(name, w, nu, s, span)?,
            (_, [y, x, rest @ ..]) if name.ends_with("_glm_lpmf") || name.ends_with("_glm_lpdf") => {
                return self.regression(name, y, x, rest, span).map(Some);
            }
            _ => return Ok(None),
        }))
    }

    /// Differences of vectors and their means, as the columns of one matrix.
    fn residuals(&mut self, y: &Value, mu: &Value, size: usize, span: Span) -> Run<Value> {
        let (ys, mus) = (vectors(y), vectors(mu));
        let count = ys.len().max(mus.len());
        if ys.iter().chain(&mus).any(|v| v.len() != size) || (ys.len() != mus.len() && ys.len().min(mus.len()) != 1) {
            return fail(span, "the vectors, means and the matrix have different sizes");
        }
        let spread = |list: &[Value]| {
            let all: Vec<Value> = (0..count).map(|i| list[i % list.len()].clone()).collect();
            Value::vector(joined(&all))
        };
        let difference = self.binary(BinaryOp::Subtract, &spread(&ys), &spread(&mus), span)?;
        Ok(transposed(&Value::matrix(count, size, difference.flat)))
    }

    fn multi_normal(&mut self, name: &str, y: &Value, mu: &Value, s: &Value, span: Span) -> Run<Value> {
        let size = s.extent().0;
        let residuals = self.residuals(y, mu, size, span)?;
        let count = residuals.extent().1 as f64;
        let (quadratic, log_det) = self.quadratic(name, &residuals, s, span)?;
        let half = self.binary(BinaryOp::Multiply, &quadratic, &Value::real(-0.5), span)?;
        let scaled = self.binary(BinaryOp::Multiply, &log_det, &Value::real(count), span)?;
        let sum = self.binary(BinaryOp::Subtract, &half, &scaled, span)?;
        self.binary(BinaryOp::Subtract, &sum, &Value::real(count * size as f64 * HALF_LN_TAU), span)
    }

    /// Σ r' S⁻¹ r over columns, and half the log determinant of S.
    fn quadratic(&mut self, name: &str, residuals: &Value, s: &Value, span: Span) -> Run<(Value, Value)> {
        let size = s.extent().0;
        let l = if name.contains("cholesky") { s.clone() } else { self.cholesky(s, span)? };
        let precision = name.contains("_prec");
        let white = match precision {
            true => self.product(&transposed(&l), residuals, span)?,
            false => self.solve_lower(&l, residuals, false, span)?,
        };
        let squares = self.map_named("square", &[white], span)?;
        let quadratic = self.sum(&squares);
        let diagonal = Value::vector(l.flat.gather(&(0..size).map(|i| i * (size + 1)).collect::<Vec<_>>()));
        let logs = self.map_named("log", &[diagonal], span)?;
        let log_det = self.sum(&logs);
        let sign = Value::real(if precision { -1.0 } else { 1.0 });
        Ok((quadratic, self.binary(BinaryOp::Multiply, &log_det, &sign, span)?))
    }

    fn multi_student_t(&mut self, name: &str, y: &Value, nu: &Value, mu: &Value, s: &Value, span: Span) -> Run<Value> {
        let size = s.extent().0;
        let all = self.residuals(y, mu, size, span)?;
        let mut total = Value::real(0.0);
        for j in 0..all.extent().1 {
            let column = all.at(&[crate::value::Selection::All, crate::value::Selection::One(j)]);
            let (quadratic, log_det) = self.quadratic(name, &column, s, span)?;
            // ln Γ((ν + d)/2) − ln Γ(ν/2) − d/2 ln(νπ) − ½ ln|S| − (ν + d)/2 ln(1 + q/ν).
            let d = size as f64;
            let half = self.binary(BinaryOp::Multiply, nu, &Value::real(0.5), span)?;
            let more = self.binary(BinaryOp::Add, &half, &Value::real(0.5 * d), span)?;
            let gammas = self.map_named("log_rising_factorial", &[half, Value::real(0.5 * d)], span)?;
            let log_nu = self.map_named("log", std::slice::from_ref(nu), span)?;
            let constant = self.binary(BinaryOp::Add, &log_nu, &Value::real(PI.ln()), span)?;
            let constant = self.binary(BinaryOp::Multiply, &constant, &Value::real(0.5 * d), span)?;
            let ratio = self.binary(BinaryOp::Divide, &quadratic, nu, span)?;
            let tail = self.map_named("log1p", &[ratio], span)?;
            let tail = self.binary(BinaryOp::Multiply, &more, &tail, span)?;
            let mut sum = gammas;
            for part in [constant, log_det, tail] {
                sum = self.binary(BinaryOp::Subtract, &sum, &part, span)?;
            }
            total = self.binary(BinaryOp::Add, &total, &sum, span)?;
        }
        Ok(total)
    }

    fn dirichlet(&mut self, theta: &Value, alpha: &Value, span: Span) -> Run<Value> {
        let (thetas, alphas) = (vectors(theta), vectors(alpha));
        let count = thetas.len().max(alphas.len());
        let mut parts = vec![];
        for i in 0..count {
            let (theta, alpha) = (&thetas[i % thetas.len()], &alphas[i % alphas.len()]);
            let less = self.binary(BinaryOp::Subtract, alpha, &Value::real(1.0), span)?;
            let powers = self.map_named("lmultiply", &[less, theta.clone()], span)?;
            let gammas = self.map_named("lgamma", std::slice::from_ref(alpha), span)?;
            let each = self.binary(BinaryOp::Subtract, &powers, &gammas, span)?;
            parts.push(self.sum(&each));
            let total = self.sum(alpha);
            parts.push(self.map_named("lgamma", &[total], span)?);
        }
        let all = Value::vector(joined(&parts));
        Ok(self.sum(&all))
    }

    /// The sum of the numbers at the categories of y.
    fn picked(&mut self, y: &Value, logs: &Value, span: Span) -> Run<Value> {
        let Some(categories) = y.numbers() else { return fail(span, "categories cannot depend on parameters") };
        let size = logs.len();
        let mut places = vec![];
        for category in categories {
            if !(1.0..=size as f64).contains(category) {
                return fail(span, format!("category {category} is outside 1 to {size}"));
            }
            places.push(*category as usize - 1);
        }
        if places.is_empty() {
            return Ok(Value::real(0.0));
        }
        let picked = Value::vector(logs.flat.gather(&places));
        Ok(self.sum(&picked))
    }

    /// The probability of an ordered category: a latent value between two cutpoints.
    fn ordered(&mut self, name: &str, y: &Value, eta: &Value, cuts: &Value, span: Span) -> Run<Value> {
        let Some(categories) = y.numbers().map(<[f64]>::to_vec) else {
            return fail(span, "categories cannot depend on parameters");
        };
        let cutpoints = vectors(cuts);
        let logistic = name.starts_with("ordered_logistic");
        let mut terms = vec![];
        for (i, category) in categories.iter().enumerate() {
            let c = &cutpoints[i % cutpoints.len()];
            let size = c.len() + 1;
            if !(1.0..=size as f64).contains(category) {
                return fail(span, format!("category {category} is outside 1 to {size}"));
            }
            let k = *category as usize;
            let eta = if eta.is_scalar() { eta.clone() } else { Value::scalar(eta.flat.part(i, 1)) };
            let from = |machine: &mut Self, j: usize| {
                machine.binary(BinaryOp::Subtract, &eta, &Value::scalar(c.flat.part(j, 1)), span)
            };
            let lower = if k > 1 { Some(from(self, k - 2)?) } else { None };
            let upper = if k < size { Some(from(self, k - 1)?) } else { None };
            let above = if logistic { "log_inv_logit" } else { "std_normal_lcdf" };
            let below = if logistic { "log1m_inv_logit" } else { "std_normal_lccdf" };
            terms.push(match (lower, upper) {
                (None, Some(upper)) => self.map_named(below, &[upper], span)?,
                (Some(lower), None) => self.map_named(above, &[lower], span)?,
                (Some(lower), Some(upper)) if logistic => {
                    self.map_named("log_inv_logit_diff", &[lower, upper], span)?
                }
                (Some(lower), Some(upper)) => {
                    let (a, b) = (self.map_named(above, &[lower], span)?, self.map_named(above, &[upper], span)?);
                    self.map_named("log_diff_exp", &[a, b], span)?
                }
                (None, None) => Value::real(0.0),
            });
        }
        let all = Value::vector(joined(&terms));
        Ok(self.sum(&all))
    }

    fn lkj(&mut self, name: &str, l: &Value, eta: &Value, span: Span) -> Run<Value> {
        let n = l.extent().0;
        let last = n.saturating_sub(1) as f64;
        // The constant: (n − 1) ln Γ(η + (n − 1)/2) − Σ k/2 ln π + ln Γ(η + (n − 1 − k)/2).
        let at = |machine: &mut Self, shift: f64| {
            let sum = machine.binary(BinaryOp::Add, eta, &Value::real(shift), span)?;
            machine.map_named("lgamma", &[sum], span)
        };
        let first = at(self, 0.5 * last)?;
        let mut sum = self.binary(BinaryOp::Multiply, &first, &Value::real(last), span)?;
        for k in 1..n {
            let gamma = at(self, 0.5 * (last - k as f64))?;
            let part = self.binary(BinaryOp::Add, &gamma, &Value::real(0.5 * k as f64 * PI.ln()), span)?;
            sum = self.binary(BinaryOp::Subtract, &sum, &part, span)?;
        }
        let factor = if name == "lkj_corr_lpdf" { self.cholesky(l, span)? } else { l.clone() };
        let diagonal = Value::vector(factor.flat.gather(&(1..n).map(|i| i * (n + 1)).collect::<Vec<_>>()));
        if n < 2 {
            return Ok(sum);
        }
        let logs = self.map_named("log", &[diagonal], span)?;
        let twice = self.binary(BinaryOp::Multiply, eta, &Value::real(2.0), span)?;
        let power = self.binary(BinaryOp::Subtract, &twice, &Value::real(2.0), span)?;
        let powers = match name {
            "lkj_corr_lpdf" => power,
            _ => {
                let own: Vec<f64> = (0..n - 1).map(|k| last - k as f64 - 1.0).collect();
                self.binary(BinaryOp::Add, &Value::vector(Flat::from_numbers(own)), &power, span)?
            }
        };
        let terms = self.binary(BinaryOp::ElementMultiply, &powers, &logs, span)?;
        let terms = self.sum(&terms);
        self.binary(BinaryOp::Add, &sum, &terms, span)
    }

    fn wishart(&mut self, name: &str, w: &Value, nu: &Value, s: &Value, span: Span) -> Run<Value> {
        let k = s.extent().0 as f64;
        let inverse = name == "inv_wishart_lpdf";
        let (log_w, log_s) = (self.log_determinant_spd(w, span)?, self.log_determinant_spd(s, span)?);
        let quotient = if inverse { self.divide_spd(w, s, span)? } else { self.divide_spd(s, w, span)? };
        let trace = self.apply("trace", vec![quotient], span)?;
        // −½ tr − ν k/2 ln 2 − ln Γ_k(ν/2) ∓ ν/2 ln|S| + (±ν − k − 1)/2 ln|W|.
        let half_nu = self.binary(BinaryOp::Multiply, nu, &Value::real(0.5), span)?;
        let mut sum = self.binary(BinaryOp::Multiply, &trace, &Value::real(-0.5), span)?;
        let constant = self.binary(BinaryOp::Multiply, &half_nu, &Value::real(k * LN_2), span)?;
        sum = self.binary(BinaryOp::Subtract, &sum, &constant, span)?;
        for j in 0..k as usize {
            let shifted = self.binary(BinaryOp::Subtract, &half_nu, &Value::real(0.5 * j as f64), span)?;
            let gamma = self.map_named("lgamma", &[shifted], span)?;
            sum = self.binary(BinaryOp::Subtract, &sum, &gamma, span)?;
        }
        sum = self.binary(BinaryOp::Subtract, &sum, &Value::real(0.25 * k * (k - 1.0) * PI.ln()), span)?;
        let scale = self.binary(BinaryOp::Multiply, &half_nu, &log_s, span)?;
        let signed = self.binary(BinaryOp::Multiply, &half_nu, &Value::real(if inverse { -1.0 } else { 1.0 }), span)?;
        let power = self.binary(BinaryOp::Subtract, &signed, &Value::real(0.5 * (k + 1.0)), span)?;
        let density = self.binary(BinaryOp::Multiply, &power, &log_w, span)?;
        sum = self.binary(if inverse { BinaryOp::Add } else { BinaryOp::Subtract }, &sum, &scale, span)?;
        self.binary(BinaryOp::Add, &sum, &density, span)
    }

    /// The densities of regressions: those of their linear predictor.
    fn regression(&mut self, name: &str, y: &Value, x: &Value, rest: &[Value], span: Span) -> Run<Value> {
        let predictor = |machine: &mut Self, x: &Value, alpha: &Value, beta: &Value| {
            let x = Value::matrix(x.extent().0, x.extent().1, x.flat.clone());
            let eta = machine.product(&x, beta, span)?;
            machine.binary(BinaryOp::Add, &eta, alpha, span)
        };
        let density = name.replace("_glm_", "_").replace("normal_id_", "normal_");
        match (name, rest) {
            ("bernoulli_logit_glm_lpmf" | "poisson_log_glm_lpmf", [alpha, beta]) => {
                let eta = predictor(self, x, alpha, beta)?;
                self.apply(&density, vec![y.clone(), eta], span)
            }
            ("neg_binomial_2_log_glm_lpmf" | "normal_id_glm_lpdf", [alpha, beta, scale]) => {
                let eta = predictor(self, x, alpha, beta)?;
                self.apply(&density, vec![y.clone(), eta, scale.clone()], span)
            }
            ("binomial_logit_glm_lpmf", [x2, alpha, beta]) => {
                let eta = predictor(self, x2, alpha, beta)?;
                self.apply(&density, vec![y.clone(), x.clone(), eta], span)
            }
            ("ordered_logistic_glm_lpmf", [beta, cuts]) => {
                let eta = predictor(self, x, &Value::real(0.0), beta)?;
                self.apply(&density, vec![y.clone(), eta, cuts.clone()], span)
            }
            ("categorical_logit_glm_lpmf", [alpha, beta]) => {
                let x = Value::matrix(x.extent().0, x.extent().1, x.flat.clone());
                let eta = self.product(&x, beta, span)?;
                let (rows, cols) = eta.extent();
                let mut parts = vec![];
                for i in 0..rows {
                    let row = Value::vector(eta.flat.part(i * cols, cols));
                    let row = self.binary(BinaryOp::Add, &row, alpha, span)?;
                    let category = Value {
                        base: Base::Int,
                        shape: vec![],
                        flat: y.flat.part(if y.is_scalar() { 0 } else { i }, 1),
                    };
                    parts.push(self.apply(&density, vec![category, row], span)?);
                }
                let all = Value::vector(joined(&parts));
                Ok(self.sum(&all))
            }
            _ => fail(span, format!("`{name}` is not supported")),
        }
    }
}
