//! A fit as the groups of arrays that ArviZ expects.

use super::result::Outcome;
use crate::store::zarr::{Group, Values, Variable};
use anyhow::Result;
use mcvi::Axes;
use mcvi::model::{Quantities, Quantity};
use serde_json::{Map, Value, json};

/// Number of prior draws in the store.
const PRIOR: usize = 1000;

/// Chains in the store. Draws are independent, so they are chains by name only: for tools that expect several.
const CHAINS: usize = 4;

/// The number of chains and of draws in each. A few draws that make no whole chain are left out.
fn chains(count: usize) -> (usize, usize) {
    if count < 10 * CHAINS { (1, count) } else { (CHAINS, count / CHAINS) }
}

/// At most so many of the draws: as many from each chain, evenly spaced.
pub fn thinned(count: usize, most: usize) -> Vec<usize> {
    let (chains, draws) = chains(count);
    let each = (most / chains).clamp(1, draws);
    (0..chains).flat_map(|chain| (0..each).map(move |i| chain * draws + i * draws / each)).collect()
}

/// A variable with the dimensions chain and draw, followed by its own.
fn variable(q: &Quantity, name: &str, axes: &Axes, chains: usize) -> Variable {
    let size = q.size().max(1);
    let draws = q.values.len() / size / chains;
    let mut dims = vec![("chain".to_owned(), chains), ("draw".to_owned(), draws)];
    dims.extend(axes.of(&q.name, &q.shape).into_iter().zip(q.shape.iter().copied()));
    Variable { name: name.to_owned(), dims, values: Values::F64(q.values[..chains * draws * size].to_vec()) }
}

/// The groups ArviZ expects, from the draws that are written.
pub fn groups(outcome: &Outcome, q: &Quantities, seed: u64) -> Result<Vec<Group>> {
    let (model, draws) = (&outcome.posterior.model, &outcome.draws);
    let attributes: Map<String, Value> = [
        ("inference_library", json!("mcvi")),
        ("inference_library_version", json!(env!("CARGO_PKG_VERSION"))),
        ("draws", json!(if outcome.is_resampled { "resampled by smoothed importance weights" } else { "raw" })),
        ("verdict", json!(outcome.posterior.verdict.kind.word())),
    ]
    .into_iter()
    .map(|(k, v)| (k.to_owned(), v))
    .collect();
    let axes = model.axes();
    let group = |name: &str, mut variables: Vec<Variable>| {
        let labels = axes.labels.iter().map(|(dim, labels)| {
            let dims = vec![(dim.clone(), labels.len())];
            Variable { name: dim.clone(), dims, values: Values::Text(labels.clone()) }
        });
        let used = |label: &Variable| variables.iter().any(|v| v.dims.contains(&label.dims[0]));
        let labels: Vec<Variable> = labels.filter(used).collect();
        variables.extend(labels);
        Group { name: name.to_owned(), attributes: attributes.clone(), variables }
    };
    let in_chains = |list: &[Quantity], chains: usize| -> Vec<Variable> {
        list.iter().map(|q| variable(q, &q.name, &axes, chains)).collect()
    };
    let (count, (chains, each)) = (draws.z.len(), chains(draws.z.len()));
    // Where there are only some of the draws, their coordinates say which.
    let all = |list: &[Quantity]| -> Vec<Variable> {
        let mut variables = in_chains(list, chains);
        let draws = variables.first().map_or(each, |v| v.dims[1].1);
        if draws < each {
            let kept = thinned(count, draws * chains).into_iter().take(draws).map(|i| i as i64).collect();
            let dims = vec![("draw".to_owned(), draws)];
            variables.push(Variable { name: "draw".to_owned(), dims, values: Values::I64(kept) });
        }
        variables
    };
    // As many as draws times observations: in single precision, and compressed.
    let compact = |list: &[Quantity]| -> Vec<Variable> { all(list).into_iter().map(Variable::compact).collect() };
    // Coordinates with labels; the others are numbered.
    let coordinates = model.parameters().into_iter().flat_map(|p| {
        let axis = move |(i, labels): (usize, Vec<String>)| {
            let dim = format!("{}_dim_{i}", p.name);
            Variable { name: dim.clone(), dims: vec![(dim, labels.len())], values: Values::Text(labels) }
        };
        p.labels.into_iter().enumerate().map(axis).collect::<Vec<_>>()
    });
    let coordinates: Vec<Variable> = coordinates.collect();
    let posterior = [all(&q.parameters), all(&q.generated), coordinates.clone()].concat();
    let stat = |name: &str, values: &[f64]| {
        let q = Quantity { name: name.to_owned(), shape: vec![], values: values.to_vec() };
        variable(&q, name, &axes, chains)
    };
    let log_q: Vec<f64> = draws.log_p.iter().zip(&draws.log_weights).map(|(p, w)| p - w).collect();
    let stats = vec![stat("lp", &draws.log_p), stat("log_q", &log_q), stat("log_weight", &draws.log_weights)];
    let mut groups = vec![group("posterior", posterior), group("sample_stats", stats)];
    if !q.log_likelihood.is_empty() {
        groups.push(group("log_likelihood", compact(&q.log_likelihood)));
        groups.push(group("posterior_predictive", compact(&q.predictive)));
        let observed = model.observations()?.into_iter().map(|o| Variable {
            name: o.name.clone(),
            dims: axes.of(&o.name, &o.shape).into_iter().zip(o.shape.iter().copied()).collect(),
            values: Values::F64(o.values),
        });
        groups.push(group("observed_data", observed.collect()));
    }
    if !q.log_prior.is_empty() {
        groups.push(group("log_prior", all(&q.log_prior)));
    }
    match model.prior_parameters(PRIOR, seed) {
        Ok(prior) => {
            let parameters = in_chains(&prior, self::chains(PRIOR).0);
            groups.push(group("prior", [parameters, coordinates].concat()));
        }
        // A flat prior cannot be sampled.
        Err(mcvi::Error::CannotDraw { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(groups)
}

#[cfg(test)]
mod tests {
    use super::thinned;

    #[test]
    fn thinned_draws_are_as_many_of_each_chain() {
        let some = thinned(4000, 50);
        assert_eq!(some.len(), 48);
        for (chain, draws) in some.chunks(12).enumerate() {
            assert!(
                draws[0] == 1000 * chain && draws.windows(2).all(|w| (83..=84).contains(&(w[1] - w[0]))),
                "{draws:?}"
            );
        }
        assert_eq!(thinned(4000, 1), [0, 1000, 2000, 3000]);
        // Too few for several chains.
        assert_eq!(thinned(30, 10), (0..30).step_by(3).collect::<Vec<_>>());
    }
}
