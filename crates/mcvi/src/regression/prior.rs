//! Priors as users write them, `x ~ normal(0, 1)`, and what they are on another scale.

use super::mistake;
use super::names::nearest;
use crate::error::Result;
use crate::model::{self, Builder, Distribution, Event, Value};
use std::fmt;

/// A distribution with numbers for its parameters.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Prior {
    kind: Kind,
    numbers: Vec<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Normal,
    StudentT,
    Cauchy,
    Laplace,
    Uniform,
    HalfNormal,
    HalfStudentT,
    HalfCauchy,
    Exponential,
    Gamma,
    InverseGamma,
    LogNormal,
    Beta,
    Lkj,
}

/// Every kind with its name, other names for it, and what it takes.
const KINDS: [(Kind, &[&str], &[&str]); 14] = [
    (Kind::Normal, &["normal"], &["mean", "sd"]),
    (Kind::StudentT, &["student_t"], &["df", "location", "scale"]),
    (Kind::Cauchy, &["cauchy"], &["location", "scale"]),
    (Kind::Laplace, &["laplace", "double_exponential"], &["location", "scale"]),
    (Kind::Uniform, &["uniform"], &["low", "high"]),
    (Kind::HalfNormal, &["half_normal"], &["scale"]),
    (Kind::HalfStudentT, &["half_student_t"], &["df", "scale"]),
    (Kind::HalfCauchy, &["half_cauchy"], &["scale"]),
    (Kind::Exponential, &["exponential"], &["rate"]),
    (Kind::Gamma, &["gamma"], &["shape", "rate"]),
    (Kind::InverseGamma, &["inverse_gamma", "inv_gamma"], &["shape", "scale"]),
    (Kind::LogNormal, &["log_normal", "lognormal"], &["mean", "sd"]),
    (Kind::Beta, &["beta"], &["a", "b"]),
    (Kind::Lkj, &["lkj", "lkj_corr_cholesky"], &["eta"]),
];

/// A prior for some parameters, as written.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Request {
    /// The parameter, or the class of parameters.
    pub target: String,
    pub prior: Prior,
    /// As it was written.
    pub text: String,
}

impl Request {
    /// From text such as `x ~ normal(0, 1)`.
    pub fn parse(text: &str) -> Result<Self> {
        let bad = |what: String| mistake(format!("in the prior `{text}`: {what}"));
        let Some((target, rest)) = text.split_once('~') else {
            return Err(bad("write it as in x ~ normal(0, 1)".to_owned()));
        };
        let prior = Prior::parse(rest.trim()).map_err(bad)?;
        let target = target.trim().trim_matches('`').to_owned();
        if target.is_empty() {
            return Err(bad("name a parameter before `~`, as in x ~ normal(0, 1)".to_owned()));
        }
        Ok(Request { target, prior, text: text.trim().to_owned() })
    }
}

impl Prior {
    pub fn normal(mean: f64, sd: f64) -> Self {
        Prior { kind: Kind::Normal, numbers: vec![mean, sd] }
    }
    pub fn half_normal(scale: f64) -> Self {
        Prior { kind: Kind::HalfNormal, numbers: vec![scale] }
    }
    pub fn half_student_t(df: f64, scale: f64) -> Self {
        Prior { kind: Kind::HalfStudentT, numbers: vec![df, scale] }
    }
    pub fn exponential(rate: f64) -> Self {
        Prior { kind: Kind::Exponential, numbers: vec![rate] }
    }
    pub fn gamma(shape: f64, rate: f64) -> Self {
        Prior { kind: Kind::Gamma, numbers: vec![shape, rate] }
    }
    pub fn inverse_gamma(shape: f64, scale: f64) -> Self {
        Prior { kind: Kind::InverseGamma, numbers: vec![shape, scale] }
    }
    pub fn beta(a: f64, b: f64) -> Self {
        Prior { kind: Kind::Beta, numbers: vec![a, b] }
    }
    pub fn lkj(eta: f64) -> Self {
        Prior { kind: Kind::Lkj, numbers: vec![eta] }
    }

    /// From text such as `normal(0, 1)`.
    fn parse(text: &str) -> Result<Self, String> {
        let shape = || "write a distribution with numbers, as in normal(0, 1)".to_owned();
        let (name, rest) = text.split_once('(').ok_or_else(shape)?;
        let inner = rest.trim_end().strip_suffix(')').ok_or_else(shape)?;
        let name = name.trim();
        let Some((kind, _, takes)) = KINDS.iter().find(|(_, names, _)| names.contains(&name)) else {
            let known = || KINDS.iter().map(|(_, names, _)| names[0]);
            let hint = nearest(name, known()).map_or_else(String::new, |n| format!("did you mean `{n}`? "));
            let all = known().collect::<Vec<_>>().join(", ");
            return Err(format!("there is no distribution `{name}`; {hint}there are {all}"));
        };
        let numbers: Option<Vec<f64>> =
            inner.split(',').map(|x| x.trim().replace('−', "-").parse().ok().filter(|x: &f64| x.is_finite())).collect();
        let numbers = numbers.filter(|n| n.len() == takes.len()).ok_or_else(|| {
            format!(
                "`{name}` takes {} as numbers: {name}({})",
                super::counted(takes.len(), "parameter"),
                takes.join(", ")
            )
        })?;
        let prior = Prior { kind: *kind, numbers };
        if prior.is_proper() {
            Ok(prior)
        } else {
            Err(format!("{prior} is no distribution: a scale, shape or rate must be positive"))
        }
    }

    fn is_proper(&self) -> bool {
        let n = &self.numbers;
        match self.kind {
            Kind::Normal | Kind::Cauchy | Kind::Laplace | Kind::LogNormal => n[1] > 0.0,
            Kind::StudentT => n[0] > 0.0 && n[2] > 0.0,
            Kind::Uniform => n[0] < n[1],
            _ => n.iter().all(|x| *x > 0.0),
        }
    }

    /// Whether it gives a density to numbers of either sign.
    pub fn is_real(&self) -> bool {
        matches!(self.kind, Kind::Normal | Kind::StudentT | Kind::Cauchy | Kind::Laplace)
    }

    /// Whether it is one of correlation matrices.
    pub fn is_lkj(&self) -> bool {
        self.kind == Kind::Lkj
    }

    /// The same of a positive number: what is symmetric about 0 becomes its upper half. None if it has no density there, or
    /// ends.
    pub fn positive(&self) -> Option<Self> {
        let half = |kind, numbers: &[f64]| Some(Prior { kind, numbers: numbers.to_vec() });
        match (self.kind, self.numbers.as_slice()) {
            (Kind::Normal, [mean, sd]) if *mean == 0.0 => half(Kind::HalfNormal, &[*sd]),
            (Kind::Cauchy, [location, scale]) if *location == 0.0 => half(Kind::HalfCauchy, &[*scale]),
            (Kind::StudentT, [df, location, scale]) if *location == 0.0 => half(Kind::HalfStudentT, &[*df, *scale]),
            (Kind::Uniform | Kind::Beta | Kind::Lkj, _) => None,
            _ => Some(self.clone()),
        }
    }

    /// The prior of (x − `shift`)/`unit`, where this one is that of x. The shift is 0 unless it is a prior of all real
    /// numbers.
    pub fn standardised(&self, shift: f64, unit: f64) -> Self {
        let n = &self.numbers;
        let numbers = match self.kind {
            Kind::Normal | Kind::Cauchy | Kind::Laplace | Kind::Uniform => vec![
                (n[0] - shift) / unit,
                match self.kind {
                    Kind::Uniform => (n[1] - shift) / unit,
                    _ => n[1] / unit,
                },
            ],
            Kind::StudentT => vec![n[0], (n[1] - shift) / unit, n[2] / unit],
            Kind::HalfNormal | Kind::HalfCauchy => vec![n[0] / unit],
            Kind::HalfStudentT | Kind::InverseGamma => vec![n[0], n[1] / unit],
            Kind::Exponential => vec![n[0] * unit],
            Kind::Gamma => vec![n[0], n[1] * unit],
            Kind::LogNormal => vec![n[0] - unit.ln(), n[1]],
            Kind::Beta | Kind::Lkj => n.clone(),
        };
        Prior { kind: self.kind, numbers }
    }

    /// Of a number, or of a correlation factor.
    pub fn distribution<'g>(&self) -> Distribution<'g> {
        let values: Vec<Value<'g>> = self.numbers.iter().map(|x| Value::Number(*x)).collect();
        self.of(&values)
    }

    fn of<'g>(&self, n: &[Value<'g>]) -> Distribution<'g> {
        match self.kind {
            Kind::Normal => model::normal(n[0], n[1]),
            Kind::StudentT => model::student_t(n[0], n[1], n[2]),
            Kind::Cauchy => model::cauchy(n[0], n[1]),
            Kind::Laplace => model::laplace(n[0], n[1]),
            Kind::Uniform => model::uniform(n[0], n[1]),
            Kind::HalfNormal => model::half_normal(n[0]),
            Kind::HalfStudentT => model::half_student_t(n[0], n[1]),
            Kind::HalfCauchy => model::half_cauchy(n[0]),
            Kind::Exponential => model::exponential(n[0]),
            Kind::Gamma => model::gamma(n[0], n[1]),
            Kind::InverseGamma => model::inverse_gamma(n[0], n[1]),
            Kind::LogNormal => model::log_normal(n[0], n[1]),
            Kind::Beta => model::beta(n[0], n[1]),
            Kind::Lkj => model::lkj_cholesky(n[0]),
        }
    }

    /// Of a vector, each element with its own.
    pub fn of_vector<'g>(m: &Builder<'g>, priors: &[Prior]) -> Distribution<'g> {
        let first = &priors[0];
        if priors.iter().all(|p| p == first) {
            return first.distribution();
        }
        if priors.iter().all(|p| p.kind == first.kind) {
            let parameter = |i: usize| -> Value<'g> {
                let numbers: Vec<f64> = priors.iter().map(|p| p.numbers[i]).collect();
                m.data(&numbers).into()
            };
            return first.of(&(0..first.numbers.len()).map(parameter).collect::<Vec<_>>());
        }
        let each: Vec<Distribution<'g>> = priors.iter().map(Prior::distribution).collect();
        let number: Vec<f64> = (0..priors.len()).map(|i| i as f64).collect();
        let drawn = each.clone();
        Distribution::new("each its own", [m.data(&number).into()], move |x, [_]| {
            let part = |(i, d): (usize, &Distribution<'g>)| d.log_density(x.slice(1, i..i + 1));
            let parts: Vec<_> = each.iter().enumerate().map(part).collect();
            x.graph().concat(&parts, 1)
        })
        .with_sampler(move |[i], rng| {
            let d = drawn.get(i as usize)?;
            let numbers: Vec<[f64; 1]> = d
                .parameters()
                .iter()
                .filter_map(|p| match p {
                    Value::Number(x) => Some([*x]),
                    _ => None,
                })
                .collect();
            let parameters: Vec<&[f64]> = numbers.iter().map(|x| &x[..]).collect();
            d.sample(&Event::new(&parameters, &[0.0]), rng)?.first().copied()
        })
    }

    /// As a term of a Stan program that adds its log density at `x`, of `count` numbers.
    pub fn stan(&self, x: &str, count: usize) -> String {
        let n: Vec<String> = self.numbers.iter().map(|x| super::stan::real(*x)).collect();
        let half =
            |name: &str, first: &str, scale: &str| format!("{name}_lpdf({x} | {first}0, {scale}) + {count} * log(2.0)");
        match self.kind {
            Kind::HalfNormal => half("normal", "", &n[0]),
            Kind::HalfCauchy => half("cauchy", "", &n[0]),
            Kind::HalfStudentT => half("student_t", &format!("{}, ", n[0]), &n[1]),
            kind => {
                let name = match kind {
                    Kind::Laplace => "double_exponential",
                    Kind::InverseGamma => "inv_gamma",
                    Kind::LogNormal => "lognormal",
                    Kind::Lkj => "lkj_corr_cholesky",
                    _ => self.name(),
                };
                format!("{name}_lpdf({x} | {})", n.join(", "))
            }
        }
    }

    fn name(&self) -> &'static str {
        KINDS.iter().find(|(kind, ..)| *kind == self.kind).map_or("", |(_, names, _)| names[0])
    }
}

impl fmt::Display for Prior {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers: Vec<String> = self.numbers.iter().map(|x| short(*x)).collect();
        write!(f, "{}({})", self.name(), numbers.join(", "))
    }
}

/// A number with four digits.
fn short(x: f64) -> String {
    if x == 0.0 || (1e-3..1e6).contains(&x.abs()) {
        let digits = 3 - x.abs().max(1e-3).log10().floor() as i32;
        let text = format!("{x:.*}", digits.clamp(0, 7) as usize);
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
    } else {
        format!("{x:.3e}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priors_are_read_as_they_are_shown() {
        for text in ["normal(0, 2.5)", "student_t(3, -1, 2)", "exponential(0.01)", "lkj(2)", "gamma(2, 0.1)"] {
            assert_eq!(Prior::parse(text).expect(text).to_string(), text);
        }
        assert_eq!(Prior::parse("inv_gamma(1, 2)").expect("a prior").to_string(), "inverse_gamma(1, 2)");
        let says = |text: &str| Request::parse(text).expect_err(text).to_string();
        assert!(says("x normal(0, 1)").contains("x ~ normal(0, 1)"));
        assert!(says("x ~ norml(0, 1)").contains("did you mean `normal`?"));
        assert!(
            says("x ~ normal(0)").contains("takes 2 parameters as numbers: normal(mean, sd)"),
            "{}",
            says("x ~ normal(0)")
        );
        assert!(says("x ~ normal(0, -1)").contains("must be positive"));
        assert!(says(" ~ normal(0, 1)").contains("name a parameter"));
        assert!(says("x ~ normal(0, 1").contains("write a distribution"));
    }

    #[test]
    fn halves_belong_to_positive_numbers() {
        assert_eq!(Prior::normal(0.0, 2.0).positive(), Some(Prior::half_normal(2.0)));
        assert_eq!(Prior::normal(1.0, 2.0).positive(), Some(Prior::normal(1.0, 2.0)));
        assert_eq!(Prior::beta(1.0, 2.0).positive(), None);
        assert_eq!(Prior::exponential(2.0).standardised(0.0, 3.0), Prior::exponential(6.0));
        assert_eq!(Prior::normal(1.0, 2.0).standardised(3.0, 4.0), Prior::normal(-0.5, 0.5));
    }
}
