//! What follows from draws for very many observations: part by part, each on the rank that holds its data.

use super::builder::{Builder, Observed, Source};
use super::definition::{Model, scope};
use super::quantity::{Quantities, Quantity};
use super::replicate::Collector;
use crate::error::Result;
use crate::hardware::Hardware;
use crate::scope::Choices;
use crate::seed::derive_seed;
use mcvi_expr::{Array, DType, Graph, Parts};
use rand::SeedableRng;
use rand::rngs::StdRng;
use std::ops::Range;

/// Numbers of a part that are computed at once.
const NUMBERS: usize = 1 << 22;

impl Model {
    fn shared(&self) -> Hardware {
        Hardware { ranks: self.ranks, ..Hardware::default() }
    }

    /// The parts of the likelihoods of some observations, where they are many and each can be computed alone.
    pub(super) fn parts_of(&self, o: &Observed<'_>) -> Option<Parts> {
        let n = o.data.shape().dims()[0];
        let parts = self.shared().divide(n)?;
        o.log_likelihood.rows(1, parts.rows(parts.mine().start, n)).map(|_| parts)
    }

    /// Add the log likelihoods of the observations with this number, and new observations.
    pub(super) fn follow_parts(
        &self,
        z: &[Vec<f64>],
        (i, parts): (usize, &Parts),
        seed: u64,
        hardware: Hardware,
        plan: &mut Quantities,
    ) -> Result<()> {
        let (mut name, mut shape) = (String::new(), vec![]);
        let (mut likelihoods, mut drawn, mut has_sampler) = (vec![], vec![], false);
        for part in parts.mine() {
            let graph = Graph::new();
            let n = |o: &Observed<'_>| o.data.shape().dims()[0];
            let at_once = |rows: &Range<usize>| (NUMBERS / rows.len()).clamp(1, z.len());
            // How many draws are computed at once depends on the number of observations.
            let one = self.written(&graph, 1)?;
            let rows = parts.rows(part, n(&one.observed[i]));
            let (count, graph) = (at_once(&rows), Graph::new());
            let m = self.written(&graph, count)?;
            let o = &m.observed[i];
            (name, shape, has_sampler) = (o.name.clone(), o.data.shape().dims().to_vec(), o.distribution.has_sampler());
            let mut program = Collector::new(&graph);
            let log_likelihood = o.log_likelihood.rows(1, rows.clone()).unwrap_or(o.log_likelihood);
            program.quantity("log_lik", vec![], log_likelihood);
            let source = has_sampler
                .then(|| program.some_observations(&o.name, &o.distribution, o.log_likelihood, (&o.data, rows)));
            let mut program = program.compile(hardware)?;
            let mut rng = StdRng::seed_from_u64(derive_seed(seed, &format!("part {part} of {name}")));
            for chunk in z.chunks(count) {
                // The last chunk is filled up with its last draw.
                let fill = std::iter::repeat_n(&chunk[chunk.len() - 1], count - chunk.len());
                let values: Vec<f64> = chunk.iter().chain(fill).flatten().copied().collect();
                program.write("z", &Array::new([count, self.dim], values)?)?;
                program.run(1)?;
                let values = program.output("log_lik")?.to_f64();
                likelihoods.extend_from_slice(&values[..values.len() / count * chunk.len()]);
                if let Some(source) = &source {
                    source.draw(&mut program, chunk.len(), &mut rng, &mut drawn)?;
                }
            }
        }
        let n = shape.first().copied().unwrap_or(0);
        let whole = |mine: Vec<f64>, of_one: usize| -> Result<Vec<f64>> {
            let is_whole = parts.mine().len() == parts.total();
            let all = if is_whole { mine } else { self.shared().gather(mine)?.concat() };
            // A part has a row for each draw.
            let mut rest = all.as_slice();
            let mut by_part = vec![];
            for part in 0..parts.total() {
                let own;
                (own, rest) = rest.split_at(parts.rows(part, n).len() * of_one * z.len());
                by_part.push(own.chunks(own.len() / z.len()));
            }
            let mut whole = Vec::with_capacity(all.len());
            for _ in z {
                by_part.iter_mut().filter_map(Iterator::next).for_each(|of_draw| whole.extend_from_slice(of_draw));
            }
            Ok(whole)
        };
        let width = shape.iter().skip(1).product();
        plan.log_likelihood.push(Quantity { name: name.clone(), shape: vec![n], values: whole(likelihoods, 1)? });
        if has_sampler {
            plan.predictive.push(Quantity { name, shape, values: whole(drawn, width)? });
        }
        Ok(())
    }

    /// The model as a function of an input of so many rows.
    fn written<'g>(&self, graph: &'g Graph, rows: usize) -> Result<super::builder::Written<'g>> {
        let input = graph.input("z", DType::F64, [rows, self.dim]);
        let scope = scope(graph, rows, self.dim, Choices::Sample)?;
        Ok(self.write(Builder::new(scope, Source::Free(input), rows, self.replaced())))
    }
}
