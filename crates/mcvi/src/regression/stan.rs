//! The same model as a Stan program with its data, for those who want to check it elsewhere. Group effects are non-centred.

use super::Regression;
use super::family::{Auxiliary, Family, Link, Range};
use super::model::{GroupEffects, Predictor, Specification};
use super::prior::Prior;
use serde_json::{Map, Value, json};
use std::fmt::Write;

/// A Stan program and its data.
#[derive(Clone, Debug, PartialEq)]
pub struct StanProgram {
    /// The program.
    pub code: String,
    /// The data, by name.
    pub data: Value,
}

/// A number as Stan reads it: a real one.
pub(super) fn real(x: f64) -> String {
    format!("{x:?}")
}

/// The blocks of a program as they grow.
#[derive(Default)]
struct Blocks {
    declared: String,
    data: Map<String, Value>,
    parameters: String,
    /// Statements before the linear predictors are done, and those that add log densities.
    effects: String,
    priors: String,
}

impl Regression {
    /// The same model in Stan's language, in the same parameters where group effects are non-centred.
    pub fn stan(&self) -> StanProgram {
        let s = &*self.fit.specification;
        let mut blocks = Blocks::default();
        blocks.data(s);
        for (i, p) in s.predictors.iter().enumerate() {
            blocks.coefficients(p, ends(s, i));
        }
        if let Some((n, prior)) = &s.thresholds {
            let _ = writeln!(blocks.parameters, "  ordered[{n}] threshold_std;");
            blocks.prior(prior, "threshold_std", *n);
        }
        s.auxiliaries.iter().for_each(|a| blocks.auxiliary(a, s));
        for (i, p) in s.predictors.iter().enumerate() {
            blocks.groups(s, p, ends(s, i));
        }
        let mut predictors = String::new();
        for (i, p) in s.predictors.iter().enumerate() {
            predictors += &predictor(s, p, ends(s, i));
        }
        let Blocks { declared, data, parameters, effects, priors } = blocks;
        let formula = self.formula().text().replace(['\n', '\r'], " ");
        let code = format!(
            "// {formula}, {} with link {}: the model of mcvi, on its standardised scale\n\
             data {{\n{declared}}}\nparameters {{\n{parameters}}}\nmodel {{\n{predictors}{effects}{}{priors}{}}}\n",
            s.family.name(),
            s.link.name(),
            scaled(s),
            likelihood(s)
        );
        StanProgram { code, data: Value::Object(data) }
    }
}

/// What the names of a linear predictor end in.
fn ends(s: &Specification, i: usize) -> String {
    if s.predictors.len() > 1 { format!("_{}", i + 1) } else { String::new() }
}

impl Blocks {
    fn item(&mut self, kind: &str, name: &str, value: Value) {
        let _ = writeln!(self.declared, "  {kind} {name};");
        self.data.insert(name.to_owned(), value);
    }

    fn data(&mut self, s: &Specification) {
        let rows = &s.rows;
        self.item("int<lower=1>", "N", json!(rows.count));
        let k = s.columns.len();
        if k > 0 {
            self.item("int<lower=1>", "K", json!(k));
            self.item("matrix[N, K]", "X", json!(rows.x.chunks(k).collect::<Vec<_>>()));
        }
        let whole = |values: &[f64]| json!(values.iter().map(|x| *x as i64).collect::<Vec<_>>());
        match s.family {
            Family::Gaussian | Family::Student | Family::Gamma | Family::Beta => {
                self.item("vector[N]", "y", json!(rows.y))
            }
            // Stan counts categories from 1.
            Family::Cumulative | Family::Categorical => {
                let from_one: Vec<f64> = rows.y.iter().map(|y| y + 1.0).collect();
                self.item("array[N] int", "y", whole(&from_one));
            }
            _ => self.item("array[N] int", "y", whole(&rows.y)),
        }
        if let Some(trials) = &rows.trials {
            self.item("array[N] int", "trials", whole(trials));
        }
        if let Some(weights) = &rows.weights {
            self.item("vector[N]", "weights", json!(weights));
        }
        if let Some(offset) = &rows.offset {
            self.item("vector[N]", "offset_eta", json!(offset));
        }
        for (t, g) in rows.groups.iter().enumerate() {
            let levels = s.predictors[0].groups[t].groups.levels.len();
            self.item("int<lower=1>", &format!("J_{}", t + 1), json!(levels));
            let index: Vec<usize> = g.index.iter().map(|i| i + 1).collect();
            self.item("array[N] int", &format!("group_{}", t + 1), json!(index));
            for (c, values) in g.values.iter().enumerate() {
                if let Some(values) = values {
                    self.item("vector[N]", &format!("Z_{}_{}", t + 1, c + 1), json!(values));
                }
            }
        }
    }

    fn prior(&mut self, prior: &Prior, name: &str, count: usize) {
        let _ = writeln!(self.priors, "  target += {};", prior.stan(name, count));
    }

    fn priors(&mut self, priors: &[Prior], name: &str) {
        if priors.windows(2).all(|pair| pair[0] == pair[1]) {
            return self.prior(&priors[0], name, priors.len());
        }
        priors.iter().enumerate().for_each(|(j, p)| self.prior(p, &format!("{name}[{}]", j + 1), 1));
    }

    fn coefficients(&mut self, p: &Predictor, end: String) {
        if let Some(prior) = &p.intercept {
            let _ = writeln!(self.parameters, "  real intercept_std{end};");
            self.prior(prior, &format!("intercept_std{end}"), 1);
        }
        if !p.coefficients.is_empty() {
            let _ = writeln!(self.parameters, "  vector[K] beta_std{end};");
            self.priors(&p.coefficients, &format!("beta_std{end}"));
        }
    }

    fn auxiliary(&mut self, a: &Auxiliary, s: &Specification) {
        let name = if a.name == "sigma" { "sigma_std" } else { a.name };
        let range = match a.range {
            Range::Positive => "lower=0",
            Range::AboveOne => "lower=1",
            Range::Unit => "lower=0, upper=1",
        };
        let _ = writeln!(self.parameters, "  real<{range}> {name};");
        self.prior(&a.prior, name, 1);
        if a.name == "sigma" {
            let _ = writeln!(self.effects, "  real sigma = sigma_std * {};", real(s.scale.sd));
        }
    }

    fn groups(&mut self, s: &Specification, p: &Predictor, end: String) {
        for (t, g) in p.groups.iter().enumerate() {
            let (at, k) = (format!("{}{end}", t + 1), g.sds.len());
            let _ = writeln!(self.parameters, "  vector<lower=0>[{k}] sd_std_{at};");
            self.priors(&g.sds, &format!("sd_std_{at}"));
            if let Some(prior) = &g.correlation {
                let _ = writeln!(self.parameters, "  cholesky_factor_corr[{k}] L_{at};");
                self.prior(prior, &format!("L_{at}"), 1);
            }
        }
        for (t, g) in p.groups.iter().enumerate() {
            let at = format!("{}{end}", t + 1);
            for c in 1..=g.sds.len() {
                let _ = writeln!(self.parameters, "  vector[J_{}] z_{at}_{c};", t + 1);
                let _ = writeln!(self.priors, "  target += normal_lpdf(z_{at}_{c} | 0, 1);");
            }
            self.effects += &effects(g, &s.rows.groups[t].values, t + 1, (&at, &end));
        }
    }
}

/// Add the effects of a group term to a linear predictor.
fn effects(g: &GroupEffects, values: &[Option<Vec<f64>>], t: usize, (at, end): (&str, &str)) -> String {
    let mut text = String::new();
    for (c, values) in (1..).zip(values) {
        let sum = match &g.correlation {
            None => format!("z_{at}_{c}"),
            Some(_) => {
                let terms: Vec<String> = (1..=c).map(|d| format!("L_{at}[{c}, {d}] * z_{at}_{d}")).collect();
                format!("({})", terms.join(" + "))
            }
        };
        let _ = writeln!(text, "  vector[J_{t}] r_{at}_{c} = sd_std_{at}[{c}] * {sum};");
        let each = format!("r_{at}_{c}[group_{t}]");
        let each = if values.is_some() { format!("{each} .* Z_{t}_{c}") } else { each };
        let _ = writeln!(text, "  eta{end} += {each};");
    }
    text
}

/// A linear predictor before its group effects.
fn predictor(s: &Specification, p: &Predictor, end: String) -> String {
    let mut terms = vec!["rep_vector(0, N)".to_owned()];
    if p.intercept.is_some() {
        terms.push(format!("intercept_std{end}"));
    }
    if !s.columns.is_empty() {
        terms.push(format!("X * beta_std{end}"));
    }
    format!("  vector[N] eta{end} = {};\n", terms.join(" + "))
}

/// Linear predictors in units of the response, and offsets.
fn scaled(s: &Specification) -> String {
    let mut text = String::new();
    for end in (0..s.predictors.len()).map(|i| ends(s, i)) {
        if !s.scale.is_unit() {
            let _ = writeln!(text, "  eta{end} = eta{end} * {} + {};", real(s.scale.sd), real(s.scale.mean));
        }
        if s.rows.offset.is_some() {
            let _ = writeln!(text, "  eta{end} += offset_eta;");
        }
    }
    text
}

/// The statement that adds the log likelihood: of all rows at once, or row by row.
fn likelihood(s: &Specification) -> String {
    let one_by_one = s.rows.weights.is_some() || matches!(s.family, Family::Categorical | Family::ZeroInflatedPoisson);
    let n = if one_by_one { "[n]" } else { "" };
    let probability = |eta: &str| match s.link {
        Link::Probit => format!("Phi({eta})"),
        Link::Cloglog => format!("inv_cloglog({eta})"),
        _ => format!("inv_logit({eta})"),
    };
    let eta = format!("eta{n}");
    let logit = s.link == Link::Logit;
    let term = match s.family {
        Family::Gaussian => format!("normal_lpdf(y{n} | {eta}, sigma)"),
        Family::Student => format!("student_t_lpdf(y{n} | nu, {eta}, sigma)"),
        Family::Bernoulli if logit => format!("bernoulli_logit_lpmf(y{n} | {eta})"),
        Family::Bernoulli => format!("bernoulli_lpmf(y{n} | {})", probability(&eta)),
        Family::Binomial if logit => format!("binomial_logit_lpmf(y{n} | trials{n}, {eta})"),
        Family::Binomial => format!("binomial_lpmf(y{n} | trials{n}, {})", probability(&eta)),
        Family::Poisson => format!("poisson_log_lpmf(y{n} | {eta})"),
        Family::Negbinomial => format!("neg_binomial_2_log_lpmf(y{n} | {eta}, shape)"),
        Family::Gamma => format!("gamma_lpdf(y{n} | shape, shape * exp(-{eta}))"),
        Family::Beta => {
            let p = probability(&eta);
            format!("beta_lpdf(y{n} | {p} * phi, (1 - {p}) * phi)")
        }
        Family::Cumulative => format!("ordered_logistic_lpmf(y{n} | {eta}, threshold_std)"),
        Family::Categorical => {
            let all: Vec<String> = (0..s.predictors.len()).map(|i| format!("eta{}[n]", ends(s, i))).collect();
            format!("categorical_logit_lpmf(y[n] | [0, {}]')", all.join(", "))
        }
        Family::ZeroInflatedPoisson => "(y[n] == 0 ? log_sum_exp(log(zi), log1m(zi) - exp(eta[n])) : log1m(zi) + \
                                        poisson_log_lpmf(y[n] | eta[n]))"
            .to_owned(),
    };
    let weight = if s.rows.weights.is_some() { "weights[n] * " } else { "" };
    if one_by_one {
        format!("  for (n in 1:N) {{\n    target += {weight}{term};\n  }}\n")
    } else {
        format!("  target += {term};\n")
    }
}
