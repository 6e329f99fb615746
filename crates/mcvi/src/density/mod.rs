//! The densities that q(z₀|x), q(v|z, x) and the inverse models r are made of.

mod bernoulli;
mod categorical;
mod gaussian;
mod predictor;
mod proposal;

pub use bernoulli::Bernoulli;
pub use categorical::Categorical;
pub(crate) use gaussian::log_normal;
pub use gaussian::{Covariance, Gaussian};
pub(crate) use predictor::standardised;
pub use predictor::{Inputs, Predictor};
pub use proposal::{Drift, RandomWalk};

use crate::any::{Own, any};
use crate::error::Result;
use crate::scope::{Estimator, Scope};
use crate::target::Point;
use crate::units::Units;
use mcvi_expr::Expr;
use serde_json::Value;
use std::fmt::Debug;
use std::sync::Arc;

/// A density over rows of numbers, conditional on the state of the chain.
///
/// An implementation writes forward code only: derivatives are automatic. Parameters come from [`Scope::param`] and are
/// registered, trained and saved automatically.
pub trait Density: Debug + Send + Sync {
    /// Draw a value per row, `[rows, dim]`, by transforming noise. Returns it with its log density, `[rows]`.
    fn draw<'g>(&self, scope: &Scope<'g>, given: &Given<'g>) -> Result<(Expr<'g>, Expr<'g>)>;

    /// The log density of values drawn elsewhere.
    fn log_density<'g>(&self, scope: &Scope<'g>, given: &Given<'g>, value: Expr<'g>) -> Result<Expr<'g>>;

    /// Draw a value of the path of a chain, in the way that the scope's [`Estimator`] wants its log density.
    fn draw_for_gradient<'g>(&self, scope: &Scope<'g>, given: &Given<'g>) -> Result<(Expr<'g>, Expr<'g>)> {
        let (value, log_q) = self.draw(scope, given)?;
        let value = scope.held(value);
        let log_q = match scope.estimator() {
            Estimator::Pathwise => log_q,
            Estimator::StickingTheLanding => self.log_density(&scope.stopped(), given, value)?,
            Estimator::FixedPath => self.log_density(scope, given, value)?,
        };
        Ok((value, log_q))
    }

    /// Whether it contains a network: networks are trained longer.
    fn has_network(&self) -> bool {
        false
    }

    /// The weights between hidden layers of its networks. An error if it is beyond the [`limits`](crate::limits).
    fn size(&self) -> Result<usize> {
        Ok(0)
    }

    /// The identity of a custom density in a saved chain. The default is the name of its type; override this if its
    /// settings matter too.
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
    /// Any density, as data if it is built in.
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

    fn size(&self) -> Result<usize> {
        self.get().map_or(Ok(0), Density::size)
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
    /// The state of the chain; none for q(z₀|x).
    pub point: Option<Point<'g>>,
    /// The observations, one row for each row, if the target has them.
    pub data: Option<Expr<'g>>,
    /// Further features, [rows, k].
    pub more: Option<Expr<'g>>,
    /// Typical centre and scale of the value, per coordinate: for initial values and step sizes.
    pub units: Arc<Units>,
    /// Rows that count (1) and rows that do not (0), if a branch applies to some rows only.
    pub weight: Option<Expr<'g>>,
}

impl<'g> Given<'g> {
    /// The inputs of q(z₀|x): the observations, and positions as values.
    pub fn nothing(scope: &Scope<'g>, data: Option<Expr<'g>>) -> Self {
        Given { rows: scope.rows(), point: None, data, more: None, units: scope.positions(), weight: None }
    }

    /// The inputs of a density over positions.
    pub fn position(scope: &Scope<'g>, at: Point<'g>, data: Option<Expr<'g>>) -> Self {
        let rows = at.z.shape().dims()[0];
        Given { rows, point: Some(at), ..Given::nothing(scope, data) }
    }

    /// The inputs of a density over momenta.
    pub fn momentum(scope: &Scope<'g>, at: Point<'g>, data: Option<Expr<'g>>) -> Self {
        Given { units: scope.momenta(), ..Given::position(scope, at, data) }
    }

    /// The same for rows that count only where `weight` is 1.
    pub fn only(&self, weight: Expr<'g>) -> Self {
        Given { weight: Some(weight), ..self.clone() }
    }
}
