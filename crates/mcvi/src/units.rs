//! Typical centre and scale of a quantity: the units in which it is learned.

use crate::dense::Factor;
use crate::low_rank::LowRank;
use nalgebra::DMatrix;
use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

/// Typical centre and scale of a quantity.
#[derive(Clone, Debug)]
pub struct Units {
    /// Centre of each coordinate.
    pub center: Vec<f64>,
    /// Standard deviation of each coordinate.
    pub scale: Vec<f64>,
    /// Standard deviation of each coordinate when the others are held fixed.
    pub conditional: Vec<f64>,
    /// How coordinates depend on each other.
    pub(crate) dependence: Dependence,
}

/// How coordinates depend on each other.
#[derive(Clone, Debug)]
pub(crate) enum Dependence {
    Independent,
    Full(Arc<Covariance>),
    LowRank(Arc<LowRank>),
}

impl Units {
    /// Those of a standard normal.
    pub(crate) fn standard(dim: usize) -> Self {
        let dependence = Dependence::Independent;
        Units { center: vec![0.0; dim], scale: vec![1.0; dim], conditional: vec![1.0; dim], dependence }
    }

    /// The number of coordinates.
    pub fn dim(&self) -> usize {
        self.center.len()
    }

    /// Lower triangular factor of the covariance, row by row. It is computed when it is first asked for.
    pub fn factor(&self) -> Cow<'_, [f64]> {
        let d = self.dim();
        match &self.dependence {
            Dependence::Full(covariance) => covariance.factor().into(),
            Dependence::LowRank(low) => Covariance::new(low.matrix()).factor().to_vec().into(),
            Dependence::Independent => {
                (0..d * d).map(|i| if i / d == i % d { self.scale[i / d] } else { 0.0 }).collect()
            }
        }
    }
}

/// A covariance matrix, and its factor once that was needed.
#[derive(Debug)]
pub(crate) struct Covariance {
    pub matrix: DMatrix<f64>,
    factor: OnceLock<Vec<f64>>,
}

impl Covariance {
    pub fn new(matrix: DMatrix<f64>) -> Arc<Self> {
        Arc::new(Covariance { matrix, factor: OnceLock::new() })
    }

    /// The lower triangular factor, row by row; of the diagonal alone where there is none.
    pub fn factor(&self) -> &[f64] {
        self.factor.get_or_init(|| {
            let diagonal = || DMatrix::from_diagonal(&self.matrix.diagonal().map(f64::sqrt));
            let lower = Factor::new(&self.matrix).map_or_else(diagonal, |factor| factor.lower);
            lower.transpose().as_slice().to_vec()
        })
    }
}
