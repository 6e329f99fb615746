//! Probability distributions, parameterised as Stan's are: their log densities as expressions, and draws on the host.
//!
//! Densities are normalised, broadcast their parameters against the value, and may be differentiated again and again.
//! Outside the support a log density is −∞ and passes no derivative on. Parameters outside their own domain, such as
//! a negative scale, give NaN or −∞.

mod continuous;
mod discrete;
mod draw;
mod multivariate;

use mcvi_expr::Expr;

/// A family of distributions; its constructor says what the parameters are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Family {
    /// See [`normal`].
    Normal,
    /// See [`student_t`].
    StudentT,
    /// See [`cauchy`].
    Cauchy,
    /// See [`half_normal`].
    HalfNormal,
    /// See [`half_cauchy`].
    HalfCauchy,
    /// See [`half_student_t`].
    HalfStudentT,
    /// See [`laplace`].
    Laplace,
    /// See [`log_normal`].
    LogNormal,
    /// See [`exponential`].
    Exponential,
    /// See [`gamma`].
    Gamma,
    /// See [`inverse_gamma`].
    InverseGamma,
    /// See [`beta`].
    Beta,
    /// See [`uniform`].
    Uniform,
    /// See [`bernoulli_logit`].
    BernoulliLogit,
    /// See [`binomial_logit`].
    BinomialLogit,
    /// See [`beta_binomial`].
    BetaBinomial,
    /// See [`poisson_log`].
    PoissonLog,
    /// See [`negative_binomial_log`].
    NegativeBinomial,
    /// See [`categorical_logit`].
    CategoricalLogit,
    /// See [`multinomial_logit`].
    MultinomialLogit,
    /// See [`dirichlet`].
    Dirichlet,
    /// See [`multivariate_normal_cholesky`].
    MultivariateNormalCholesky,
    /// See [`lkj_cholesky`].
    LkjCholesky,
}

/// A parameter: an expression, or a number that becomes one beside the value.
#[derive(Clone, Copy, Debug)]
pub enum Value<'g> {
    /// An expression, of the value's graph and element type.
    Expr(Expr<'g>),
    /// A number.
    Number(f64),
}

impl<'g> From<Expr<'g>> for Value<'g> {
    fn from(expr: Expr<'g>) -> Self {
        Value::Expr(expr)
    }
}

impl From<f64> for Value<'_> {
    fn from(number: f64) -> Self {
        Value::Number(number)
    }
}

impl<'g> Value<'g> {
    /// The parameter as an expression of the same graph and element type as `like`.
    pub fn expr(self, like: Expr<'g>) -> Expr<'g> {
        match self {
            Value::Expr(expr) => expr,
            Value::Number(number) => like.graph().scalar(like.dtype(), number),
        }
    }
}

/// A distribution: a family with its parameters.
///
/// ```
/// use mcvi::model::normal;
/// use mcvi_expr::{Array, DType, Graph};
///
/// let g = Graph::new();
/// let scale = g.input("scale", DType::F64, [2, 1]); // a scalar parameter, two posterior draws of it
/// let data = g.literal(Array::new([3], vec![0.5, -1.0, 2.0])?);
/// let log_likelihood = normal(0.0, scale).log_density(data).sum(&[1]);
/// assert_eq!(log_likelihood.shape().dims(), [2]);
/// # Ok::<(), mcvi_expr::Error>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Distribution<'g> {
    /// The family.
    pub family: Family,
    /// The parameters, in the order the family's constructor takes them.
    pub parameters: Vec<Value<'g>>,
}

impl<'g> Distribution<'g> {
    fn new<const N: usize>(family: Family, parameters: [Value<'g>; N]) -> Self {
        Distribution { family, parameters: parameters.into() }
    }

    /// The log density or log probability of `x`: an element for each of `x` and the parameters, broadcast; for the
    /// multivariate families one for each vector along the last axis, or for each matrix of the last two.
    #[track_caller]
    pub fn log_density(&self, x: Expr<'g>) -> Expr<'g> {
        // A parameter that was taken away makes an ill-formed expression, not a panic.
        let get = |i: usize| self.parameters.get(i).map_or_else(|| x.graph().concat(&[], 0), |p| p.expr(x));
        let (a, b, c) = (|| get(0), || get(1), || get(2));
        match self.family {
            Family::Normal => continuous::normal(x, a(), b()),
            Family::StudentT => continuous::student_t(x, a(), b(), c()),
            Family::Cauchy => continuous::cauchy(x, a(), b()),
            Family::HalfNormal => continuous::half(x, continuous::normal(x, zero(x), a())),
            Family::HalfCauchy => continuous::half(x, continuous::cauchy(x, zero(x), a())),
            Family::HalfStudentT => continuous::half(x, continuous::student_t(x, a(), zero(x), b())),
            Family::Laplace => continuous::laplace(x, a(), b()),
            Family::LogNormal => continuous::log_normal(x, a(), b()),
            Family::Exponential => continuous::exponential(x, a()),
            Family::Gamma => continuous::gamma(x, a(), b()),
            Family::InverseGamma => continuous::inverse_gamma(x, a(), b()),
            Family::Beta => continuous::beta(x, a(), b()),
            Family::Uniform => continuous::uniform(x, a(), b()),
            Family::BernoulliLogit => discrete::bernoulli_logit(x, a()),
            Family::BinomialLogit => discrete::binomial_logit(x, a(), b()),
            Family::BetaBinomial => discrete::beta_binomial(x, a(), b(), c()),
            Family::PoissonLog => discrete::poisson_log(x, a()),
            Family::NegativeBinomial => discrete::negative_binomial_log(x, a(), b()),
            Family::CategoricalLogit => discrete::categorical_logit(x, a()),
            Family::MultinomialLogit => discrete::multinomial_logit(x, a()),
            Family::Dirichlet => multivariate::dirichlet(x, a()),
            Family::MultivariateNormalCholesky => multivariate::normal_cholesky(x, a(), b()),
            Family::LkjCholesky => multivariate::lkj_cholesky(x, a()),
        }
    }
}

fn zero(x: Expr<'_>) -> Expr<'_> {
    x.graph().scalar(x.dtype(), 0.0)
}

/// The last axis, or one that does not exist of something without axes.
fn last(x: Expr<'_>) -> usize {
    x.shape().rank().saturating_sub(1)
}

/// `value` inside the support, −∞ outside. Nothing flows back from outside, whatever the derivatives there would be.
#[track_caller]
fn within<'g>(inside: Expr<'g>, value: Expr<'g>) -> Expr<'g> {
    inside.select(value, f64::NEG_INFINITY)
}

/// 1 where all conditions along the last axis hold.
#[track_caller]
fn all(conditions: Expr<'_>) -> Expr<'_> {
    (1.0 - conditions).sum(&[last(conditions)]).eq(0.0)
}

macro_rules! constructors {
    ($($(#[$doc:meta])* $name:ident($($parameter:ident),*) = $family:ident;)*) => {$(
        $(#[$doc])*
        pub fn $name<'g>($($parameter: impl Into<Value<'g>>),*) -> Distribution<'g> {
            Distribution::new(Family::$family, [$($parameter.into()),*])
        }
    )*};
}

constructors! {
    /// The normal distribution with this mean and standard deviation.
    normal(mean, sd) = Normal;
    /// Student's t distribution with `df` degrees of freedom, shifted and scaled.
    student_t(df, location, scale) = StudentT;
    /// The Cauchy distribution.
    cauchy(location, scale) = Cauchy;
    /// The absolute value of a normal number with mean 0 and standard deviation `scale`.
    half_normal(scale) = HalfNormal;
    /// The absolute value of a Cauchy number about 0.
    half_cauchy(scale) = HalfCauchy;
    /// The absolute value of a Student's t number about 0.
    half_student_t(df, scale) = HalfStudentT;
    /// The Laplace (double exponential) distribution.
    laplace(location, scale) = Laplace;
    /// The distribution of a number whose logarithm is normal with this mean and standard deviation.
    log_normal(mean, sd) = LogNormal;
    /// The exponential distribution with mean 1/`rate`.
    exponential(rate) = Exponential;
    /// The gamma distribution with mean `shape`/`rate`.
    gamma(shape, rate) = Gamma;
    /// The distribution of the reciprocal of a gamma number with this shape and `scale` for its rate.
    inverse_gamma(shape, scale) = InverseGamma;
    /// The beta distribution with mean `a`/(`a` + `b`).
    beta(a, b) = Beta;
    /// The uniform distribution between two bounds.
    uniform(low, high) = Uniform;
    /// One with this log odds, else zero.
    bernoulli_logit(logit) = BernoulliLogit;
    /// The number of successes in independent trials with this log odds.
    binomial_logit(trials, logit) = BinomialLogit;
    /// The number of successes in trials whose common probability is beta distributed.
    beta_binomial(trials, a, b) = BetaBinomial;
    /// The Poisson distribution with mean exp(`log_rate`).
    poisson_log(log_rate) = PoissonLog;
    /// Counts with mean μ = exp(`log_mean`) and variance μ + μ²/`dispersion`.
    negative_binomial_log(log_mean, dispersion) = NegativeBinomial;
    /// A category, counted from 0: of logits `[.., k]` for values `[..]`.
    categorical_logit(logits) = CategoricalLogit;
    /// The counts `[.., k]` of k categories among independent draws with logits `[.., k]`.
    multinomial_logit(logits) = MultinomialLogit;
    /// The Dirichlet distribution of vectors `[.., k]` that sum to 1.
    dirichlet(concentration) = Dirichlet;
    /// Normal vectors `[.., k]` with mean `[.., k]` and covariance L Lᵀ, where `lower` is L, `[.., k, k]`.
    multivariate_normal_cholesky(mean, lower) = MultivariateNormalCholesky;
    /// The lower Cholesky factor `[.., k, k]` of a correlation matrix with density ∝ det^(`eta` − 1); `eta` is a
    /// scalar parameter, `[.., 1]`.
    lkj_cholesky(eta) = LkjCholesky;
}
