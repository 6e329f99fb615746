//! Draws on the host, one at a time, so that predictions need no expressions.

use super::Family;
use rand::{Rng, RngExt};
use rand_distr::{
    Binomial, Cauchy, Distribution as _, Exp1, Gamma, LogNormal, Normal, Poisson, StandardNormal, StudentT,
};

impl Family {
    /// One draw, given the parameters of one element or event: a slice for each, of length 1 for a scalar, matrices
    /// row by row.
    ///
    /// Densities read the number of trials of a multinomial and the size of an LKJ matrix off the value; here they
    /// are a second parameter. Parameters that are missing or outside their domain make a draw of NaN.
    pub fn draw(self, parameters: &[&[f64]], rng: &mut (impl Rng + ?Sized)) -> Vec<f64> {
        let length = |i: usize| parameters.get(i).map_or(1, |p| p.len());
        let drawn = match self {
            Family::MultinomialLogit => scalar(parameters, 1).and_then(|n| multinomial(parameters[0], n, rng)),
            Family::Dirichlet => parameters.first().and_then(|p| dirichlet(p, rng)),
            Family::MultivariateNormalCholesky => normal_cholesky(parameters, rng),
            Family::LkjCholesky => lkj_cholesky(parameters, rng),
            _ => self.number(parameters, rng).map(|x| vec![x]),
        };
        drawn.unwrap_or_else(|| {
            let size = match self {
                Family::MultinomialLogit | Family::Dirichlet | Family::MultivariateNormalCholesky => length(0),
                Family::LkjCholesky => scalar(parameters, 1).and_then(size).map_or(1, |k| k * k),
                _ => 1,
            };
            vec![f64::NAN; size]
        })
    }

    /// A draw of a family of single numbers.
    fn number(self, parameters: &[&[f64]], rng: &mut (impl Rng + ?Sized)) -> Option<f64> {
        if self == Family::CategoricalLogit {
            return categorical(parameters.first()?, rng).map(|i| i as f64);
        }
        let a = scalar(parameters, 0)?;
        // The second and third parameter, asked for only where there is one.
        let second = || scalar(parameters, 1);
        let third = || scalar(parameters, 2);
        Some(match self {
            Family::Normal => normal(a, second()?, rng)?,
            Family::StudentT => second()? + positive(third()?)? * student_t(a, rng)?,
            Family::Cauchy => cauchy(a, second()?, rng)?,
            Family::HalfNormal => normal(0.0, a, rng)?.abs(),
            Family::HalfCauchy => cauchy(0.0, a, rng)?.abs(),
            Family::HalfStudentT => positive(second()?)? * student_t(a, rng)?.abs(),
            Family::Laplace => {
                let (up, down): (f64, f64) = (Exp1.sample(rng), Exp1.sample(rng));
                a + positive(second()?)? * (up - down)
            }
            Family::LogNormal => LogNormal::new(a, positive(second()?)?).ok()?.sample(rng),
            Family::Exponential => {
                let unit: f64 = Exp1.sample(rng);
                unit / positive(a)?
            }
            Family::Gamma => gamma(a, rng)? / positive(second()?)?,
            Family::InverseGamma => positive(second()?)? / gamma(a, rng)?,
            Family::Beta => beta(a, second()?, rng)?,
            Family::Uniform => {
                let (low, high) = (a, second()?);
                (low <= high).then(|| low + (high - low) * rng.random::<f64>())?
            }
            Family::BernoulliLogit => binomial(1.0, a, rng)?,
            Family::BinomialLogit => binomial(a, second()?, rng)?,
            Family::BetaBinomial => {
                let log_gammas = [log_gamma(second()?, rng)?, log_gamma(third()?, rng)?];
                binomial(a, log_gammas[0] - log_gammas[1], rng)?
            }
            Family::PoissonLog => poisson(a.exp(), rng)?,
            Family::NegativeBinomial => {
                let dispersion = second()?;
                poisson(a.exp() * gamma(dispersion, rng)? / dispersion, rng)?
            }
            _ => return None,
        })
    }
}

fn scalar(parameters: &[&[f64]], i: usize) -> Option<f64> {
    parameters.get(i)?.first().copied()
}

fn positive(x: f64) -> Option<f64> {
    (x > 0.0).then_some(x)
}

/// A number of rows that a matrix can have.
fn size(k: f64) -> Option<usize> {
    (k.fract() == 0.0 && (1.0..=1e4).contains(&k)).then_some(k as usize)
}

fn normal(mean: f64, sd: f64, rng: &mut (impl Rng + ?Sized)) -> Option<f64> {
    Some(Normal::new(mean, positive(sd)?).ok()?.sample(rng))
}

fn cauchy(location: f64, scale: f64, rng: &mut (impl Rng + ?Sized)) -> Option<f64> {
    Some(Cauchy::new(location, scale).ok()?.sample(rng))
}

fn student_t(df: f64, rng: &mut (impl Rng + ?Sized)) -> Option<f64> {
    Some(StudentT::new(df).ok()?.sample(rng))
}

fn gamma(shape: f64, rng: &mut (impl Rng + ?Sized)) -> Option<f64> {
    Some(Gamma::new(shape, 1.0).ok()?.sample(rng))
}

/// The logarithm of a gamma number, which is finite also where a small shape makes the number itself underflow.
fn log_gamma(shape: f64, rng: &mut (impl Rng + ?Sized)) -> Option<f64> {
    if shape >= 1.0 {
        return Some(gamma(shape, rng)?.ln());
    }
    // Gamma(a) is Gamma(a + 1) · U^(1/a), and −ln U is exponential.
    let exponential: f64 = Exp1.sample(rng);
    Some(gamma(positive(shape)? + 1.0, rng)?.ln() - exponential / shape)
}

fn dirichlet(concentration: &[f64], rng: &mut (impl Rng + ?Sized)) -> Option<Vec<f64>> {
    let logs: Option<Vec<f64>> = concentration.iter().map(|&a| log_gamma(a, rng)).collect();
    softmax(&logs?)
}

fn beta(a: f64, b: f64, rng: &mut (impl Rng + ?Sized)) -> Option<f64> {
    dirichlet(&[a, b], rng).map(|p| p[0])
}

fn poisson(rate: f64, rng: &mut (impl Rng + ?Sized)) -> Option<f64> {
    // A rate that underflowed is no mistake.
    if rate == 0.0 { Some(0.0) } else { Some(Poisson::new(rate).ok()?.sample(rng)) }
}

fn is_count(n: f64) -> bool {
    n.fract() == 0.0 && (0.0..=(1u64 << 53) as f64).contains(&n)
}

fn binomial(trials: f64, logit: f64, rng: &mut (impl Rng + ?Sized)) -> Option<f64> {
    if !is_count(trials) {
        return None;
    }
    // The rarer outcome is drawn: the probability of the other has lost digits.
    let rare = Binomial::new(trials as u64, 1.0 / (1.0 + logit.abs().exp())).ok()?.sample(rng) as f64;
    Some(if logit < 0.0 { rare } else { trials - rare })
}

/// Probabilities from logits, unless those have NaN or ∞ among them, or no finite one.
fn softmax(logits: &[f64]) -> Option<Vec<f64>> {
    let top = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if !top.is_finite() || logits.iter().any(|l| l.is_nan()) {
        return None;
    }
    let weights: Vec<f64> = logits.iter().map(|l| (l - top).exp()).collect();
    let total: f64 = weights.iter().sum();
    Some(weights.into_iter().map(|w| w / total).collect())
}

fn categorical(logits: &[f64], rng: &mut (impl Rng + ?Sized)) -> Option<usize> {
    let probabilities = softmax(logits)?;
    let mut left = rng.random::<f64>();
    let hit = probabilities.iter().position(|p| {
        left -= p;
        left < 0.0
    });
    // Rounding may leave a little over: that belongs to the last category that can occur.
    hit.or_else(|| probabilities.iter().rposition(|&p| p > 0.0))
}

fn multinomial(logits: &[f64], trials: f64, rng: &mut (impl Rng + ?Sized)) -> Option<Vec<f64>> {
    let probabilities = softmax(logits)?;
    if !is_count(trials) {
        return None;
    }
    let (mut left, mut counts) = (trials as u64, vec![0.0; logits.len()]);
    for i in 0..logits.len() {
        // Of those not yet placed, each falls here with this category's share of what is left.
        let rest: f64 = probabilities[i..].iter().sum();
        let share = if rest > 0.0 { (probabilities[i] / rest).min(1.0) } else { 0.0 };
        let here = Binomial::new(left, share).ok()?.sample(rng);
        (counts[i], left) = (here as f64, left - here);
    }
    Some(counts)
}

fn normal_cholesky(parameters: &[&[f64]], rng: &mut (impl Rng + ?Sized)) -> Option<Vec<f64>> {
    let &[mean, lower] = parameters else { return None };
    let k = mean.len();
    if lower.len() != k * k {
        return None;
    }
    let noise: Vec<f64> = (0..k).map(|_| StandardNormal.sample(rng)).collect();
    let row = |i: usize| lower[i * k..=i * k + i].iter().zip(&noise).map(|(l, e)| l * e).sum::<f64>();
    Some((0..k).map(|i| mean[i] + row(i)).collect())
}

/// By canonical partial correlations (Lewandowski, Kurowicka & Joe, 2009, section 2.4).
fn lkj_cholesky(parameters: &[&[f64]], rng: &mut (impl Rng + ?Sized)) -> Option<Vec<f64>> {
    let (eta, k) = (scalar(parameters, 0)?, size(scalar(parameters, 1)?)?);
    let mut factor = vec![0.0; k * k];
    for i in 0..k {
        let mut left: f64 = 1.0; // of the row's squared length
        for j in 0..i {
            let shape = eta + 0.5 * (k - 2 - j) as f64;
            let p = dirichlet(&[shape, shape], rng)?;
            factor[i * k + j] = (p[0] - p[1]) * left.sqrt();
            left *= 4.0 * p[0] * p[1]; // 1 − (p − q)², with p + q = 1
        }
        factor[i * k + i] = left.sqrt();
    }
    Some(factor)
}
