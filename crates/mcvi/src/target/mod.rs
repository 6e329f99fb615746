//! The distribution to approximate: log p(x, z) as an expression of a batch of z.

pub mod path;

use crate::compile::Compile;
use crate::error::{Error, Result};
use crate::hardware::{Hardware, Ranks, agreed};
use crate::initialisation::Initialisation;
use crate::params::Params;
use crate::scope::{Choices, Scope};
use mcvi_expr::{DType, Expr, grad};
use path::AnyPath;

/// An unnormalised posterior. Rows of z are independent chains, or latent variables of different datapoints.
pub trait Target: Send + Sync {
    /// The number of coordinates of z.
    fn dim(&self) -> usize;

    /// log p(x, z) of each row: z is `[rows, dim]`, the result `[rows]`.
    fn log_density<'g>(&self, scope: &Scope<'g>, z: Expr<'g>) -> Expr<'g>;

    /// log p(x|z) of each row, if the prior is separate.
    fn log_likelihood<'g>(&self, _scope: &Scope<'g>, _z: Expr<'g>) -> Option<Expr<'g>> {
        None
    }

    /// The distribution of one coordinate given the others, for Gibbs sampling, if it is known.
    fn conditional<'g>(&self, _scope: &Scope<'g>, _z: Expr<'g>, _coordinate: usize) -> Option<Conditional<'g>> {
        None
    }

    /// The observations, one row for each row of z, for densities that are networks of (x, z).
    fn data<'g>(&self, _scope: &Scope<'g>) -> Option<Expr<'g>> {
        None
    }

    /// Whether its log density is estimated from a subset of the observations during training.
    fn is_subsampled(&self) -> bool {
        false
    }

    /// The ranks that share it, if it is shared: they evaluate it together, and decide alike.
    fn ranks(&self) -> Option<Ranks> {
        None
    }

    /// The element type to compute in.
    fn dtype(&self) -> DType {
        DType::F64
    }
}

/// The distribution of one coordinate given the others; each expression is one number per row.
pub enum Conditional<'g> {
    /// A Gaussian.
    Gaussian {
        /// Its means.
        mean: Expr<'g>,
        /// Its standard deviations.
        sd: Expr<'g>,
    },
    /// Any other, by its quantile function (of uniform draws) and its log density.
    Quantile {
        /// The quantile function at the given values.
        quantile: Box<dyn Fn(Expr<'g>) -> Expr<'g> + 'g>,
        /// The log density at the given values.
        log_density: Box<dyn Fn(Expr<'g>) -> Expr<'g> + 'g>,
    },
}

/// A target made of a dimension and a function; see [`target`].
pub struct FromFn<F> {
    dim: usize,
    log_density: F,
}

/// A target from a function of rows of z.
///
/// ```
/// // A standard normal in three dimensions.
/// let normal = mcvi::target(3, |_, z| z.square().sum(&[1]) * -0.5);
/// # use mcvi::Target; assert_eq!(normal.dim(), 3);
/// ```
pub fn target<F>(dim: usize, log_density: F) -> FromFn<F>
where
    F: for<'g> Fn(&Scope<'g>, Expr<'g>) -> Expr<'g> + Send + Sync,
{
    FromFn { dim, log_density }
}

impl<F> Target for FromFn<F>
where
    F: for<'g> Fn(&Scope<'g>, Expr<'g>) -> Expr<'g> + Send + Sync,
{
    fn dim(&self) -> usize {
        self.dim
    }
    fn log_density<'g>(&self, scope: &Scope<'g>, z: Expr<'g>) -> Expr<'g> {
        (self.log_density)(scope, z)
    }
}

/// A point, with the target's log density and its gradient there. Unused parts cost nothing.
#[derive(Clone, Copy, Debug)]
pub struct Point<'g> {
    /// The point: [rows, dim].
    pub z: Expr<'g>,
    /// The log density of each row.
    pub log_p: Expr<'g>,
    /// Its gradient: [rows, dim].
    pub gradient: Expr<'g>,
}

/// The target as a step sees it: the posterior itself, or a bridge to it.
pub struct Landscape<'a, 'g> {
    pub(crate) target: &'a dyn Target,
    pub(crate) scope: Scope<'g>,
    /// The bridge that an annealed step sees instead.
    pub(crate) bridge: Option<Bridge<'a, 'g>>,
    /// Where it has been evaluated before, in an earlier iteration of a loop.
    pub(crate) known: Option<Ends<'g>>,
}

/// The two ends of a bridge at a point: p(x, z), and q₀(z|x) if there is a bridge.
#[derive(Clone, Copy)]
pub(crate) struct Ends<'g> {
    pub p: Point<'g>,
    pub q0: Option<Point<'g>>,
}

/// A density between q₀ and p, on a path.
pub(crate) struct Bridge<'a, 'g> {
    pub path: &'a AnyPath,
    pub beta: Expr<'g>,
    pub log_q0: Box<dyn Fn(Expr<'g>) -> Result<Expr<'g>> + 'a>,
}

impl<'g> Landscape<'_, 'g> {
    /// The log density and its gradient at z.
    pub fn at(&self, z: Expr<'g>) -> Result<Point<'g>> {
        let Ends { p, q0 } = self.ends(z)?;
        match (&self.bridge, q0) {
            (Some(bridge), Some(q0)) => bridge.path.between(bridge.beta, q0, p),
            _ => Ok(p),
        }
    }

    /// Both ends of the bridge at z, their gradients taken apart, so that steps that meet at z share them whatever their β.
    pub(crate) fn ends(&self, z: Expr<'g>) -> Result<Ends<'g>> {
        if let Some(known) = self.known.filter(|known| known.p.z.is_same(z)) {
            return Ok(known);
        }
        // Rows are independent, so the gradient of the sum holds every row's gradient.
        let point = |log_p: Expr<'g>| -> Result<Point<'g>> {
            Ok(Point { z, log_p, gradient: grad(log_p.sum_all(), &[z.opaque()])?[0] })
        };
        let q0 = self.bridge.as_ref().map(|bridge| point((bridge.log_q0)(z.opaque())?)).transpose()?;
        Ok(Ends { p: point(evaluate(self.target, &self.scope, z)?)?, q0 })
    }

    /// The log density of each row of z.
    pub fn log_density(&self, z: Expr<'g>) -> Result<Expr<'g>> {
        Ok(self.at(z)?.log_p)
    }

    /// The distribution of one coordinate of z given the others.
    pub fn conditional(&self, z: Expr<'g>, coordinate: usize) -> Result<Conditional<'g>> {
        let given = match self.bridge {
            None => self.target.conditional(&self.scope, z, coordinate),
            Some(_) => None,
        };
        let why = || match self.bridge {
            None => "has no conditional distributions; implement `Target::conditional`, or use another transition",
            Some(_) => "is annealed, and a bridge has no known conditional distributions; use another transition",
        };
        given.ok_or_else(|| Error::Target { why: format!("it {} than Gibbs or over-relaxation", why()) })
    }
}

/// Numbers of one array that depends on z.
const NUMBERS: usize = 1 << 21;
/// Rows that are evaluated at once even so.
const FEWEST: usize = 8;

/// How many rows of z, at most `most`, are evaluated at once: fewer where each sums over very many observations. It depends on the
/// target alone.
pub(crate) fn rows_at_once(target: &dyn Target, most: usize) -> usize {
    let compile = Compile {
        dtype: target.dtype(),
        rows: 1,
        choices: Choices::Sample,
        initialisation: &Initialisation::standard(target.dim()),
        params: &Params::default(),
        hardware: Hardware::default(),
    };
    let mut widest = 1;
    let built = compile.params(|scope| {
        let z = scope.graph().input("z", target.dtype(), [1, target.dim()]);
        widest = evaluate(target, scope, z)?.widest(z).max(1);
        Ok(())
    });
    // What cannot be built is reported where it is needed.
    let rows = built.map_or(most, |_| (NUMBERS / widest).max(FEWEST).min(most));
    agreed(target.ranks(), rows as f64) as usize
}

/// log p(x, z), checked to be one number per row.
pub(crate) fn evaluate<'g>(target: &dyn Target, scope: &Scope<'g>, z: Expr<'g>) -> Result<Expr<'g>> {
    // Opaque, so that the gradient is not lost if z was joined from coordinates and is taken apart again.
    let log_p = target.log_density(scope, z.opaque());
    if let Some(error) = log_p.error() {
        return Err(error.into());
    }
    let rows = z.shape().dims()[0];
    if log_p.shape().dims() != [rows] {
        let why = format!(
            "its log density has shape {} for z of shape {}, not one number per row; sum over axis 1",
            log_p.shape(),
            z.shape()
        );
        return Err(Error::Target { why });
    }
    Ok(log_p)
}
