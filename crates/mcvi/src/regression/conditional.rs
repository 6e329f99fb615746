//! Effects of a group given all else: coordinates in which they are nearly standard normal and independent of other parameters, and,
//! where errors are normal, their integral.
//!
//! Effects b = Ae of a group, with e standard normal and AAᵀ their covariance, are seen through c = Rb + τε. Given the other parameters
//! e is then normal: the solution of the least-squares problem |RAe − c|² + τ²|e|² and its spread τH⁻¹, with HᵀH = τ²I + (RA)ᵀRA. So z with
//! He = Hê + τz is the coordinate. Without information z is e, the non-centred one; with much it is a centred one, in units of its
//! error: each group has its own place in between. Where the likelihood is not Gaussian, c, R and τ are approximate, and only
//! the coordinates are: the model is the same.
//!
//! A likelihood that is not Gaussian makes z skewed, by its third derivative to leading order; the free coordinate is symmetric.
//!
//! Where the likelihood is Gaussian, the effects of one term need no coordinates: what is left of the problem at its solution, and |H|, are their
//! integral; they are drawn when they are asked for.
//!
//! H is made by rotations of the rows of RA into those of τI. Nothing is subtracted that could cancel: no diagonal element of H is below
//! τ, however alike the columns of RA are, and what is left is a sum of squares.

use crate::model::{Builder, Constraint, normal};
use mcvi_expr::Expr;

/// Most coefficients of a group that are whitened together.
pub(super) const MOST: usize = 4;

/// Bound of what a distribution is skewed by.
const MOST_SKEWED: f64 = 0.6;

/// A matrix with an expression for each element, none where it is 0.
pub(super) type Matrix<'g> = Vec<Vec<Option<Expr<'g>>>>;

/// What the rows of each group say about its coefficients b: c = Rb + τε.
pub(super) struct Seen<'g> {
    /// R: `[groups]`.
    pub factor: Matrix<'g>,
    /// c: `[rows, groups]` for each of its numbers.
    pub response: Vec<Expr<'g>>,
    /// τ: `[rows, 1]` or `[rows, groups]`.
    pub error: Expr<'g>,
    /// Third derivatives of the log likelihood by b: `[groups]` for each of three coefficients; none where it is Gaussian.
    pub third: Vec<Expr<'g>>,
}

/// The conditional distribution of effects e given all else, exactly or nearly.
pub(super) struct Conditional<'g> {
    /// H, with e.0 to e.j in row j.
    h: Matrix<'g>,
    /// Hê
    right: Vec<Option<Expr<'g>>>,
    /// What is left of c.
    rest: Vec<Expr<'g>>,
    error: Expr<'g>,
    /// By how much the distribution of each coordinate is skewed, if it is.
    skewness: Vec<Expr<'g>>,
}

impl<'g> Conditional<'g> {
    /// Of effects with this factor A.
    pub fn new(factor: &Matrix<'g>, seen: &Seen<'g>) -> Self {
        let k = factor.len();
        // A column for each effect, and c.
        let row = |i: usize| {
            let effects = (0..k).map(|j| sum((0..k).map(|d| times(seen.factor[i][d], factor[d][j]))));
            effects.chain([Some(seen.response[i])]).collect::<Vec<_>>()
        };
        let mut below: Matrix<'g> = (0..k).map(row).collect();
        let mut above: Matrix<'g> = vec![vec![None; k + 1]; k];
        for j in (0..k).rev() {
            above[j][j] = Some(seen.error);
            below.iter_mut().for_each(|below| rotate(&mut above[j], below, j));
        }
        let right = above.iter_mut().map(|row| row.pop().flatten()).collect();
        let rest = below.into_iter().filter_map(|mut row| row.pop().flatten()).collect();
        let symmetric = Conditional { h: above, right, rest, error: seen.error, skewness: vec![] };
        let skewness = if seen.third.is_empty() { vec![] } else { symmetric.skewness(factor, &seen.third) };
        Conditional { skewness, ..symmetric }
    }

    /// A third of the third derivative of the log density by each z, to leading order: z is then as skewed as sinh(arsinh u + arsinh s), for
    /// standard normal u. Bounded.
    fn skewness(&self, factor: &Matrix<'g>, third: &[Expr<'g>]) -> Vec<Expr<'g>> {
        let k = self.len();
        let of = |j: usize| {
            // How e, and so b, moves with z.j.
            let mut e: Vec<Option<Expr<'g>>> = vec![None; k];
            for i in j..k {
                let before = sum((j..i).map(|d| times(self.h[i][d], e[d])));
                let own = if i == j { Some(self.error) } else { before.map(|b| -b) };
                e[i] = own.map(|own| own / self.pivot(i));
            }
            // Effects of other terms, of which only the distribution is known, take up their share of a move.
            let share = self.error.square();
            let b: Vec<Option<Expr<'g>>> =
                (0..k).map(|i| sum((0..k).map(|d| times(factor[i][d], e[d]))).map(|b| b / share)).collect();
            let cubes = third.iter().enumerate().map(|(i, third)| {
                let cube = times(times(b[i / k / k], b[i / k % k]), b[i % k]);
                times(cube, Some(*third))
            });
            let s = sum(cubes).map_or(self.error * 0.0, |cubes| cubes / 3.0);
            s / ((s / MOST_SKEWED).square() + 1.0).sqrt()
        };
        (0..k).map(of).collect()
    }

    /// The number of coefficients.
    pub fn len(&self) -> usize {
        self.h.len()
    }

    /// Diagonal element j of H.
    fn pivot(&self, j: usize) -> Expr<'g> {
        self.h[j][j].unwrap_or(self.error)
    }

    /// Row j of He but for its last element, minus that of Hê.
    fn offset(&self, e: &[Expr<'g>]) -> Option<Expr<'g>> {
        let j = e.len();
        let before = sum((0..j).map(|d| times(self.h[j][d], Some(e[d]))));
        sum([before, self.right[j].map(|r| -r)].into_iter())
    }

    /// The next of some effects, for its z.
    fn next(&self, e: &[Expr<'g>], z: Expr<'g>) -> Expr<'g> {
        let noise = z * self.error;
        self.offset(e).map_or(noise, |offset| noise - offset) / self.pivot(e.len())
    }

    /// e, for z.
    pub fn effects(&self, z: &[Expr<'g>]) -> Vec<Expr<'g>> {
        z.iter().fold(vec![], |mut e, z| {
            e.push(self.next(&e, *z));
            e
        })
    }

    /// Declare z, with the prior that makes e standard normal; returns e.
    fn declare(&self, m: &Builder<'g>, names: &[String], groups: usize) -> Vec<Expr<'g>> {
        names.iter().fold(vec![], |mut e, name| {
            let sd = self.pivot(e.len()) / self.error;
            let mean = self.offset(&e).map_or_else(|| m.data(&[0.0]), |offset| offset / self.error);
            let constraint = self.skewness.get(e.len()).map_or(Constraint::Real, |s| Constraint::Skewed((*s).into()));
            let z = m.parameter(name, constraint, groups, normal(mean, sd));
            e.push(self.next(&e, z));
            e
        })
    }

    /// ln of τᵏ/|H|, `[rows, groups]`.
    pub fn log_det(&self) -> Expr<'g> {
        let log = |j: usize| (self.error / self.pivot(j)).ln();
        (1..self.len()).map(log).fold(log(0), |a, b| a + b)
    }

    /// The density of c with e integrated out, but for what it would be if τ²I were its covariance and 0 its value: `[rows, groups]`.
    pub fn log_integral(&self) -> Expr<'g> {
        self.rest.iter().fold(self.log_det(), |sum, rest| sum - (*rest / self.error).square() * 0.5)
    }
}

/// Declare the coordinates of effects with this factor A, with the prior that makes e standard normal; returns e.
pub(super) fn declare<'g>(
    m: &Builder<'g>,
    names: &[String],
    groups: usize,
    factor: &Matrix<'g>,
    seen: Option<&Seen<'g>>,
) -> Vec<Expr<'g>> {
    match seen {
        Some(seen) => Conditional::new(factor, seen).declare(m, names, groups),
        None => names.iter().map(|name| m.reals(name, groups, normal(0.0, 1.0))).collect(),
    }
}

/// Turn two rows so that element j of the second becomes 0.
fn rotate<'g>(above: &mut [Option<Expr<'g>>], below: &mut [Option<Expr<'g>>], j: usize) {
    let (Some(a), Some(b)) = (above[j], below[j].take()) else { return };
    let length = (a.square() + b.square()).sqrt();
    let (cos, sin) = (a / length, b / length);
    for d in (0..above.len()).filter(|d| *d != j) {
        let (x, y) = (above[d], below[d]);
        above[d] = sum([x.map(|x| x * cos), y.map(|y| y * sin)].into_iter());
        below[d] = sum([y.map(|y| y * cos), x.map(|x| -(x * sin))].into_iter());
    }
    above[j] = Some(length);
}

fn times<'g>(a: Option<Expr<'g>>, b: Option<Expr<'g>>) -> Option<Expr<'g>> {
    a.zip(b).map(|(a, b)| a * b)
}

fn sum<'g>(terms: impl Iterator<Item = Option<Expr<'g>>>) -> Option<Expr<'g>> {
    terms.flatten().reduce(|a, b| a + b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mcvi_expr::{Array, DType, Graph};

    /// The integral over two effects seen through R = I by A = [a 0; b c]: by the determinant of τ²I + AAᵀ and its adjugate.
    fn exact(tau: f64, [a, b, c]: [f64; 3], [x, y]: [f64; 2]) -> f64 {
        let (det, sum) = (a * c, a * a + b * b + c * c);
        let whole = tau.powi(4) + tau * tau * sum + det * det;
        // The adjugate of A times c, and τ²|c|².
        let squares = (c * x).powi(2) + (a * y - b * x).powi(2) + tau * tau * (x * x + y * y);
        2.0 * tau.ln() - 0.5 * whole.ln() - 0.5 * squares / whole
    }

    #[test]
    fn integrals_are_right_however_small_errors_and_however_alike_effects_are() {
        let graph = Graph::new();
        let number = |name: &str| graph.input(name, DType::F64, [1, 1]);
        let factor = vec![vec![Some(number("a")), None], vec![Some(number("b")), Some(number("c"))]];
        let one = Some(graph.full(DType::F64, [1, 1], 1.0));
        let seen = Seen {
            factor: vec![vec![one, None], vec![None, one]],
            response: vec![number("x"), number("y")],
            error: number("tau"),
            third: vec![],
        };
        let conditional = Conditional::new(&factor, &seen);
        let effects = conditional.effects(&[graph.full(DType::F64, [1, 1], 0.0), graph.full(DType::F64, [1, 1], 0.0)]);
        let outputs = graph.program().output("log", conditional.log_integral());
        let outputs = outputs.output("e0", effects[0]).output("e1", effects[1]);
        let mut program = outputs.threads(1).compile().expect("a program");
        for tau in [1e-20, 1e-8, 1e-3, 1.0, 30.0] {
            for gap in [1e-16, 1e-9, 0.1, 1.0_f64] {
                for (sd, c) in [(1.0, [0.3, -0.7]), (1e3, [0.3, -0.7]), (1e-3, [2.0, 1.0])] {
                    // Of effects with a correlation of almost 1.
                    let a = [sd, sd * (1.0 - gap), sd * (gap * (2.0 - gap)).sqrt()];
                    let inputs = [("a", a[0]), ("b", a[1]), ("c", a[2]), ("x", c[0]), ("y", c[1]), ("tau", tau)];
                    for (name, x) in inputs {
                        program.write(name, &Array::new([1, 1], vec![x]).expect("a number")).expect("written");
                    }
                    program.run(1).expect("a run");
                    let mut of = |name: &str| program.output(name).expect("an output").to_f64()[0];
                    let (found, expected) = (of("log"), exact(tau, a, c));
                    let close = (found - expected).abs() < 1e-9 * expected.abs().max(1.0);
                    assert!(close, "τ = {tau}, 1 − ρ = {gap}, sd {sd}: {found}, not {expected}");
                    assert!(of("e0").is_finite() && of("e1").is_finite());
                }
            }
        }
    }
}
