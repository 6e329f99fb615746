//! What follows from draws of a model: constrained parameters, likelihoods, predictions; and draws from the prior.

use super::Constraint;
use super::builder::{Builder, Declared, Source, Written, noise_name};
use super::definition::{Model, scope};
use super::quantity::{Declaration, Quantities, Quantity};
use super::replicate::{Bounds, Collector, Replicate};
use crate::error::{Error, Result};
use crate::hardware::Hardware;
use crate::scope::Choices;
use crate::seed::derive_seed;
use mcvi_expr::{Array, DType, Graph, Program};
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand_distr::{Distribution as _, StandardNormal};

/// Draws whose quantities are computed in one go.
const ROWS: usize = 1000;

impl Model {
    /// The parameters and generated quantities of free draws z, as an approximation makes them.
    pub fn constrained(&self, z: &[Vec<f64>]) -> Result<Quantities> {
        self.follow(z, None, Hardware::default())
    }

    /// The same, and everything that follows from them: the log likelihood of each observation, and new ones, but for
    /// those whose distribution has no sampler.
    pub fn quantities(&self, z: &[Vec<f64>], seed: u64) -> Result<Quantities> {
        self.follow(z, Some(seed), Hardware::default())
    }

    /// What follows from draws, with a seed also likelihoods and new observations, computed with the hardware given.
    pub(crate) fn follow(&self, z: &[Vec<f64>], seed: Option<u64>, hardware: Hardware) -> Result<Quantities> {
        if z.is_empty() || z.iter().any(|z| z.len() != self.dim) {
            let why = format!("needs at least one draw, of {} numbers each", self.dim);
            return Err(Error::Setting { what: "draws", why });
        }
        let rows = z.len().min(ROWS);
        let graph = Graph::new();
        let scope = scope(&graph, rows, self.dim, Choices::Sample)?;
        let input = graph.input("z", DType::F64, [rows, self.dim]);
        let m = self.write(Builder::new(scope, Source::Free(input), rows, self.replaced()).drawing());
        let (mut program, mut plan) = (Collector::new(&graph), Quantities::default());
        for (declared, declaration) in m.declared.iter().zip(&self.parameters) {
            plan.parameters.push(program.quantity(&declared.name, declaration.shape(), declared.value));
        }
        for (name, value) in &m.generated {
            let shape = value.shape().dims().get(1..).unwrap_or_default().to_vec();
            let shape = if shape == [1] { vec![] } else { shape };
            let rows_of = value.broadcast_to([&[rows], value.shape().dims().get(1..).unwrap_or_default()].concat());
            plan.generated.push(program.quantity(name, shape, rows_of));
        }
        for declared in m.declared.iter().filter(|_| seed.is_some()) {
            let Some(log_prior) = declared.log_prior else { continue };
            plan.log_prior.push(program.quantity(&format!("log_prior.{}", declared.name), vec![], log_prior));
        }
        let (mut sources, mut divided) = (vec![], vec![]);
        for (i, o) in m.observed.iter().enumerate().filter(|_| seed.is_some()) {
            let n = o.data.shape().dims()[0];
            if let Some(parts) = self.parts_of(o) {
                divided.push((i, parts));
                continue;
            }
            plan.log_likelihood.push(program.quantity(&format!("log_lik.{}", o.name), vec![n], o.log_likelihood));
            if o.distribution.has_sampler() {
                let shape = o.data.shape().dims().to_vec();
                plan.predictive.push(Quantity { name: o.name.clone(), shape, values: vec![] });
                sources.push(program.observation(&o.name, &o.distribution, o.log_likelihood, &o.data));
            }
        }
        let mut program = program.compile(hardware)?;
        let mut rng = StdRng::seed_from_u64(seed.unwrap_or(0));
        for chunk in z.chunks(rows) {
            // The last chunk is filled up with its last draw.
            let fill = std::iter::repeat_n(&chunk[chunk.len() - 1], rows - chunk.len());
            let values: Vec<f64> = chunk.iter().chain(fill).flatten().copied().collect();
            write_noise(&mut program, &m.noise, values.chunks(self.dim).map(noise_of))?;
            program.write("z", &Array::new([rows, self.dim], values)?)?;
            program.run(1)?;
            let each = plan.parameters.iter_mut().chain(&mut plan.generated);
            for q in each.chain(&mut plan.log_prior).chain(&mut plan.log_likelihood) {
                let values = program.output(&q.name)?.to_f64();
                q.values.extend(&values[..chunk.len() * q.size()]);
            }
            for (q, source) in plan.predictive.iter_mut().zip(&sources) {
                source.draw(&mut program, chunk.len(), &mut rng, &mut q.values)?;
            }
        }
        let prefixed = plan.log_likelihood.iter_mut().map(|q| (q, "log_lik."));
        for (q, prefix) in prefixed.chain(plan.log_prior.iter_mut().map(|q| (q, "log_prior."))) {
            q.name = q.name.strip_prefix(prefix).unwrap_or(&q.name).to_owned();
        }
        for (i, parts) in divided {
            self.follow_parts(z, (i, &parts), seed.unwrap_or(0), hardware, &mut plan)?;
        }
        Ok(plan)
    }

    /// The free coordinates of draws of the parameters, such as those of [`prior`](Self::prior): the inverse of
    /// [`constrained`](Self::constrained). An error where a value lies on a bound or outside, or where a bound is an expression.
    pub fn unconstrained(&self, parameters: &[Quantity]) -> Result<Vec<Vec<f64>>> {
        let wrong = |why: String| Error::Setting { what: "parameters", why };
        let count = |(q, declared): (&Quantity, &Declaration)| {
            let of = (q.name == declared.name && q.shape == declared.shape()).then(|| q.values.len() / q.size().max(1));
            of.ok_or_else(|| wrong(format!("`{}` is not `{}` as the model declares it", q.name, declared.name)))
        };
        let counts = parameters.iter().zip(&self.parameters).map(count).collect::<Result<Vec<usize>>>()?;
        if parameters.len() != self.parameters.len() || counts.windows(2).any(|pair| pair[0] != pair[1]) {
            return Err(wrong(format!("{} are needed, with as many draws of each", self.parameters.len())));
        }
        let rows = counts.first().copied().unwrap_or(0);
        let graph = Graph::new();
        let scope = scope(&graph, rows.max(1), 1, Choices::Sample)?;
        let m = self.write(Builder::new(scope, Source::Inputs, rows.max(1), self.replaced()));
        let mut z = vec![vec![]; rows];
        for (d, q) in m.declared.iter().zip(parameters) {
            let given_others = self.free_given_others(&graph, (&m, d), parameters)?;
            let values = given_others.as_ref().unwrap_or(&q.values).chunks(q.size().max(1));
            let constraint = if given_others.is_some() { Constraint::Real } else { d.constraint };
            for (z, value) in z.iter_mut().zip(values) {
                let outside =
                    || wrong(format!("`{}` = {value:?} has no free coordinates as {:?}", d.name, d.constraint));
                z.extend(constraint.unconstrain(value).ok_or_else(outside)?);
            }
        }
        Ok(z)
    }

    /// The free coordinates of draws of a parameter, where they depend on other parameters.
    fn free_given_others<'g>(
        &self,
        graph: &'g Graph,
        (m, own): (&Written<'g>, &Declared<'g>),
        parameters: &[Quantity],
    ) -> Result<Option<Vec<f64>>> {
        let Some(free) = own.constraint.free_expr(own.value) else { return Ok(None) };
        // All parameters are inputs, and all inputs are used.
        let used = m.declared.iter().enumerate().map(|(i, d)| (format!("value/{i}"), d.value));
        let program = used.fold(graph.program(), |program, (name, value)| program.output(&name, value));
        let mut program = program.output("free", free).threads(1).compile()?;
        for (d, q) in m.declared.iter().zip(parameters) {
            program.write(&d.name, &Array::new(d.value.shape(), q.values.clone())?)?;
        }
        program.run(1)?;
        Ok(Some(program.output("free")?.to_f64()))
    }

    /// Draws of the parameters from their priors, and of observations given them. Priors are cut off at the bounds of
    /// their parameters, each as if it were normalised there; what was added by [`Builder::add`] plays no part. Where the
    /// mass within the bounds depends on other parameters, the log density is not that of these draws: see
    /// [the module's conventions](super#conventions).
    ///
    /// [`Error::CannotDraw`] where a prior is [`flat`](super::flat) or next to nothing of it lies within the bounds, or
    /// where a distribution has no sampler.
    pub fn prior(&self, count: usize, seed: u64) -> Result<Quantities> {
        self.draw_prior(count, seed, true)
    }

    /// The same, of parameters alone unless observations are asked for.
    pub(crate) fn draw_prior(&self, count: usize, seed: u64, observations: bool) -> Result<Quantities> {
        if count == 0 {
            return Err(Error::Setting { what: "draws", why: "at least one is needed".to_owned() });
        }
        let graph = Graph::new();
        let scope = scope(&graph, count, 1, Choices::Sample)?;
        let m = self.write(Builder::new(scope, Source::Inputs, count, self.replaced()).drawing());
        let cannot = |name: &str, why: String| Err(Error::CannotDraw { name: name.to_owned(), why });
        if let Some(d) = m.declared.iter().find(|d| d.prior.is_flat()) {
            return cannot(&d.name, "its prior is flat; give it a proper one, such as `normal(0.0, 10.0)`".to_owned());
        }
        let priors = m.declared.iter().map(|d| (&d.name, &d.prior));
        let likelihoods = m.observed.iter().map(|o| (&o.name, &o.distribution));
        if let Some((name, distribution)) = priors.chain(likelihoods).find(|(_, d)| !d.has_sampler()) {
            return cannot(
                name,
                format!("its distribution, {}, has no sampler; give it one, `with_sampler`", distribution.name()),
            );
        }
        let mut collect = Collector::new(&graph);
        let zeros: Vec<Array> =
            m.declared.iter().map(|d| Array::filled(DType::F64, d.value.shape(), 0.5)).collect::<Result<_, _>>()?;
        let priors: Vec<Replicate<'_>> = m.declared.iter().map(|d| collect.prior(&d.name, &d.prior, d.value)).collect();
        let bounds: Vec<Bounds> =
            m.declared.iter().map(|d| collect.bounds(&format!("bound.{}", d.name), d.constraint, d.value)).collect();
        let likelihoods: Vec<Replicate<'_>> = m
            .observed
            .iter()
            .filter(|_| observations)
            .map(|o| collect.observation(&o.name, &o.distribution, o.log_likelihood, &o.data))
            .collect();
        let mut program = collect.compile(Hardware::with_threads(1))?;
        for (d, zeros) in m.declared.iter().zip(&zeros) {
            program.write(&d.name, zeros)?;
        }
        let noise = (0..count as u64).map(|row| StdRng::seed_from_u64(derive_seed(seed ^ row, "noise")));
        write_noise(&mut program, &m.noise, noise)?;
        let mut rng = StdRng::seed_from_u64(seed);
        let mut drawn = Quantities::default();
        // One parameter after the other: a prior may depend on those declared before.
        for (((d, prior), bounds), declaration) in m.declared.iter().zip(&priors).zip(&bounds).zip(&self.parameters) {
            program.run(1)?;
            let mut values = vec![];
            prior.draw_within(bounds, &mut program, count, &mut rng, &mut values)?;
            if values.len() != d.value.shape().size() {
                return cannot(&d.name, format!("next to nothing of its prior, {:?}, lies within its bounds", d.prior));
            }
            if matches!(d.constraint, Constraint::Ordered | Constraint::PositiveOrdered) {
                values.chunks_mut(d.size).for_each(|v| v.sort_by(f64::total_cmp));
            }
            program.write(&d.name, &Array::new(d.value.shape(), values.clone())?)?;
            drawn.parameters.push(Quantity { name: d.name.clone(), shape: declaration.shape(), values });
        }
        if observations {
            program.run(1)?;
        }
        for (o, likelihood) in m.observed.iter().zip(&likelihoods) {
            let mut values = vec![];
            likelihood.draw(&mut program, count, &mut rng, &mut values)?;
            drawn.predictive.push(Quantity { name: o.name.clone(), shape: o.data.shape().dims().to_vec(), values });
        }
        Ok(drawn)
    }
}

/// Write what is noise, row by row from a generator each; `sizes` in the order of the inputs.
fn write_noise(program: &mut Program, sizes: &[usize], rows: impl Iterator<Item = StdRng>) -> Result<()> {
    if sizes.is_empty() {
        return Ok(());
    }
    let (mut each, mut count) = (vec![vec![]; sizes.len()], 0);
    for mut rng in rows {
        count += 1;
        for (values, size) in each.iter_mut().zip(sizes) {
            values.extend((0..*size).map(|_| -> f64 { StandardNormal.sample(&mut rng) }));
        }
    }
    for (number, (values, size)) in each.into_iter().zip(sizes).enumerate() {
        program.write(&noise_name(number), &Array::new([count, *size], values)?)?;
    }
    Ok(())
}

/// A draw's own noise: equal draws have equal noise.
fn noise_of(z: &[f64]) -> StdRng {
    let mix = |h: u64, x: &f64| derive_seed(h ^ x.to_bits(), "noise");
    StdRng::seed_from_u64(z.iter().fold(0, mix))
}
