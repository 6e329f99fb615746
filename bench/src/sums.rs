//! Sums over ranks: what one takes.

use anyhow::Result;
use mcvi_cli::ranks::{Session, joined};
use mcvi_expr::{Array, Graph, Parts, Program};
use std::time::Instant;

/// Microseconds of a sum of one part for each rank, `count` times.
fn times(parts: &Parts, bytes: f64, count: usize) -> Result<Vec<f64>> {
    let (graph, held, len) = (Graph::new(), parts.mine().len(), ((bytes / 4.0) as usize).max(1));
    let part = graph.state("part", Array::new([held, len], vec![0.5_f32; held * len])?);
    let builder = graph.program().threads(1).output("sum", part.sum_over_parts(parts));
    let mut program: Program = builder.compile()?;
    program.run(3)?;
    let mut one = || {
        let since = Instant::now();
        program.run(1)?;
        Ok(since.elapsed().as_secs_f64() * 1e6)
    };
    (0..count).map(|_| one()).collect()
}

fn quantile(sorted: &[f64], share: f64) -> f64 {
    sorted[((sorted.len() - 1) as f64 * share) as usize]
}

/// A table of times, printed by the first rank.
pub fn run(megabytes: &[f64], count: usize) -> Result<()> {
    let session = Session::start()?;
    let (rank, ranks) = joined().map_or((0, 1), |ranks| ranks.place());
    for size in megabytes {
        let parts = joined().map_or_else(|| Ok(Parts::alone(1)), |joined| joined.parts(ranks))?;
        let mut took = times(&parts, size * 1e6, count)?;
        took.sort_by(f64::total_cmp);
        if rank == 0 {
            let [low, median, high] = [0.1, 0.5, 0.9].map(|share| quantile(&took, share));
            println!("{ranks} ranks, {size} MB: {median:.0} us ({low:.0} to {high:.0} in 80 % of {count})");
        }
    }
    session.end(0);
    Ok(())
}
