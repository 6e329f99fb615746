//! Typical centre and scale of a quantity: the units in which it is learned.

/// Typical centre and scale of a quantity.
#[derive(Clone, Debug)]
pub struct Units {
    /// Centre of each coordinate.
    pub center: Vec<f64>,
    /// Standard deviation of each coordinate.
    pub scale: Vec<f64>,
    /// Standard deviation of each coordinate when the others are held fixed.
    pub conditional: Vec<f64>,
    /// Lower triangular factor of the covariance, row by row.
    pub factor: Vec<f64>,
}

impl Units {
    /// Those of a standard normal.
    pub(crate) fn standard(dim: usize) -> Self {
        let factor = (0..dim * dim).map(|i| f64::from(i / dim == i % dim)).collect();
        Units { center: vec![0.0; dim], scale: vec![1.0; dim], conditional: vec![1.0; dim], factor }
    }

    /// The number of coordinates.
    pub fn dim(&self) -> usize {
        self.center.len()
    }
}
