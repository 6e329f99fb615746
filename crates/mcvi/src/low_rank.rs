//! Covariances of thousands of dimensions: independent coordinates, stretched or shrunk along a few directions.
//!
//! Σ = S(I + V(G² − I)Vᵀ)S, with S and G diagonal and k orthonormal columns V. Its symmetric root L = S(I + V(G − I)Vᵀ), the
//! inverse of that and its determinant cost O(dk). V and G come from Lanczos' method (Golub & Van Loan, *Matrix computations*,
//! section 10.3): the eigenvectors of a matrix of unit diagonal whose eigenvalues are furthest from one, by products with it alone.

use crate::error::{Error, Result};
use crate::seed::derive_seed;
use nalgebra::{DMatrix, DVector, SymmetricEigen};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// The most directions, unless asked for.
pub(crate) const RANK: usize = 64;
/// Products beyond two for each direction: the outermost eigenvalues converge first, on both sides.
const MORE: usize = 32;
/// Eigenvalues of a curvature that are as near to one, as logarithms, are not kept.
const EVEN: f64 = 0.02;
/// Rounds of a factor analysis.
const ROUNDS: usize = 4;
/// The smallest share of a variance that is left to its coordinate alone.
const UNIQUE: f64 = 1e-6;
/// A direction along which an eigenvalue is not larger is not kept: what is known of its coordinates must do.
const FLAT: f64 = 1e-8;
/// Random vectors by which what a low rank leaves out is estimated.
const PROBES: usize = 16;
/// What is left of a product that is as short is rounding.
const INVARIANT: f64 = 1e-9;
/// How often the diagonal is corrected, and what need not be.
const CORRECTIONS: usize = 2;
const CORRECTED: f64 = 0.1;

/// A covariance of low rank plus a diagonal.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LowRank {
    /// The diagonal of S.
    pub sd: Vec<f64>,
    /// V, a column for each direction.
    pub directions: DMatrix<f64>,
    /// The diagonal of G: the standard deviations along the directions, in units of S.
    pub gain: Vec<f64>,
}

impl LowRank {
    /// An error unless it is a covariance.
    pub fn new(sd: Vec<f64>, directions: DMatrix<f64>, gain: Vec<f64>) -> Result<Self> {
        let positive = |x: &f64| *x > 0.0 && x.is_finite();
        let k = gain.len();
        let fits = k <= sd.len() && directions.shape() == (sd.len(), k) && sd.iter().chain(&gain).all(positive);
        let orthonormal = || {
            let off = directions.tr_mul(&directions) - DMatrix::identity(k, k);
            off.iter().all(|x| x.abs() < 1e-6)
        };
        if !fits || !orthonormal() {
            let why = "needs positive standard deviations, and orthonormal directions with a positive gain for each";
            return Err(Error::Setting { what: "covariance of low rank", why: why.to_owned() });
        }
        Ok(LowRank { sd, directions, gain })
    }

    /// The covariance whose inverse has these products and about this diagonal. What the low rank leaves out is nearly
    /// diagonal, so that a few random vectors show it; where it is not small, the diagonal is corrected.
    pub fn of_precision(
        diagonal: &[f64],
        rank: usize,
        mut product: impl FnMut(&DVector<f64>) -> Result<DVector<f64>>,
    ) -> Result<Found> {
        let mut diagonal = diagonal.to_vec();
        let mut corrections = CORRECTIONS;
        loop {
            let mut found = LowRank::of_matrix(&diagonal, rank, |x| x.ln().abs() > EVEN, &mut product)?;
            if corrections == 0 || found.beside.amax() < CORRECTED {
                found.covariance = found.covariance.inverse();
                return Ok(found);
            }
            let by = |x: f64| if x.is_finite() { (1.0 + x).clamp(0.25, 4.0) } else { 1.0 };
            diagonal.iter_mut().zip(found.beside.iter()).for_each(|(p, x)| *p *= by(*x));
            corrections -= 1;
        }
    }

    /// The covariance of points around their mean: factors and the variance that they leave to each coordinate alone, by
    /// principal factors. Factors that chance would make as well are not kept (Marchenko & Pastur's law).
    pub fn of_points(points: &[Vec<f64>], mean: &[f64], rank: usize) -> Result<Self> {
        let (n, d) = (points.len() as f64, mean.len());
        let apart: Vec<DVector<f64>> = points.iter().map(|z| DVector::from_fn(d, |i, _| z[i] - mean[i])).collect();
        let variances = apart.iter().fold(DVector::zeros(d), |sum, e| sum + e.map(|x| x * x) / n);
        let chance = (1.0 + (d as f64 / n).sqrt()).powi(2);
        let mut unique = variances.clone();
        let mut round = || {
            let product = |v: &DVector<f64>| {
                let mut sum = DVector::zeros(d);
                apart.iter().for_each(|e| sum.axpy(e.dot(v) / n, e, 1.0));
                Ok(sum)
            };
            let found = LowRank::of_matrix(unique.as_slice(), rank, |x| x > chance, product)?.covariance;
            let scale = found.scale();
            for i in 0..d {
                let shared = scale[i].powi(2) - found.sd[i].powi(2);
                unique[i] = (variances[i] - shared).max(UNIQUE * variances[i]);
            }
            Ok(found)
        };
        (1..ROUNDS).try_for_each(|_| round().map(drop))?;
        round()
    }

    /// The matrix with these products, as S(I + V(G² − I)Vᵀ)S with the square of S given and the eigenvalues G² that
    /// are to be kept.
    fn of_matrix(
        diagonal: &[f64],
        rank: usize,
        keep: impl Fn(f64) -> bool,
        mut product: impl FnMut(&DVector<f64>) -> Result<DVector<f64>>,
    ) -> Result<Found> {
        let d = diagonal.len();
        let usable = |x: f64| x.abs() > 0.0 && x.is_finite();
        let sd = DVector::from_iterator(d, diagonal.iter().map(|x| if usable(*x) { x.abs().sqrt() } else { 1.0 }));
        let mut scaled =
            |v: &DVector<f64>| -> Result<DVector<f64>> { Ok(product(&v.component_div(&sd))?.component_div(&sd)) };
        let mut rng = StdRng::seed_from_u64(derive_seed(0, "Lanczos"));
        let mut signs = || DVector::from_fn(d, |_, _| if rng.random::<bool>() { 1.0 } else { -1.0 });
        let (values, vectors) = lanczos(&mut signs, (2 * rank + MORE).min(d), &mut scaled)?;
        let positive = values.iter().all(|x| *x > FLAT) && diagonal.iter().all(|x| *x > 0.0 && x.is_finite());
        let value = |i: usize| if values[i] > FLAT { values[i] } else { 1.0 };
        let mut order: Vec<usize> = (0..values.len()).filter(|&i| keep(value(i))).collect();
        order.sort_by(|&a, &b| value(b).ln().abs().total_cmp(&value(a).ln().abs()));
        order.truncate(rank);
        let directions = DMatrix::from_fn(d, order.len(), |i, j| vectors[(i, order[j])]);
        let eigenvalues = DVector::from_iterator(order.len(), order.iter().map(|&i| value(i)));
        // ‖M − I − V(Θ − I)Vᵀ‖² by random vectors.
        let (mut left_out, mut beside) = (0.0, DVector::zeros(d));
        for _ in 0..PROBES {
            let v = signs();
            let along = (directions.transpose() * &v).component_mul(&eigenvalues.add_scalar(-1.0));
            let rest = scaled(&v)? - &v - &directions * along;
            left_out += rest.norm_squared() / PROBES as f64;
            beside += v.component_mul(&rest) / PROBES as f64;
        }
        let gain = eigenvalues.iter().map(|x| x.sqrt()).collect();
        let covariance = LowRank { sd: sd.as_slice().to_vec(), directions, gain };
        Ok(Found { covariance, positive, left_out, beside })
    }

    /// The inverse.
    pub fn inverse(&self) -> Self {
        let each = |x: &[f64]| x.iter().map(|x| x.recip()).collect();
        LowRank { sd: each(&self.sd), directions: self.directions.clone(), gain: each(&self.gain) }
    }

    /// Lv.
    pub fn times(&self, v: &DVector<f64>) -> DVector<f64> {
        self.scaled(self.stretched(v, |g| g - 1.0))
    }

    /// L⁻¹v.
    pub fn solve(&self, v: &DVector<f64>) -> DVector<f64> {
        let v = DVector::from_fn(v.len(), |i, _| v[i] / self.sd[i]);
        self.stretched(&v, |g| g.recip() - 1.0)
    }

    /// Lᵀv.
    pub fn transposed(&self, v: &DVector<f64>) -> DVector<f64> {
        self.stretched(&self.scaled(v.clone()), |g| g - 1.0)
    }

    /// log |det L|.
    pub fn log_det(&self) -> f64 {
        self.sd.iter().chain(&self.gain).map(|x| x.ln()).sum()
    }

    /// The standard deviation of each coordinate.
    pub fn scale(&self) -> Vec<f64> {
        let extra = |i: usize| -> f64 {
            (0..self.gain.len()).map(|j| self.directions[(i, j)].powi(2) * (self.gain[j].powi(2) - 1.0)).sum()
        };
        // Rounding must not make it zero.
        (0..self.sd.len()).map(|i| self.sd[i] * (1.0 + extra(i)).max(f64::EPSILON).sqrt()).collect()
    }

    /// The covariance as a matrix.
    pub fn matrix(&self) -> DMatrix<f64> {
        let d = self.sd.len();
        let gain = DVector::from_iterator(self.gain.len(), self.gain.iter().map(|g| g * g - 1.0));
        let inner = &self.directions * DMatrix::from_diagonal(&gain) * self.directions.transpose();
        DMatrix::from_fn(d, d, |i, j| self.sd[i] * self.sd[j] * (inner[(i, j)] + f64::from(i == j)))
    }

    /// (I + V f(G) Vᵀ)v.
    fn stretched(&self, v: &DVector<f64>, f: impl Fn(f64) -> f64) -> DVector<f64> {
        let mut along = self.directions.tr_mul(v);
        along.iter_mut().zip(&self.gain).for_each(|(x, g)| *x *= f(*g));
        v + &self.directions * along
    }

    fn scaled(&self, mut v: DVector<f64>) -> DVector<f64> {
        v.iter_mut().zip(&self.sd).for_each(|(x, s)| *x *= s);
        v
    }
}

/// A covariance of low rank that was found.
pub(crate) struct Found {
    pub covariance: LowRank,
    /// Whether the matrix was positive definite, as far as could be seen.
    pub positive: bool,
    /// The squared Frobenius norm of what is left out, with the matrix scaled to a unit diagonal.
    pub left_out: f64,
    /// Its diagonal.
    beside: DVector<f64>,
}

/// Ritz values and vectors of a symmetric matrix after some products, every vector made orthogonal to all before. Where they
/// span an invariant space the next begins anew: an eigenvalue may have several vectors.
fn lanczos(
    random: &mut impl FnMut() -> DVector<f64>,
    products: usize,
    product: &mut impl FnMut(&DVector<f64>) -> Result<DVector<f64>>,
) -> Result<(DVector<f64>, DMatrix<f64>)> {
    let mut basis = vec![random().normalize()];
    let (mut diagonal, mut beside) = (vec![], vec![]);
    let orthogonal = |mut v: DVector<f64>, basis: &[DVector<f64>]| {
        // Twice is enough.
        for q in basis.iter().chain(basis) {
            v.axpy(-v.dot(q), q, 1.0);
        }
        v
    };
    loop {
        let last = &basis[basis.len() - 1];
        let next = product(last)?;
        if !next.iter().all(|x| x.is_finite()) {
            let why = "its curvature is not finite where a Gaussian was to be fitted".to_owned();
            return Err(Error::Target { why });
        }
        diagonal.push(next.dot(last));
        if basis.len() == products {
            break;
        }
        let next = orthogonal(next, &basis);
        let norm = next.norm();
        if norm < INVARIANT {
            beside.push(0.0);
            basis.push(orthogonal(random(), &basis).normalize());
        } else {
            beside.push(norm);
            basis.push(next / norm);
        }
    }
    let n = basis.len();
    let tridiagonal = DMatrix::from_fn(n, n, |i, j| match i.abs_diff(j) {
        0 => diagonal[i],
        1 => beside[i.min(j)],
        _ => 0.0,
    });
    let eigen = SymmetricEigen::new(tridiagonal);
    Ok((eigen.eigenvalues, DMatrix::from_columns(&basis) * eigen.eigenvectors))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The precision of many local parameters, each dependent on the same few global ones.
    fn arrow(locals: usize, globals: usize) -> DMatrix<f64> {
        let d = locals + globals;
        DMatrix::from_fn(d, d, |i, j| {
            let (a, b) = (i.min(j), i.max(j));
            match (a < globals, b < globals) {
                _ if i == j && i < globals => 3.0 * locals as f64,
                _ if i == j => 2.0 + (i % 5) as f64,
                (true, false) => 0.5 + ((a + b) % 3) as f64 / 2.0,
                _ => 0.0,
            }
        })
    }

    #[test]
    fn the_covariance_of_a_hierarchy_is_found() {
        let precision = arrow(300, 3);
        let exact = precision.clone().cholesky().unwrap().inverse();
        let found = LowRank::of_precision(precision.diagonal().as_slice(), 12, |v| Ok(&precision * v)).unwrap();
        assert!(found.positive && found.left_out < 1e-12, "{}", found.left_out);
        let error = (found.covariance.matrix() - &exact).amax() / exact.amax();
        assert!(error < 1e-9, "{error}");
    }

    #[test]
    fn root_inverse_and_determinant_are_those_of_the_matrix() {
        let precision = arrow(20, 2);
        let low = LowRank::of_precision(precision.diagonal().as_slice(), 8, |v| Ok(&precision * v)).unwrap().covariance;
        let matrix = low.matrix();
        let v = DVector::from_fn(22, |i, _| (i as f64).sin());
        assert!((low.times(&low.transposed(&v)) - &matrix * &v).amax() < 1e-12);
        assert!((low.solve(&low.times(&v)) - &v).amax() < 1e-12);
        assert!((low.log_det() - 0.5 * matrix.determinant().ln()).abs() < 1e-9);
        assert!((low.inverse().matrix() * &matrix - DMatrix::identity(22, 22)).amax() < 1e-10);
        low.scale().iter().zip(matrix.diagonal().iter()).for_each(|(s, x)| assert!((s * s - x).abs() < 1e-12));
    }

    #[test]
    fn what_is_no_covariance_is_refused() {
        let direction = DMatrix::from_column_slice(2, 1, &[1.0, 1.0]);
        assert!(LowRank::new(vec![1.0, 1.0], direction, vec![2.0]).is_err());
        assert!(LowRank::new(vec![1.0, 0.0], DMatrix::zeros(2, 0), vec![]).is_err());
        let indefinite = DMatrix::from_diagonal(&DVector::from_vec(vec![1.0, -2.0, 3.0]));
        let found = LowRank::of_precision(&[1.0, -2.0, 3.0], 2, |v| Ok(&indefinite * v)).unwrap();
        assert!(!found.positive && found.covariance.log_det().is_finite());
    }
}
