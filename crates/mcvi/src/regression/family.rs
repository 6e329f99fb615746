//! Families: what a response may be, and how it is distributed given the linear predictor.

use super::prior::Prior;
use crate::error::Result;
use crate::model::{
    Builder, Distribution, bernoulli_logit, beta, binomial_logit, categorical_logit, gamma, negative_binomial_log,
    normal, ordered_logistic, poisson_log, student_t, zero_inflated_poisson_log,
};
use mcvi_expr::Expr;
use serde::{Deserialize, Serialize};
use std::f64::consts::FRAC_1_SQRT_2;

/// How the response is distributed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Family {
    /// Numbers with normal errors.
    #[default]
    Gaussian,
    /// Numbers with errors of Student's t distribution, whose degrees of freedom are learned.
    Student,
    /// Zero or one.
    Bernoulli,
    /// Successes among trials.
    Binomial,
    /// Counts.
    Poisson,
    /// Counts that vary more than Poisson's.
    Negbinomial,
    /// Positive numbers with a constant coefficient of variation.
    Gamma,
    /// Numbers between zero and one.
    Beta,
    /// Categories in an order.
    Cumulative,
    /// Categories without an order.
    Categorical,
    /// Counts, some of which are zero for another reason.
    ZeroInflatedPoisson,
}

/// What a linear predictor is a function of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Link {
    /// The mean.
    Identity,
    /// The logarithm of the mean.
    Log,
    /// The log odds.
    Logit,
    /// The quantile of the standard normal distribution.
    Probit,
    /// ln(−ln(1 − p)): a hazard in discrete time.
    Cloglog,
}

/// A parameter of a family beside the linear predictor.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Auxiliary {
    pub name: &'static str,
    pub range: Range,
    pub prior: Prior,
}

/// Where it may lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Range {
    Positive,
    AboveOne,
    Unit,
}

/// What an observation is like, given the parameters: `[rows, n]`, of categories `[rows, n, k]`.
#[derive(Clone)]
pub(super) struct Given<'g> {
    /// The linear predictors: one, or one for each category but the first.
    pub predictors: Vec<Expr<'g>>,
    /// Parameters of the family, in the order of [`Family::auxiliaries`].
    pub auxiliaries: Vec<Expr<'g>>,
    /// Of ordered categories, where they meet.
    pub thresholds: Option<Expr<'g>>,
    pub trials: Option<Expr<'g>>,
}

impl Family {
    /// All of them, each with what it is for.
    pub const ALL: [(Family, &'static str); 11] = [
        (Family::Gaussian, "numbers with normal errors"),
        (Family::Student, "numbers with heavy-tailed errors"),
        (Family::Bernoulli, "zero or one, or two categories"),
        (Family::Binomial, "successes among trials: successes | trials(n) ~"),
        (Family::Poisson, "counts"),
        (Family::Negbinomial, "counts that vary more than Poisson's"),
        (Family::Gamma, "positive numbers"),
        (Family::Beta, "numbers between zero and one"),
        (Family::Cumulative, "categories in an order"),
        (Family::Categorical, "categories without an order"),
        (Family::ZeroInflatedPoisson, "counts with more zeros than Poisson's"),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Family::Gaussian => "gaussian",
            Family::Student => "student",
            Family::Bernoulli => "bernoulli",
            Family::Binomial => "binomial",
            Family::Poisson => "poisson",
            Family::Negbinomial => "negbinomial",
            Family::Gamma => "gamma",
            Family::Beta => "beta",
            Family::Cumulative => "cumulative",
            Family::Categorical => "categorical",
            Family::ZeroInflatedPoisson => "zero-inflated-poisson",
        }
    }

    /// The family of this name, or of another name that is in use for it.
    pub fn named(name: &str) -> Result<Self> {
        let plain = name.trim().to_lowercase().replace(['_', ' '], "-");
        let same = match plain.as_str() {
            "normal" | "linear" => "gaussian",
            "t" | "student-t" => "student",
            "logistic" | "logit" => "bernoulli",
            "negative-binomial" | "nb" | "neg-binomial-2" => "negbinomial",
            "ordinal" | "ordered" | "ordered-logistic" => "cumulative",
            "multinomial" => "categorical",
            "zip" => "zero-inflated-poisson",
            other => other,
        };
        let names = || Family::ALL.iter().map(|(f, _)| f.name());
        if let Some((family, _)) = Family::ALL.iter().find(|(f, _)| f.name() == same) {
            return Ok(*family);
        }
        let hint = super::nearest(same, names()).map_or_else(String::new, |near| format!("did you mean {near}? "));
        let all = names().collect::<Vec<_>>().join(", ");
        Err(super::mistake(format!("there is no family `{name}`; {hint}choose one of {all}")))
    }

    /// Its links, the usual one first.
    pub fn links(self) -> &'static [Link] {
        match self {
            Family::Gaussian | Family::Student => &[Link::Identity],
            Family::Bernoulli | Family::Binomial | Family::Beta => &[Link::Logit, Link::Probit, Link::Cloglog],
            Family::Cumulative | Family::Categorical => &[Link::Logit],
            Family::Poisson | Family::Negbinomial | Family::Gamma | Family::ZeroInflatedPoisson => &[Link::Log],
        }
    }

    /// Whether the response is a category.
    pub(super) fn is_categorical(self) -> bool {
        matches!(self, Family::Cumulative | Family::Categorical)
    }

    /// Whether predictors are on the scale of the response, so that it is standardised.
    pub(super) fn is_scaled(self) -> bool {
        matches!(self, Family::Gaussian | Family::Student)
    }

    /// Its parameters beside the linear predictor, with their default priors. `sigma` is on the scale of the standardised
    /// response.
    pub(super) fn auxiliaries(self) -> Vec<Auxiliary> {
        let parameter = |name, range, prior| Auxiliary { name, range, prior };
        let sigma = || parameter("sigma", Range::Positive, Prior::half_normal(1.0));
        let shape = |prior| parameter("shape", Range::Positive, prior);
        match self {
            Family::Gaussian => vec![sigma()],
            Family::Student => vec![sigma(), parameter("nu", Range::AboveOne, Prior::gamma(2.0, 0.1))],
            Family::Negbinomial => vec![shape(Prior::inverse_gamma(0.4, 0.3))],
            Family::Gamma => vec![shape(Prior::exponential(0.01))],
            Family::Beta => vec![parameter("phi", Range::Positive, Prior::exponential(0.01))],
            Family::ZeroInflatedPoisson => vec![parameter("zi", Range::Unit, Prior::beta(1.0, 1.0))],
            _ => vec![],
        }
    }

    /// The distribution of the responses.
    pub(super) fn distribution<'g>(self, link: Link, given: &Given<'g>) -> Distribution<'g> {
        let (eta, auxiliary) = (given.predictors[0], |i: usize| given.auxiliaries[i]);
        match self {
            Family::Gaussian => normal(eta, auxiliary(0)),
            Family::Student => student_t(auxiliary(1), eta, auxiliary(0)),
            Family::Bernoulli => bernoulli_logit(link.logit(eta)),
            Family::Binomial => {
                let one = || eta.graph().scalar(eta.dtype(), 1.0);
                binomial_logit(given.trials.unwrap_or_else(one), link.logit(eta))
            }
            Family::Poisson => poisson_log(eta),
            Family::Negbinomial => negative_binomial_log(eta, auxiliary(0)),
            Family::Gamma => gamma(auxiliary(0), auxiliary(0) * (-eta).exp()),
            Family::Beta => {
                let logit = link.logit(eta);
                beta(logit.sigmoid() * auxiliary(0), (-logit).sigmoid() * auxiliary(0))
            }
            Family::Cumulative => ordered_logistic(eta, given.thresholds.unwrap_or(eta).expand(1)),
            Family::Categorical => categorical_logit(given.logits()),
            Family::ZeroInflatedPoisson => zero_inflated_poisson_log(eta, auxiliary(0)),
        }
    }

    /// The expected response; of categories the probability of each.
    pub(super) fn mean<'g>(self, link: Link, given: &Given<'g>) -> Expr<'g> {
        let eta = given.predictors[0];
        match self {
            Family::Gaussian | Family::Student => eta,
            Family::Bernoulli | Family::Beta => link.logit(eta).sigmoid(),
            Family::Binomial => {
                let p = link.logit(eta).sigmoid();
                given.trials.map_or(p, |n| p * n)
            }
            Family::Poisson | Family::Negbinomial | Family::Gamma => eta.exp(),
            Family::ZeroInflatedPoisson => eta.exp() * (1.0 - given.auxiliaries[0]),
            Family::Cumulative => {
                let below = (given.thresholds.unwrap_or(eta).expand(1) - eta.expand(2)).sigmoid();
                let k = below.shape().dims().last().copied().unwrap_or(1);
                let ends = below.slice(2, 0..1) * 0.0;
                let whole = eta.graph().concat(&[ends, below, ends + 1.0], 2);
                whole.slice(2, 1..k + 2) - whole.slice(2, 0..k + 1)
            }
            Family::Categorical => {
                let logits = given.logits();
                (logits - logits.logsumexp(&[2]).expand(2)).exp()
            }
        }
    }
}

impl<'g> Given<'g> {
    /// `[rows, n, k]`, 0 for the first category.
    fn logits(&self) -> Expr<'g> {
        let others: Vec<Expr<'g>> = self.predictors.iter().map(|e| e.expand(2)).collect();
        let first = others[0] * 0.0;
        first.graph().concat(&[&[first], others.as_slice()].concat(), 2)
    }
}

impl Link {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Link::Identity => "identity",
            Link::Log => "log",
            Link::Logit => "logit",
            Link::Probit => "probit",
            Link::Cloglog => "cloglog",
        }
    }

    /// The link of this name, if the family has it.
    pub fn named(name: &str, family: Family) -> Result<Self> {
        let known = family.links().iter().map(|l| l.name()).collect::<Vec<_>>().join(", ");
        family.links().iter().find(|l| l.name() == name).copied().ok_or_else(|| {
            super::mistake(format!("the family {} has no link `{name}`; choose one of {known}", family.name()))
        })
    }

    /// The log odds of the probability that belongs to a linear predictor.
    fn logit(self, eta: Expr<'_>) -> Expr<'_> {
        match self {
            // ln Φ(η) − ln Φ(−η)
            Link::Probit => (eta * -FRAC_1_SQRT_2).log_erfc() - (eta * FRAC_1_SQRT_2).log_erfc(),
            // p = 1 − exp(−t), so that the odds are exp(t) − 1.
            Link::Cloglog => {
                let t = eta.exp();
                t + (-(-t).expm1()).ln()
            }
            _ => eta,
        }
    }
}

impl Auxiliary {
    /// A usual value, to begin with.
    pub fn usual(&self) -> f64 {
        match self.name {
            "nu" | "phi" => 10.0,
            "zi" => 0.1,
            "shape" => 2.0,
            _ => 1.0,
        }
    }
}

impl Range {
    /// A value whose distance from the bound, or whose odds, are multiplied.
    pub fn scaled(self, value: f64, factor: f64) -> f64 {
        match self {
            Range::Positive => value * factor,
            Range::AboveOne => 1.0 + (value - 1.0) * factor,
            Range::Unit => value * factor / (1.0 - value + value * factor),
        }
    }

    /// Declare a parameter of this range.
    pub fn declare<'g>(self, m: &Builder<'g>, name: &str, prior: Distribution<'g>) -> Expr<'g> {
        match self {
            Range::Positive => m.positive(name, prior),
            Range::AboveOne => m.lower(name, 1.0, prior),
            Range::Unit => m.interval(name, 0.0, 1.0, prior),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mcvi_expr::{Array, Graph};

    fn logits(link: Link, eta: &[f64]) -> Vec<f64> {
        let g = Graph::new();
        let e = g.literal(Array::new(eta.len(), eta.to_vec()).expect("an array"));
        let mut program = g.program().output("y", link.logit(e)).compile().expect("compiled");
        program.run(1).expect("run");
        program.output("y").expect("an output").to_f64()
    }

    #[test]
    fn links_keep_their_digits() {
        // ln(Φ/(1 − Φ)) by a table of Φ: Φ(1) = 0.841344746068543, Φ(−8) = 6.22096057427178e-16.
        let probit = logits(Link::Probit, &[0.0, 1.0, -8.0, 40.0]);
        let exact = [0.0, (0.841_344_746_068_543_f64 / 0.158_655_253_931_457).ln(), 6.220_960_574_271_78e-16_f64.ln()];
        assert!(probit.iter().zip(exact).all(|(a, b)| (a - b).abs() < 1e-9), "{probit:?}");
        assert!(probit[3].is_finite() && probit[3] > 800.0);
        let odds = |eta: f64| (-(-eta.exp()).exp_m1()).ln() + eta.exp();
        let cloglog = logits(Link::Cloglog, &[-30.0, 0.0, 3.0]);
        assert!((cloglog[0] + 30.0).abs() < 1e-9 && (cloglog[2] - odds(3.0)).abs() < 1e-12, "{cloglog:?}");
    }

    #[test]
    fn names_are_found_with_their_synonyms() {
        assert_eq!(Family::named("negative_binomial").expect("a family"), Family::Negbinomial);
        assert_eq!(Family::named("zip").expect("a family"), Family::ZeroInflatedPoisson);
        let said = Family::named("poison").expect_err("refused").to_string();
        assert!(said.contains("did you mean poisson?") && said.contains("cumulative"), "{said}");
        assert!(Link::named("probit", Family::Poisson).is_err());
    }
}
