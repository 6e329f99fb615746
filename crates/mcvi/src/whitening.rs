//! Whitened coordinates: the target as a function of y, where z = c + Ly and LLᵀ is a covariance that is known beforehand.
//!
//! A chain in these coordinates needs no matrices of its own: its Gaussian and its masses are diagonal, and what is learned
//! has one scale. In many dimensions L itself is a diagonal and a few directions.

use crate::hardware::Ranks;
use crate::initialisation::FULL;
use crate::scope::Scope;
use crate::target::Target;
use crate::units::{Dependence, Units};
use mcvi_expr::{DType, Expr, Shape};

/// c and L.
pub(crate) struct Coordinates<'g> {
    center: Expr<'g>,
    root: Root<'g>,
}

enum Root<'g> {
    /// A lower triangular matrix.
    Full(Expr<'g>),
    /// S(I + V(G − I)Vᵀ), by the diagonal of S, a row for each direction, and the diagonal of G.
    LowRank { sd: Expr<'g>, along: Option<[Expr<'g>; 2]> },
}

impl<'g> Coordinates<'g> {
    /// Of these units, by arrays of this name, shape and values.
    pub fn new(units: &Units, array: impl Fn(&str, Shape, &dyn Fn() -> Vec<f64>) -> Expr<'g>) -> Self {
        let d = units.dim();
        let center = array("center", d.into(), &|| units.center.clone());
        let root = match &units.dependence {
            Dependence::LowRank(low) => {
                let k = low.gain.len();
                let directions = array("directions", [k, d].into(), &|| low.directions.as_slice().to_vec());
                let gain = array("gain", k.into(), &|| low.gain.clone());
                let sd = array("sd", d.into(), &|| low.sd.clone());
                Root::LowRank { sd, along: Some([directions, gain]) }
            }
            Dependence::Independent if d > FULL => {
                Root::LowRank { sd: array("sd", d.into(), &|| units.scale.clone()), along: None }
            }
            _ => Root::Full(array("factor", [d, d].into(), &|| units.factor().into_owned())),
        };
        Coordinates { center, root }
    }

    /// z of each row of y.
    pub fn original(&self, y: Expr<'g>) -> Expr<'g> {
        match &self.root {
            Root::Full(factor) => y.matmul(factor.t()) + self.center,
            Root::LowRank { sd, along } => {
                let stretched = along.map_or(y, |[v, gain]| y + (y.matmul(v.t()) * (gain - 1.0)).matmul(v));
                stretched * *sd + self.center
            }
        }
    }

    /// y of each row of z.
    pub fn white(&self, z: Expr<'g>) -> Expr<'g> {
        let apart = z - self.center;
        match &self.root {
            Root::Full(factor) => factor.solve_lower(apart.t()).t(),
            Root::LowRank { sd, along } => {
                let y = apart / *sd;
                along.map_or(y, |[v, gain]| y + (y.matmul(v.t()) * (gain.recip() - 1.0)).matmul(v))
            }
        }
    }

    /// log |det L|.
    pub fn log_volume(&self) -> Expr<'g> {
        match &self.root {
            Root::Full(factor) => {
                let d = factor.shape().dims()[0];
                // The diagonal is every (d + 1)th element.
                factor.reshape([d * d]).slice_step(0, 0..d * d, d + 1).ln().sum(&[0])
            }
            Root::LowRank { sd, along } => {
                let volume = sd.ln().sum(&[0]);
                along.map_or(volume, |[_, gain]| volume + gain.ln().sum(&[0]))
            }
        }
    }
}

/// A target in whitened coordinates. c and L are those of the initialisation, saved with the parameters.
pub(crate) struct Whitened<'a>(pub &'a dyn Target);

impl Whitened<'_> {
    /// z of each row of y.
    pub fn original<'g>(scope: &Scope<'g>, y: Expr<'g>) -> Expr<'g> {
        Whitened::coordinates(scope).original(y)
    }

    /// y of each row of z.
    pub fn white<'g>(scope: &Scope<'g>, z: Expr<'g>) -> Expr<'g> {
        Whitened::coordinates(scope).white(z)
    }

    /// log |det L|.
    pub fn log_volume<'g>(scope: &Scope<'g>) -> Expr<'g> {
        Whitened::coordinates(scope).log_volume()
    }

    fn coordinates<'g>(scope: &Scope<'g>) -> Coordinates<'g> {
        let (scope, units) = (scope.root().child("whitening"), scope.positions());
        Coordinates::new(&units, |name, shape, values| scope.fixed(name, shape, values))
    }
}

impl Target for Whitened<'_> {
    fn dim(&self) -> usize {
        self.0.dim()
    }

    fn log_density<'g>(&self, scope: &Scope<'g>, y: Expr<'g>) -> Expr<'g> {
        self.0.log_density(scope, Whitened::original(scope, y)) + Whitened::log_volume(scope)
    }

    fn data<'g>(&self, scope: &Scope<'g>) -> Option<Expr<'g>> {
        self.0.data(scope)
    }

    fn is_subsampled(&self) -> bool {
        self.0.is_subsampled()
    }
    fn ranks(&self) -> Option<Ranks> {
        self.0.ranks()
    }

    fn dtype(&self) -> DType {
        self.0.dtype()
    }
}
