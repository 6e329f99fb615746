//! Cholesky factors of matrices of thousands of rows: by halves, so that nearly all work is in matrix products.

use nalgebra::DMatrix;

/// Rows up to which a matrix is factored directly.
const SMALL: usize = 64;

/// A lower triangular factor of a positive definite matrix, and the inverse of that factor.
pub(crate) struct Factor {
    /// L with LLᵀ the matrix.
    pub lower: DMatrix<f64>,
    /// L⁻¹.
    pub inverse: DMatrix<f64>,
}

impl Factor {
    /// The factor of a symmetric matrix, of which the lower triangle is read; none if it is not positive definite.
    pub fn new(matrix: &DMatrix<f64>) -> Option<Self> {
        let n = matrix.nrows();
        if n <= SMALL {
            let lower = matrix.clone().cholesky()?.unpack();
            let inverse = lower.solve_lower_triangular(&DMatrix::identity(n, n))?;
            return Some(Factor { lower, inverse });
        }
        // [A Bᵀ; B C] has the factor [L 0; M N] with LLᵀ = A, M = BL⁻ᵀ and NNᵀ = C − MMᵀ, whose inverse has −N⁻¹ML⁻¹ below.
        let (h, r) = (n / 2, n - n / 2);
        let top = Factor::new(&matrix.view((0, 0), (h, h)).into_owned())?;
        let below = matrix.view((h, 0), (r, h)) * top.inverse.transpose();
        let bottom = Factor::new(&(matrix.view((h, h), (r, r)) - &below * below.transpose()))?;
        let inverse_below = -(&bottom.inverse * (&below * &top.inverse));
        let join = |top: &DMatrix<f64>, below: &DMatrix<f64>, bottom: &DMatrix<f64>| {
            let mut whole = DMatrix::zeros(n, n);
            whole.view_mut((0, 0), (h, h)).copy_from(top);
            whole.view_mut((h, 0), (r, h)).copy_from(below);
            whole.view_mut((h, h), (r, r)).copy_from(bottom);
            whole
        };
        let lower = join(&top.lower, &below, &bottom.lower);
        Some(Factor { lower, inverse: join(&top.inverse, &inverse_below, &bottom.inverse) })
    }

    /// The inverse of the matrix.
    pub fn matrix_inverse(&self) -> DMatrix<f64> {
        // nalgebra's product with a transposed matrix is a loop over columns; with a copy it is a blocked one.
        self.inverse.transpose() * &self.inverse
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_factor_and_its_inverse_reproduce_the_matrix() {
        for n in [1, 5, 64, 65, 150] {
            let matrix = DMatrix::from_fn(n, n, |i, j| (-(i.abs_diff(j) as f64) / 7.0).exp());
            let factor = Factor::new(&matrix).unwrap();
            assert!((&factor.lower * factor.lower.transpose() - &matrix).amax() < 1e-13);
            assert!((&factor.lower * &factor.inverse - DMatrix::identity(n, n)).amax() < 1e-13);
            assert!((factor.matrix_inverse() * matrix - DMatrix::identity(n, n)).amax() < 1e-12);
        }
        let mut indefinite = DMatrix::identity(150, 150);
        indefinite[(140, 140)] = -1.0;
        assert!(Factor::new(&indefinite).is_none());
    }
}
