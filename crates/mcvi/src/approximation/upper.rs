//! Upper bounds from points that are draws of the posterior.

use super::Approximation;
use crate::bound::upper_bound;
use crate::error::{Error, Result};
use crate::limits::{self, within};
use crate::scope::Choices;
use crate::target::rows_at_once;
use mcvi_expr::Array;

/// Rows per evaluation.
const ROWS: usize = 1000;

impl Approximation {
    /// The upper bound's estimate U from each row of z, with its path drawn backwards by the inverse model. The same seed gives
    /// the same paths.
    ///
    /// If a row is a draw from the posterior, E U ≥ log p(x), E exp(−U) = 1/p(x), and so U < log p(x) − b with probability at
    /// most e^−b. The parameters that data were simulated with are such a draw, one for each data set; averages over data
    /// sets bracket the average of log p(x), and E U − E L is the sum of the divergences of both directions. Of draws
    /// that follow the posterior only nearly, U is an estimate and no bound.
    pub fn upper_bounds(&self, z: &[Vec<f64>], seed: u64) -> Result<Vec<f64>> {
        self.check_draws(z)?;
        let (d, dtype) = (self.target.dim(), self.target.dtype());
        let rows = rows_at_once(self.target.as_ref(), z.len().min(ROWS));
        let (mut program, ()) = self.compile(rows, Choices::Sample).program(|scope, program| {
            let z = scope.graph().input("z", dtype, [rows, d]);
            let upper = upper_bound(self.target.as_ref(), &self.chain, scope, z)?;
            Ok((program.seed(seed).output("upper", upper), ()))
        })?;
        let mut all: Vec<f64> = Vec::with_capacity(z.len());
        for chunk in z.chunks(rows) {
            // The last chunk is filled up with its last row.
            let fill = std::iter::repeat_n(&chunk[chunk.len() - 1], rows - chunk.len());
            let values: Vec<f64> = chunk.iter().chain(fill).flatten().copied().collect();
            program.write("z", &Array::new([rows, d], values)?.cast(dtype))?;
            program.run(1)?;
            all.extend(program.output("upper")?.to_f64().iter().take(chunk.len()));
        }
        // A path that cannot be followed says nothing.
        all.iter_mut().filter(|u| u.is_nan()).for_each(|u| *u = f64::INFINITY);
        Ok(all)
    }

    /// An error unless there are draws, of as many coordinates as the target has.
    pub(super) fn check_draws(&self, z: &[Vec<f64>]) -> Result<()> {
        within("draws", z.len(), 1..=limits::DRAWS)?;
        let d = self.target.dim();
        let Some(row) = z.iter().find(|row| row.len() != d) else { return Ok(()) };
        let why = format!("one of them has {} numbers, the target has {d} coordinates", row.len());
        Err(Error::Setting { what: "draws", why })
    }
}
