//! What q(z₀|x), q(v|z, x) and the inverse models r are made of.

mod bernoulli;
mod categorical;
mod gaussian;
mod predictor;
mod proposal;

pub use bernoulli::Bernoulli;
pub use categorical::Categorical;
pub(crate) use gaussian::log_normal;
pub use gaussian::{Covariance, Gaussian};
pub use predictor::{Inputs, Predictor};
pub use proposal::{Drift, RandomWalk};

use crate::any::{Own, any};
use crate::error::Result;
use crate::scope::Scope;
use crate::target::Point;
use crate::units::Units;
use mcvi_expr::Expr;
use serde_json::Value;
use std::fmt::Debug;
use std::rc::Rc;
use std::sync::Arc;

/// A density over rows of numbers, given where the chain is.
///
/// An implementation writes forward code only: derivatives come from the expressions. Parameters come from
/// [`Scope::param`]; they are found, trained and saved without further ado.
pub trait Density: Debug + Send + Sync {
    /// Draw a value a row, `[rows, dim]`, by transforming noise; returns it with its log density, `[rows]`.
    fn draw<'g>(&self, scope: &Scope<'g>, given: &Given<'g>) -> Result<(Expr<'g>, Expr<'g>)>;

    /// The log density of values drawn elsewhere.
    fn log_density<'g>(&self, scope: &Scope<'g>, given: &Given<'g>, value: Expr<'g>) -> Result<Expr<'g>>;

    /// Whether a network is part of it: networks are trained longer.
    fn has_network(&self) -> bool {
        false
    }

    /// What identifies a density of your own in a saved chain. The name of its type tells it from other types; override
    /// this where its settings matter too.
    fn identity(&self) -> Value {
        std::any::type_name::<Self>().into()
    }

    /// As part of a chain.
    fn into_any(self) -> AnyDensity
    where
        Self: Sized + 'static,
    {
        AnyDensity::Own(Own::new(self.identity(), Arc::new(self)))
    }
}

any! {
    /// Any density, as data where it comes with the library.
    AnyDensity is Density: Gaussian, RandomWalk, Drift
}

impl Density for AnyDensity {
    fn draw<'g>(&self, scope: &Scope<'g>, given: &Given<'g>) -> Result<(Expr<'g>, Expr<'g>)> {
        self.get()?.draw(scope, given)
    }

    fn log_density<'g>(&self, scope: &Scope<'g>, given: &Given<'g>, value: Expr<'g>) -> Result<Expr<'g>> {
        self.get()?.log_density(scope, given, value)
    }

    fn has_network(&self) -> bool {
        self.get().is_ok_and(Density::has_network)
    }

    fn into_any(self) -> AnyDensity {
        self
    }
}

/// What a density may depend on.
#[derive(Clone)]
pub struct Given<'g> {
    /// The number of rows.
    pub rows: usize,
    /// Where the chain is; nowhere yet for q(z₀|x).
    pub point: Option<Point<'g>>,
    /// The observations, a row for each row, where the target has them.
    pub data: Option<Expr<'g>>,
    /// Further features, [rows, k].
    pub more: Option<Expr<'g>>,
    /// Typical size of the value, coordinate by coordinate: where to start, and how far a step goes.
    pub units: Rc<Units>,
    /// Rows that count (1) and that do not (0), where a branch applies to some rows only.
    pub weight: Option<Expr<'g>>,
}

impl<'g> Given<'g> {
    /// What q(z₀|x) is given: the observations, and positions as values.
    pub fn nothing(scope: &Scope<'g>, data: Option<Expr<'g>>) -> Self {
        Given { rows: scope.rows(), point: None, data, more: None, units: scope.positions(), weight: None }
    }

    /// What a density over positions is given.
    pub fn position(scope: &Scope<'g>, at: Point<'g>, data: Option<Expr<'g>>) -> Self {
        let rows = at.z.shape().dims()[0];
        Given { rows, point: Some(at), ..Given::nothing(scope, data) }
    }

    /// What a density over momenta is given.
    pub fn momentum(scope: &Scope<'g>, at: Point<'g>, data: Option<Expr<'g>>) -> Self {
        Given { units: scope.momenta(), ..Given::position(scope, at, data) }
    }

    /// The same for rows that count only where `weight` is 1.
    pub fn only(&self, weight: Expr<'g>) -> Self {
        Given { weight: Some(weight), ..self.clone() }
    }
}
