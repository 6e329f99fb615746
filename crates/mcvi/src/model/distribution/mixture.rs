//! Mixtures, with the choice of a component summed out.

use super::sample::categorical;
use super::{Distribution, Event, Support, Value};
use mcvi_expr::Expr;

/// The weights of a [`mixture`]: an expression with an axis for the components, one expression each, or numbers.
#[derive(Clone, Debug)]
pub struct MixtureWeights<'g>(Kind<'g>);

#[derive(Clone, Debug)]
enum Kind<'g> {
    /// `[.., k]`
    Axis(Expr<'g>),
    Each(Vec<Value<'g>>),
}

impl<'g> From<Expr<'g>> for MixtureWeights<'g> {
    fn from(weights: Expr<'g>) -> Self {
        MixtureWeights(Kind::Axis(weights))
    }
}

impl<'g, V: Into<Value<'g>>> From<Vec<V>> for MixtureWeights<'g> {
    fn from(weights: Vec<V>) -> Self {
        MixtureWeights(Kind::Each(weights.into_iter().map(Into::into).collect()))
    }
}

impl<'g, V: Into<Value<'g>>, const N: usize> From<[V; N]> for MixtureWeights<'g> {
    fn from(weights: [V; N]) -> Self {
        MixtureWeights(Kind::Each(weights.into_iter().map(Into::into).collect()))
    }
}

impl<'g> MixtureWeights<'g> {
    /// One weight for each component, or what is wrong.
    fn each(self, k: usize, event_dim: usize) -> Result<Vec<Value<'g>>, String> {
        let weights = match self.0 {
            Kind::Each(weights) => weights,
            Kind::Axis(w) if w.error().is_some() => vec![w.into(); k],
            Kind::Axis(w) => {
                let (shape, rank) = (w.shape(), w.shape().rank());
                let count = shape.dims().last().copied().unwrap_or(0);
                let last = rank.saturating_sub(1);
                // Of numbers, scalars keep an axis of length 1, as they do in a model.
                let is_scalar = event_dim == 0 && rank <= 2;
                let weight = |j| if is_scalar { w.slice(last, j..j + 1) } else { w.at(last, j) };
                (0..count).map(|j| weight(j).into()).collect()
            }
        };
        if weights.len() != k {
            return Err(format!("a mixture of {k} components has {} weights", weights.len()));
        }
        let Some(numbers) = weights.iter().map(|w| w.number()).collect::<Option<Vec<f64>>>() else {
            return Ok(weights);
        };
        // NaN is neither.
        let sum: f64 = numbers.iter().sum();
        if numbers.iter().all(|w| *w >= 0.0) && (sum - 1.0).abs() <= 1e-8 {
            return Ok(weights);
        }
        Err(format!("the weights {numbers:?} of a mixture are not probabilities that sum to 1"))
    }
}

/// A mixture: with probability `weights[j]` a value comes from component j. Which one is summed out, so that the log
/// density is ln Σⱼ wⱼ pⱼ(x); draws choose a component first.
///
/// Weights are `m.simplex(..)` as it is, `[theta, 1.0 - theta]`, or numbers, `[0.3, 0.7]`. With an axis for observations,
/// `[rows, n, k]`, every observation has its own. For components that are distributions of vectors, weights are `[.., k]`
/// for log densities `[..]`, as the parameters of such distributions are: `share.expand(1)`.
///
/// ```
/// use mcvi::model::{Model, half_normal, mixture, normal, dirichlet};
///
/// let y = [-2.1, -1.7, 3.3, -2.4, 2.8];
/// let model = Model::new(move |m| {
///     let share = m.simplex("share", 2, dirichlet(1.0));
///     let mean = m.ordered("mean", 2, normal(0.0, 5.0)); // in order, so that the components cannot trade places
///     let sd = m.positive("sd", half_normal(2.0));
///     m.observe("y", &y, mixture(share, [normal(mean.slice(1, 0..1), sd), normal(mean.slice(1, 1..2), sd)]));
/// })?;
/// # Ok::<(), mcvi::Error>(())
/// ```
pub fn mixture<'g>(
    weights: impl Into<MixtureWeights<'g>>,
    components: impl IntoIterator<Item = Distribution<'g>>,
) -> Distribution<'g> {
    let components: Vec<Distribution<'g>> = components.into_iter().collect();
    let k = components.len();
    let event_dim = components.first().map_or(0, |c| c.event_dim);
    let (weights, unusable) = match weights.into().each(k, event_dim) {
        Ok(weights) => (weights, None),
        Err(mistake) => (vec![Value::Number(1.0 / k.max(1) as f64); k], Some(mistake)),
    };
    let mut mixed = Distribution::new("mixture", [], |x, []| x)
        .with_support(support(&components))
        .with_mistake(mistake(&components).or(unusable));
    mixed.event_dim = event_dim;
    mixed.parameters = weights;
    mixed.parameter_dims = vec![0; k];
    for c in &components {
        mixed.parameters.extend(&c.parameters);
        mixed.parameter_dims.extend(&c.parameter_dims);
    }
    let all_drawn = components.iter().all(|c| c.sampler.is_some());
    let parts = components.clone();
    mixed.log_density = std::rc::Rc::new(move |x, p| log_density(&parts, x, p));
    if all_drawn { mixed.with_event_sampler(move |event, rng| sample(&components, event, rng)) } else { mixed }
}

/// ln Σⱼ wⱼ pⱼ(x), of weights followed by the parameters of each component.
fn log_density<'g>(components: &[Distribution<'g>], x: Expr<'g>, parameters: &[Expr<'g>]) -> Expr<'g> {
    let ill_formed = || x.graph().concat(&[], 0);
    let Some((weights, mut rest)) = parameters.split_at_checked(components.len()) else { return ill_formed() };
    let mut terms = vec![];
    for (c, weight) in components.iter().zip(weights) {
        let Some((own, later)) = rest.split_at_checked(c.parameters.len()) else { return ill_formed() };
        terms.push(weight.ln() + (c.log_density)(x, own));
        rest = later;
    }
    // The sum has the shape that all of them have in common.
    let Some(sum) = terms.iter().copied().reduce(|a, b| a + b) else { return ill_formed() };
    if sum.error().is_some() {
        return sum;
    }
    let (shape, axis) = (sum.shape(), sum.shape().rank());
    let terms: Vec<Expr<'g>> = terms.into_iter().map(|t| t.broadcast_to(&shape).expand(axis)).collect();
    x.graph().concat(&terms, axis).logsumexp(&[axis])
}

fn sample(components: &[Distribution<'_>], event: &Event<'_>, rng: &mut dyn rand::Rng) -> Option<Vec<f64>> {
    let (weights, rest) = event.parameters.split_at_checked(components.len())?;
    let logs: Option<Vec<f64>> = weights.iter().map(|w| Some(w.first()?.ln())).collect();
    let chosen = categorical(&logs?, rng)?;
    let before: usize = components[..chosen].iter().map(|c| c.parameters.len()).sum();
    let own = rest.get(before..before + components[chosen].parameters.len())?;
    components[chosen].sample(&Event { parameters: own, like: event.like }, rng)
}

fn mistake(components: &[Distribution<'_>]) -> Option<String> {
    let Some(first) = components.first() else { return Some("a mixture needs at least one component".to_owned()) };
    let is_discrete = |c: &Distribution<'_>| c.support == Support::Discrete;
    components.iter().enumerate().find_map(|(i, c)| {
        let wrong = if c.is_flat {
            Some("`flat()` is no distribution to draw from with some probability".to_owned())
        } else if c.event_dim != first.event_dim || is_discrete(c) != is_discrete(first) {
            Some(format!("{c:?} and {first:?} are not distributions of the same kind of value"))
        } else {
            c.mistake()
        };
        wrong.map(|why| format!("component {} of a mixture: {why}", i + 1))
    })
}

/// Where any of the components has a density.
fn support<'g>(components: &[Distribution<'g>]) -> Support<'g> {
    let union = |a: Support<'g>, b: Support<'g>| match (a.range(), b.range()) {
        _ if a == b => a,
        (Some(a), Some(b)) => Support::Interval(Value::Number(a.0.min(b.0)), Value::Number(a.1.max(b.1))),
        _ => Support::Real,
    };
    components.iter().map(|c| c.support).reduce(union).unwrap_or(Support::Real)
}
