//! Draws: the functions whose names end in `_rng`.

use super::expression::{joined, transposed};
use super::{Machine, Run, fail};
use crate::math::Number;
use crate::source::Span;
use crate::syntax::ast::{Base, BinaryOp};
use crate::trace::Flat;
use crate::value::Value;
use rand::{Rng, RngExt};
use rand_distr::{Beta, Binomial, Cauchy, Distribution, Exp1, Gamma, Poisson, StandardNormal, StudentT};

/// Families of single numbers that can be drawn from.
const FAMILIES: &[&str] = &[
    "bernoulli",
    "bernoulli_logit",
    "beta",
    "beta_binomial",
    "beta_neg_binomial",
    "beta_proportion",
    "binomial",
    "binomial_logit",
    "cauchy",
    "chi_square",
    "discrete_range",
    "double_exponential",
    "exp_mod_normal",
    "exponential",
    "frechet",
    "gamma",
    "gumbel",
    "inv_chi_square",
    "inv_gamma",
    "logistic",
    "loglogistic",
    "lognormal",
    "neg_binomial",
    "neg_binomial_2",
    "neg_binomial_2_log",
    "normal",
    "pareto",
    "pareto_type_2",
    "poisson",
    "poisson_log",
    "rayleigh",
    "scaled_inv_chi_square",
    "skew_double_exponential",
    "skew_normal",
    "std_normal",
    "student_t",
    "uniform",
    "von_mises",
    "weibull",
    "yule_simon",
];

impl Machine<'_> {
    /// A draw from a family, or one for each element of its arguments.
    pub fn draw(&mut self, family: &str, arguments: &[Value], span: Span) -> Run<Value> {
        if !self.may_draw || arguments.iter().any(|a| a.numbers().is_none()) {
            return fail(span, "draws cannot depend on parameters here");
        }
        if let Some(value) = self.draw_vector(family, arguments, span)? {
            return Ok(value);
        }
        if !FAMILIES.contains(&family) {
            return fail(span, format!("`{family}_rng` is not supported"));
        }
        let shaped = arguments.iter().filter(|a| !a.is_scalar());
        let count = shaped.clone().map(Value::len).max();
        if shaped.clone().any(|a| Some(a.len()) != count) {
            return fail(span, "the arguments have different sizes");
        }
        let mut numbers = vec![];
        for i in 0..count.unwrap_or(1) {
            let at = |a: &Value| a.numbers().map_or(f64::NAN, |n| n[if a.is_scalar() { 0 } else { i }]);
            let x: Vec<f64> = arguments.iter().map(at).collect();
            match one(family, &x, &mut self.rng) {
                Some(draw) => numbers.push(draw),
                None => return fail(span, format!("`{family}_rng` cannot draw with the arguments {x:?}")),
            }
        }
        let base = if is_discrete(family) { Base::Int } else { Base::Real };
        Ok(match count {
            None => Value { base, shape: vec![], flat: Flat::Number(numbers[0]) },
            Some(n) => Value { base, shape: vec![n], flat: Flat::from_numbers(numbers) },
        })
    }

    /// Families of vectors; none if the family is of numbers.
    fn draw_vector(&mut self, family: &str, arguments: &[Value], span: Span) -> Run<Option<Value>> {
        let list = |i: usize| arguments.get(i).and_then(Value::numbers).map(<[f64]>::to_vec).unwrap_or_default();
        let pick = |weights: &[f64], rng: &mut dyn FnMut() -> f64| {
            let mut rest = rng() * weights.iter().sum::<f64>();
            let found = weights.iter().position(|w| {
                rest -= w;
                rest < 0.0
            });
            found.unwrap_or(weights.len().saturating_sub(1))
        };
        let int = |n: usize| Value::int(n as i64);
        Ok(Some(match family {
            "categorical" | "categorical_logit" => {
                let mut weights = list(0);
                if family == "categorical_logit" {
                    let high = weights.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                    weights.iter_mut().for_each(|w| *w = (*w - high).exp());
                }
                let rng = &mut self.rng;
                int(1 + pick(&weights, &mut || rng.random()))
            }
            "ordered_logistic" | "ordered_probit" => {
                let (eta, cuts) = (list(0)[0], list(1));
                let latent = match family {
                    "ordered_probit" => eta + self.rng.sample::<f64, _>(StandardNormal),
                    _ => {
                        let u: f64 = self.rng.random();
                        eta + u.ln() - (-u).ln_1p()
                    }
                };
                int(1 + cuts.iter().filter(|c| **c < latent).count())
            }
            "multinomial" => {
                let (weights, trials) = (list(0), list(1)[0] as usize);
                let mut counts = vec![0.0; weights.len()];
                let rng = &mut self.rng;
                for _ in 0..trials {
                    counts[pick(&weights, &mut || rng.random())] += 1.0;
                }
                Value { base: Base::Int, shape: vec![counts.len()], flat: Flat::from_numbers(counts) }
            }
            "dirichlet" => {
                let mut shares = vec![];
                for a in list(0) {
                    match one("gamma", &[a, 1.0], &mut self.rng) {
                        Some(draw) => shares.push(draw),
                        None => return fail(span, format!("`dirichlet_rng` cannot draw with {a}")),
                    }
                }
                let sum: f64 = shares.iter().sum();
                Value::vector(Flat::from_numbers(shares.iter().map(|s| s / sum).collect()))
            }
            "lkj_corr_cholesky" | "lkj_corr" => {
                let factor = self.lkj_factor(list(0)[0] as usize, list(1)[0], span)?;
                if family == "lkj_corr" { self.product(&factor, &transposed(&factor), span)? } else { factor }
            }
            "wishart" | "inv_wishart" => {
                let scale = match family {
                    "inv_wishart" => self.inverse(&arguments[1], span)?,
                    _ => arguments[1].clone(),
                };
                let factor = self.cholesky(&scale, span)?;
                let bartlett = self.bartlett(factor.extent().0, list(0)[0], span)?;
                let root = self.product(&factor, &bartlett, span)?;
                let drawn = self.product(&root, &transposed(&root), span)?;
                if family == "inv_wishart" { self.inverse(&drawn, span)? } else { drawn }
            }
            "multi_student_t" => {
                let nu = list(0)[0];
                let zero = vec![0.0; arguments[2].extent().0];
                let mean = Value::vector(Flat::from_numbers(zero));
                let normal = self.draw("multi_normal", &[mean, arguments[2].clone()], span)?;
                let Some(scale) = one("chi_square", &[nu], &mut self.rng) else {
                    return fail(span, format!("`multi_student_t_rng` cannot draw with {nu} degrees of freedom"));
                };
                let shift = self.binary(BinaryOp::Multiply, &normal, &Value::real((nu / scale).sqrt()), span)?;
                self.binary(BinaryOp::Add, &shift, &Value::vector(arguments[1].flat.clone()), span)?
            }
            "multi_normal" | "multi_normal_cholesky" => {
                let factor = match family {
                    "multi_normal" => self.cholesky(&arguments[1], span)?,
                    _ => arguments[1].clone(),
                };
                let n = factor.extent().0;
                let mut draws = vec![];
                let count = if arguments[0].dimensions() == 0 { 1 } else { arguments[0].shape[0] };
                for i in 0..count {
                    let noise: Vec<f64> = (0..n).map(|_| self.rng.sample(StandardNormal)).collect();
                    let mean = Value::vector(arguments[0].flat.part(i * n, n));
                    let shift = self.product(&factor, &Value::vector(Flat::from_numbers(noise)), span)?;
                    draws.push(self.binary(BinaryOp::Add, &shift, &mean, span)?);
                }
                match arguments[0].dimensions() {
                    0 => draws.remove(0),
                    _ => Value { base: Base::Vector, shape: vec![count, n], flat: joined(&draws) },
                }
            }
            _ => return Ok(None),
        }))
    }

    /// The factor of a correlation matrix: partial correlations of column k are beta distributed on (−1, 1) (Lewandowski,
    /// Kurowicka & Joe 2009).
    fn lkj_factor(&mut self, n: usize, eta: f64, span: Span) -> Run<Value> {
        let mut l = vec![0.0; n * n];
        let mut left = vec![1.0; n];
        for k in 0..n {
            l[k * n + k] = left[k].sqrt();
            let shape = eta + 0.5 * (n as f64 - k as f64 - 2.0);
            for i in k + 1..n {
                let Some(share) = one("beta", &[shape, shape], &mut self.rng) else {
                    return fail(span, format!("`lkj_corr_rng` cannot draw with the shape {eta}"));
                };
                let partial = 2.0 * share - 1.0;
                l[i * n + k] = partial * left[i].sqrt();
                left[i] *= 1.0 - partial * partial;
            }
        }
        Ok(Value::matrix(n, n, Flat::from_numbers(l)))
    }

    /// The lower triangle whose square is a Wishart matrix of scale 1 (Bartlett's decomposition).
    fn bartlett(&mut self, n: usize, nu: f64, span: Span) -> Run<Value> {
        let mut a = vec![0.0; n * n];
        for i in 0..n {
            let Some(square) = one("chi_square", &[nu - i as f64], &mut self.rng) else {
                return fail(
                    span,
                    format!("a Wishart matrix of size {n} needs more than {} degrees of freedom", n - 1),
                );
            };
            a[i * n + i] = square.sqrt();
            (0..i).for_each(|j| a[i * n + j] = self.rng.sample(StandardNormal));
        }
        Ok(Value::matrix(n, n, Flat::from_numbers(a)))
    }
}

fn is_discrete(family: &str) -> bool {
    family.contains("bernoulli")
        || family.contains("binomial")
        || family.contains("poisson")
        || matches!(family, "discrete_range" | "yule_simon" | "hypergeometric")
}

/// A draw of one number; none if the arguments allow none.
fn one(family: &str, x: &[f64], rng: &mut impl Rng) -> Option<f64> {
    let at = |i: usize| x.get(i).copied().unwrap_or(f64::NAN);
    let (a, b) = (at(0), at(1));
    let positive = |x: f64| (x > 0.0 && x.is_finite()).then_some(x);
    let gamma = |shape: f64, rate: f64, rng: &mut dyn FnMut(Gamma<f64>) -> f64| {
        Some(rng(Gamma::new(positive(shape)?, 1.0 / positive(rate)?).ok()?))
    };
    let flag = |p: f64, rng: &mut dyn FnMut() -> f64| (0.0..=1.0).contains(&p).then(|| f64::from(u8::from(rng() < p)));
    let unit = |rng: &mut dyn FnMut() -> f64| 1.0 - rng();
    let normal = |rng: &mut dyn FnMut() -> f64| rng();
    let mut uniform = || rng.random::<f64>();
    Some(match family {
        "uniform" if a <= b => a + (b - a) * uniform(),
        "bernoulli" => flag(a, &mut uniform)?,
        "bernoulli_logit" => flag(a.sigmoid(), &mut uniform)?,
        "logistic" => {
            let u = unit(&mut uniform);
            a + positive(b)? * (u.ln() - (1.0 - u).max(f64::MIN_POSITIVE).ln())
        }
        "gumbel" => a - positive(b)? * (-unit(&mut uniform).ln()).ln(),
        "weibull" => positive(b)? * (-unit(&mut uniform).ln()).powf(1.0 / positive(a)?),
        "frechet" => positive(b)? * (-unit(&mut uniform).ln()).powf(-1.0 / positive(a)?),
        "rayleigh" => positive(a)? * (-2.0 * unit(&mut uniform).ln()).sqrt(),
        "pareto" => positive(a)? * unit(&mut uniform).powf(-1.0 / positive(b)?),
        "discrete_range" if a <= b => (a + ((b - a + 1.0) * uniform()).floor()).min(b),
        "std_normal" => normal(&mut || rng.sample(StandardNormal)),
        "normal" => a + positive(b)? * normal(&mut || rng.sample(StandardNormal)),
        "lognormal" => (a + positive(b)? * normal(&mut || rng.sample(StandardNormal))).exp(),
        "skew_normal" => {
            let (u, v): (f64, f64) = (rng.sample(StandardNormal), rng.sample(StandardNormal));
            let delta = at(2) / (1.0 + at(2) * at(2)).sqrt();
            a + positive(b)? * (delta * u.abs() + (1.0 - delta * delta).sqrt() * v)
        }
        "exp_mod_normal" => {
            a + positive(b)? * rng.sample::<f64, _>(StandardNormal) + rng.sample::<f64, _>(Exp1) / positive(at(2))?
        }
        "skew_double_exponential" if (0.0..=1.0).contains(&at(2)) => {
            let (tau, step) = (at(2), 0.5 * positive(b)? * rng.sample::<f64, _>(Exp1));
            if rng.random::<f64>() < tau { a - step / (1.0 - tau) } else { a + step / tau }
        }
        "loglogistic" => {
            let u = unit(&mut uniform);
            positive(a)? * (u / (1.0 - u).max(f64::MIN_POSITIVE)).powf(1.0 / positive(b)?)
        }
        "pareto_type_2" => a + positive(b)? * (unit(&mut uniform).powf(-1.0 / positive(at(2))?) - 1.0),
        "von_mises" => von_mises(a, positive(b)?, rng),
        // Geometric, with the probability of stopping exp(−w), w exponential.
        "yule_simon" => {
            let w: f64 = rng.sample::<f64, _>(Exp1) / positive(a)?;
            1.0 + (unit(&mut || rng.random()).ln() / (-(-w).exp()).ln_1p()).floor()
        }
        "beta_neg_binomial" => {
            let p: f64 = Beta::new(positive(b)?, positive(at(2))?).ok()?.sample(rng);
            poisson(gamma(a, p / (1.0 - p), &mut |g| g.sample(rng))?, rng)?
        }
        "cauchy" => Cauchy::new(a, positive(b)?).ok()?.sample(rng),
        "student_t" => at(1) + positive(at(2))? * StudentT::new(positive(a)?).ok()?.sample(rng),
        "exponential" => rng.sample::<f64, _>(Exp1) / positive(a)?,
        "double_exponential" => a + positive(b)? * (rng.sample::<f64, _>(Exp1) - rng.sample::<f64, _>(Exp1)),
        "gamma" => gamma(a, b, &mut |g| g.sample(rng))?,
        "inv_gamma" => 1.0 / gamma(a, b, &mut |g| g.sample(rng))?,
        "chi_square" => gamma(0.5 * a, 0.5, &mut |g| g.sample(rng))?,
        "inv_chi_square" => 1.0 / gamma(0.5 * a, 0.5, &mut |g| g.sample(rng))?,
        "scaled_inv_chi_square" => 1.0 / gamma(0.5 * a, 0.5 * a * b * b, &mut |g| g.sample(rng))?,
        "beta" => Beta::new(positive(a)?, positive(b)?).ok()?.sample(rng),
        "beta_proportion" => Beta::new(positive(a * b)?, positive((1.0 - a) * b)?).ok()?.sample(rng),
        "poisson" => poisson(a, rng)?,
        "poisson_log" => poisson(a.exp(), rng)?,
        "neg_binomial" => poisson(gamma(a, b, &mut |g| g.sample(rng))?, rng)?,
        "neg_binomial_2" => poisson(gamma(b, b / positive(a)?, &mut |g| g.sample(rng))?, rng)?,
        "neg_binomial_2_log" => poisson(gamma(b, b / positive(a.exp())?, &mut |g| g.sample(rng))?, rng)?,
        "binomial" => binomial(a, b, rng)?,
        "binomial_logit" => binomial(a, b.sigmoid(), rng)?,
        "beta_binomial" => {
            let p: f64 = Beta::new(positive(b)?, positive(at(2))?).ok()?.sample(rng);
            binomial(a, p, rng)?
        }
        _ => return None,
    })
}

/// By rejection from a wrapped Cauchy distribution (Best & Fisher 1979).
fn von_mises(mu: f64, kappa: f64, rng: &mut impl Rng) -> f64 {
    let tau = 1.0 + (1.0 + 4.0 * kappa * kappa).sqrt();
    let rho = (tau - (2.0 * tau).sqrt()) / (2.0 * kappa);
    // For a small concentration ρ is about κ, and the difference above has no digits left.
    let r = if kappa < 1e-5 { 1.0 / kappa + kappa } else { (1.0 + rho * rho) / (2.0 * rho) };
    loop {
        let z = (std::f64::consts::PI * rng.random::<f64>()).cos();
        let f = (1.0 + r * z) / (r + z);
        let c = kappa * (r - f);
        let u = 1.0 - rng.random::<f64>();
        if c * (2.0 - c) > u || (c / u).ln() + 1.0 >= c {
            let sign = if rng.random::<bool>() { 1.0 } else { -1.0 };
            return mu + sign * f.clamp(-1.0, 1.0).acos();
        }
    }
}

fn poisson(rate: f64, rng: &mut impl Rng) -> Option<f64> {
    if rate == 0.0 { Some(0.0) } else { Some(Poisson::new(rate).ok()?.sample(rng)) }
}

fn binomial(trials: f64, p: f64, rng: &mut impl Rng) -> Option<f64> {
    if trials < 0.0 {
        return None;
    }
    Some(Binomial::new(trials as u64, p).ok()?.sample(rng) as f64)
}
