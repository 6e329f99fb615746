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
    /// The number of coordinates.
    pub fn dim(&self) -> usize {
        self.center.len()
    }
}
