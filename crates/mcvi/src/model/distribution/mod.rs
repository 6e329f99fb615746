//! Probability distributions, parameterised as Stan's are: their log densities as expressions, and draws on the host.
//!
//! A distribution is defined in one place, by the function that makes it: its parameters, support, log density and
//! sampler. Densities are normalised, broadcast their parameters against the value, and may be differentiated again
//! and again. Outside the support a log density is −∞ and passes no derivative on. Parameters outside their own
//! domain, such as a negative scale, give NaN or −∞.

pub(super) mod continuous;
pub(super) mod discrete;
pub(super) mod mixture;
pub(super) mod multivariate;
mod sample;
mod support;

pub use support::Support;

use super::Constraint;
use mcvi_expr::Expr;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::fmt;
use std::rc::Rc;

/// A parameter of a distribution, or a bound of a model's parameter: an expression, or a number that becomes one
/// beside the value.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Value<'g> {
    /// An expression, of the value's graph and element type.
    Expr(Expr<'g>),
    /// A number.
    Number(f64),
}

impl PartialEq for Value<'_> {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Value::Number(a), Value::Number(b)) => a == b,
            (Value::Expr(a), Value::Expr(b)) => a.is_same(*b),
            _ => false,
        }
    }
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

    /// The number, where it is one.
    pub(super) fn number(self) -> Option<f64> {
        match self {
            Value::Number(number) => Some(number),
            Value::Expr(_) => None,
        }
    }
}

type LogDensity<'g> = Rc<dyn Fn(Expr<'g>, &[Expr<'g>]) -> Expr<'g> + 'g>;
type Sampler<'g> = Rc<dyn Fn(&Event<'_>, &mut dyn Rng) -> Option<Vec<f64>> + 'g>;

/// A probability distribution with its parameters.
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
#[derive(Clone)]
pub struct Distribution<'g> {
    name: String,
    parameters: Vec<Value<'g>>,
    support: Support<'g>,
    /// Axes of one event: 0 of a number, 1 of a vector, 2 of a matrix.
    event_dim: usize,
    /// The same of each parameter.
    parameter_dims: Vec<usize>,
    log_density: LogDensity<'g>,
    sampler: Option<Sampler<'g>>,
    is_flat: bool,
    /// What is wrong with how it was made.
    mistake: Option<String>,
}

/// What one draw is made from.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Event<'a> {
    /// The numbers of each parameter: one of a scalar, matrices row by row.
    pub parameters: &'a [&'a [f64]],
    /// A value of the same size: of an observation the observed one, of a parameter anything. A multinomial takes its
    /// number of trials from it.
    pub like: &'a [f64],
}

impl<'a> Event<'a> {
    /// From the numbers of each parameter and a value of the size to be drawn.
    pub fn new(parameters: &'a [&'a [f64]], like: &'a [f64]) -> Self {
        Event { parameters, like }
    }
}

impl<'g> Distribution<'g> {
    /// A distribution of one's own, of single numbers: its name, its parameters, and its log density as an expression of
    /// the value and the parameters. It can be a prior, or be observed with log likelihoods for each observation; with a
    /// sampler there are predictions and prior draws too.
    ///
    /// Sum over nothing: the log density has an element for each of the value and the parameters, broadcast. For values
    /// that are vectors or matrices see [`Distribution::with_event_dims`].
    ///
    /// ```
    /// use mcvi::model::{Distribution, Model, RngExt, Value, half_normal, normal};
    ///
    /// /// The Gumbel distribution.
    /// fn gumbel<'g>(location: impl Into<Value<'g>>, scale: impl Into<Value<'g>>) -> Distribution<'g> {
    ///     Distribution::new("gumbel", [location.into(), scale.into()], |x, [location, scale]| {
    ///         let z = (x - location) / scale;
    ///         -z - (-z).exp() - scale.ln()
    ///     })
    ///     .with_sampler(|[location, scale], rng| {
    ///         let exponential = -(1.0 - rng.random::<f64>()).ln();
    ///         (scale > 0.0).then(|| location - scale * exponential.ln())
    ///     })
    /// }
    ///
    /// let floods = [5.1, 3.8, 7.9, 4.4];
    /// let model = Model::new(move |m| {
    ///     let location = m.real("location", normal(0.0, 10.0));
    ///     m.observe("floods", &floods, gumbel(location, m.positive("scale", half_normal(5.0))));
    /// })?;
    /// let quantities = model.quantities(&[vec![4.0, 0.5]], 1)?;
    /// assert_eq!((quantities.log_likelihood[0].size(), quantities.predictive[0].size()), (4, 4));
    /// # Ok::<(), mcvi::Error>(())
    /// ```
    pub fn new<const N: usize>(
        name: &str,
        parameters: [Value<'g>; N],
        log_density: impl Fn(Expr<'g>, [Expr<'g>; N]) -> Expr<'g> + 'g,
    ) -> Self {
        let log_density = move |x: Expr<'g>, p: &[Expr<'g>]| match <[Expr<'g>; N]>::try_from(p) {
            Ok(p) => log_density(x, p),
            // Another number of parameters makes an ill-formed expression, not a panic.
            Err(_) => x.graph().concat(&[], 0),
        };
        Distribution {
            name: name.to_owned(),
            parameters: parameters.into(),
            support: Support::Real,
            event_dim: 0,
            parameter_dims: vec![0; N],
            log_density: Rc::new(log_density),
            sampler: None,
            is_flat: false,
            mistake: None,
        }
    }

    /// With a mistake in how it was made, to be reported with the name of what it is given to.
    fn with_mistake(self, mistake: Option<String>) -> Self {
        Distribution { mistake, ..self }
    }

    /// With the values it gives a positive density to; else all real numbers. Outside, its log density should be −∞.
    pub fn with_support(self, support: Support<'g>) -> Self {
        Distribution { support, ..self }
    }

    /// With draws of single numbers, given the numbers of its parameters: none where those are outside their domain.
    pub fn with_sampler<const N: usize>(self, sampler: impl Fn([f64; N], &mut dyn Rng) -> Option<f64> + 'g) -> Self {
        self.of_parameters(N, "sampler").with_event_sampler(move |event, rng| {
            let numbers: Option<Vec<f64>> = event.parameters.iter().map(|p| p.first().copied()).collect();
            Some(vec![sampler(numbers?.try_into().ok()?, rng)?])
        })
    }

    /// With the number of axes of one value and of each parameter for it: 0 for a number, 1 for a vector, 2 for a
    /// matrix. The log density then has an element for each value, not for each of its numbers.
    pub fn with_event_dims<const N: usize>(self, value: usize, parameters: [usize; N]) -> Self {
        let checked = self.of_parameters(N, "list of axes");
        let mut parameter_dims = parameters.to_vec();
        parameter_dims.resize(checked.parameters.len(), 0);
        Distribution { event_dim: value, parameter_dims, ..checked }
    }

    /// The same, with a mistake unless it has that many parameters.
    fn of_parameters(self, n: usize, what: &str) -> Self {
        let has = self.parameters.len();
        let other = || format!("the {what} of {} is for {n} parameters, it has {has}", self.name);
        let mistake = self.mistake.clone().or_else(|| (n != has).then(other));
        self.with_mistake(mistake)
    }

    /// With draws of one value, of a vector or matrix all its numbers row by row: none where parameters are outside
    /// their domain.
    pub fn with_event_sampler(self, sampler: impl Fn(&Event<'_>, &mut dyn Rng) -> Option<Vec<f64>> + 'g) -> Self {
        Distribution { sampler: Some(Rc::new(sampler)), ..self }
    }

    /// With each log density multiplied by a weight, such as the number of times that an observation was made.
    /// Draws are as without weights.
    ///
    /// ```
    /// use mcvi::model::{Model, normal};
    ///
    /// let model = Model::new(|m| {
    ///     let mean = m.real("mean", normal(0.0, 1.0));
    ///     m.observe("y", &[0.3, -0.2], normal(mean, 1.0).weighted(m.data(&[2.0, 5.0])));
    /// })?;
    /// # Ok::<(), mcvi::Error>(())
    /// ```
    pub fn weighted(self, weights: Expr<'g>) -> Self {
        let log_density = self.log_density.clone();
        Distribution { log_density: Rc::new(move |x, p| log_density(x, p) * weights), ..self }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The parameters, in the order its constructor takes them.
    pub fn parameters(&self) -> &[Value<'g>] {
        &self.parameters
    }

    /// The values it gives a positive density to.
    pub fn support(&self) -> Support<'g> {
        self.support
    }

    /// Axes of one value: 0 for a number, 1 for a vector, 2 for a matrix.
    pub fn event_dim(&self) -> usize {
        self.event_dim
    }

    /// Axes of one value of each parameter.
    pub(super) fn parameter_dims(&self) -> &[usize] {
        &self.parameter_dims
    }

    /// The log density or log probability of `x`: an element for each of `x` and the parameters, broadcast; of
    /// vectors and matrices one for each along the last axis or the last two.
    #[track_caller]
    pub fn log_density(&self, x: Expr<'g>) -> Expr<'g> {
        let parameters: Vec<Expr<'g>> = self.parameters.iter().map(|p| p.expr(x)).collect();
        // Of numbers, what does not fit is found here, where the caller's place is known.
        let numbers = self.event_dim == 0 && self.parameter_dims.iter().all(|d| *d == 0);
        match parameters.iter().find(|p| numbers && !fit(x, **p)) {
            Some(parameter) => x + *parameter,
            None => (self.log_density)(x, &parameters),
        }
    }

    /// Whether it is [`flat`](continuous::flat).
    pub fn is_flat(&self) -> bool {
        self.is_flat
    }

    /// Whether draws can be made of it.
    pub fn has_sampler(&self) -> bool {
        self.sampler.is_some()
    }

    /// What is wrong with it, whatever it is given to, as far as can be seen now.
    pub(super) fn mistake(&self) -> Option<String> {
        if let Some(mistake) = &self.mistake {
            return Some(mistake.clone());
        }
        // A sampler refuses parameters outside their domain: of numbers that is known now.
        let numbers: Option<Vec<f64>> = self.parameters.iter().map(|p| p.number()).collect();
        let (numbers, sampler) = (numbers?, self.sampler.as_ref()?);
        if self.event_dim > 0 || self.parameter_dims.iter().any(|d| *d > 0) {
            return None;
        }
        let parameters: Vec<&[f64]> = numbers.iter().map(std::slice::from_ref).collect();
        let event = Event { parameters: &parameters, like: &[0.5] };
        let refused = sampler(&event, &mut SmallRng::seed_from_u64(0)).is_none();
        refused.then(|| format!("{self:?} has parameters outside their domain, such as a scale that is not positive"))
    }

    /// What is wrong with it as the prior of a parameter of this constraint.
    pub(super) fn conflict(&self, constraint: Constraint<'_>) -> Option<String> {
        self.support.conflict(constraint).map(|remedy| {
            format!("the parameter can take values to which its prior, {self:?}, gives no density; {remedy}")
        })
    }

    /// One draw, given the numbers of the parameters; they stand in for those the distribution was made with. None
    /// where these are outside their domain, or where there is no sampler.
    pub fn sample(&self, event: &Event<'_>, rng: &mut dyn Rng) -> Option<Vec<f64>> {
        self.sampler.as_ref()?(event, rng)
    }
}

impl fmt::Debug for Distribution<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parameters = self.parameters.iter().map(|p| match p {
            Value::Number(number) => number.to_string(),
            Value::Expr(expr) => expr.shape().to_string(),
        });
        write!(f, "{}({})", self.name, parameters.collect::<Vec<_>>().join(", "))
    }
}

/// Whether two shapes broadcast against each other.
fn fit(a: Expr<'_>, b: Expr<'_>) -> bool {
    let (a, b) = (a.shape(), b.shape());
    a.dims().iter().rev().zip(b.dims().iter().rev()).all(|(a, b)| a == b || *a == 1 || *b == 1)
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
