//! Algorithm 3 of the paper for one HMC step, as both workloads use it.

use mcvi_expr::{Expr, Result, grad};

/// log p(x, z) for each row, and its gradient in z.
pub struct Point<'g> {
    /// Where.
    pub z: Expr<'g>,
    /// The log density of each row.
    pub log_p: Expr<'g>,
    /// Its gradient.
    pub gradient: Expr<'g>,
}

/// Evaluate a target at z.
pub fn point<'g>(target: &dyn Fn(Expr<'g>) -> Expr<'g>, z: Expr<'g>) -> Result<Point<'g>> {
    let log_p = target(z);
    // Rows are independent, so the gradient of the sum holds every row's gradient.
    let gradient = grad(log_p.sum_all(), &[z])?[0];
    Ok(Point { z, log_p, gradient })
}

/// `leapfrogs` leapfrog steps from a point with momentum `v`: k of them cost k gradients beside the first.
pub fn leapfrog<'g>(
    target: &dyn Fn(Expr<'g>) -> Expr<'g>,
    start: Point<'g>,
    mut v: Expr<'g>,
    eps: Expr<'g>,
    mass: Expr<'g>,
    leapfrogs: usize,
) -> Result<(Point<'g>, Expr<'g>)> {
    let mut at = start;
    if leapfrogs == 0 {
        return Ok((at, v));
    }
    v = v + eps * 0.5 * at.gradient;
    for i in 0..leapfrogs {
        at = point(target, at.z + eps / mass * v)?;
        // The half kick that ends one leapfrog and the one that starts the next are joined.
        v = v + if i + 1 < leapfrogs { eps } else { eps * 0.5 } * at.gradient;
    }
    Ok((at, v))
}
