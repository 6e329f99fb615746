//! A model: what its parameters are called, its log density, and everything that follows from draws of it.

use super::builder::{Builder, Observed, Source, Written};
use super::{Constraint, Distribution, Family};
use crate::error::{Error, Result};
use crate::params::Params;
use crate::scope::{Choices, Scope};
use crate::start::Start;
use crate::target::Target;
use mcvi_expr::{Array, DType, Expr, Graph, Program};
use rand::SeedableRng;
use rand::rngs::StdRng;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

/// Draws whose quantities are computed in one go.
const ROWS: usize = 1000;
/// Draws from a prior until one lies within the parameter's bounds, at most.
const TRIES: usize = 10_000;

/// Writes a model with a [`Builder`]. Functions do.
trait Define: Send + Sync {
    fn define<'g>(&self, m: &Builder<'g>);
}

impl<F: for<'g> Fn(&Builder<'g>) + Send + Sync> Define for F {
    fn define<'g>(&self, m: &Builder<'g>) {
        self(m);
    }
}

/// Named, constrained parameters with priors, and observations.
///
/// ```
/// use mcvi::model::{Model, half_cauchy, normal};
///
/// let (y, sigma) = ([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0], [15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0]);
/// let schools = Model::new(move |m| {
///     let mu = m.real("mu", normal(0.0, 5.0));
///     let tau = m.positive("tau", half_cauchy(5.0));
///     let eta = m.reals("eta", 8, normal(0.0, 1.0));
///     let theta = m.generated("theta", mu + tau * eta);
///     let sigma = m.data(&sigma);
///     m.observe("y", &y, normal(theta, sigma));
/// })?;
/// assert_eq!(schools.names()[2], "eta[1]");
/// # Ok::<(), mcvi::Error>(())
/// ```
#[derive(Clone)]
pub struct Model {
    define: Arc<dyn Define>,
    parameters: Vec<Declaration>,
    dim: usize,
    subsampled: bool,
    /// Other values for observations, by name.
    replaced: BTreeMap<String, Vec<f64>>,
    /// Of all that is added to the log density, in order: what has no rows.
    rowless: Vec<bool>,
}

/// A parameter, as declared.
#[derive(Clone, Debug, PartialEq)]
pub struct Declaration {
    /// Its name.
    pub name: String,
    /// What values it may take.
    pub constraint: Constraint,
    /// Elements of a vector, or rows of a matrix.
    pub size: usize,
}

/// Values of something for a number of draws.
#[derive(Clone, Debug, PartialEq)]
pub struct Quantity {
    /// Its name.
    pub name: String,
    /// The shape for one draw: empty for a number.
    pub shape: Vec<usize>,
    /// The values, draw by draw.
    pub values: Vec<f64>,
}

/// What follows from draws of the parameters.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Quantities {
    /// The parameters, constrained.
    pub parameters: Vec<Quantity>,
    /// Generated quantities.
    pub generated: Vec<Quantity>,
    /// The log likelihood of each observation.
    pub log_likelihood: Vec<Quantity>,
    /// New observations, drawn given the parameters.
    pub predictive: Vec<Quantity>,
}

impl Quantity {
    /// The size for one draw.
    pub fn size(&self) -> usize {
        self.shape.iter().product()
    }

    /// The name of each element, as Stan has them: `theta[1]`, `L[1,2]`.
    pub fn names(&self) -> Vec<String> {
        element_names(&self.name, &self.shape)
    }

    /// The values of one element, draw by draw.
    pub fn column(&self, element: usize) -> Vec<f64> {
        self.values.iter().skip(element).step_by(self.size().max(1)).copied().collect()
    }
}

fn element_names(name: &str, shape: &[usize]) -> Vec<String> {
    if shape.is_empty() {
        return vec![name.to_owned()];
    }
    let place = |mut element: usize| {
        let mut index: Vec<String> = vec![];
        for n in shape.iter().rev() {
            index.push((element % n + 1).to_string());
            element /= n;
        }
        index.reverse();
        format!("{name}[{}]", index.join(","))
    };
    (0..shape.iter().product()).map(place).collect()
}

impl Declaration {
    fn shape(&self) -> Vec<usize> {
        match (self.constraint, self.size) {
            (Constraint::CorrelationCholesky, k) => vec![k, k],
            (Constraint::Ordered | Constraint::Simplex, k) => vec![k],
            (_, 1) => vec![],
            (_, k) => vec![k],
        }
    }
}

impl Model {
    /// A model from the function that writes it. The function is run twice to check it.
    pub fn new(define: impl for<'g> Fn(&Builder<'g>) + Send + Sync + 'static) -> Result<Self> {
        let define: Arc<dyn Define> = Arc::new(define);
        // What has rows is what changes with their number: data may by chance be as many as there are rows.
        let (mut model, two) = Model::check(&define, 2)?;
        let (_, three) = Model::check(&define, 3)?;
        model.rowless = two.iter().zip(&three).map(|(two, three)| two == three).collect();
        Ok(model)
    }

    /// The model, not yet knowing what has no rows, and the first extent of all that is added to its log density.
    fn check(define: &Arc<dyn Define>, rows: usize) -> Result<(Self, Vec<Option<usize>>)> {
        let graph = Graph::new();
        let scope = scope(&graph, rows, 1, Choices::Sample)?;
        let m = write(&**define, Builder::new(scope.clone(), Source::Nothing, rows, Rc::default()));
        let bad = |why: String| Err(Error::Target { why });
        if let Some(mistake) = m.mistake {
            return bad(mistake);
        }
        scope.finish()?;
        if let Some(error) = m.log_density.error() {
            return Err(error.into());
        }
        for (name, value) in &m.generated {
            if let Some(error) = value.error() {
                return bad(format!("`{name}`: {error}"));
            }
            if value.shape().dims().first().is_some_and(|first| *first != rows && *first != 1) {
                return bad(format!("`{name}` has shape {}, no row for each draw", value.shape()));
            }
        }
        let dim = m.declared.iter().map(|d| d.constraint.free(d.size)).sum();
        if dim == 0 {
            return bad("it declares no parameter that can vary".to_owned());
        }
        let declare = |d: &super::builder::Declared<'_>| Declaration {
            name: d.name.clone(),
            constraint: d.constraint,
            size: d.size,
        };
        let (parameters, subsampled) = (m.declared.iter().map(declare).collect(), m.subsampled);
        let (rowless, replaced) = (vec![], BTreeMap::new());
        Ok((Model { define: define.clone(), parameters, dim, subsampled, replaced, rowless }, m.added))
    }

    /// The same model of other observations, of as many values each: for simulated data.
    pub fn observing(&self, observations: &[(String, Vec<f64>)]) -> Result<Self> {
        let known = self.observations()?;
        for (name, values) in observations {
            let Some(old) = known.iter().find(|k| k.name == *name) else {
                return Err(Error::Target { why: format!("it observes no `{name}`") });
            };
            if old.values.len() != values.len() {
                let why = format!("`{name}` has {} values, {} were given", old.values.len(), values.len());
                return Err(Error::Target { why });
            }
        }
        Ok(Model { replaced: observations.iter().cloned().collect(), ..self.clone() })
    }

    /// All that the model writes.
    fn write<'g>(&self, m: Builder<'g>) -> Written<'g> {
        write(&*self.define, m)
    }

    fn replaced(&self) -> Rc<BTreeMap<String, Vec<f64>>> {
        Rc::new(self.replaced.clone())
    }

    /// The parameters.
    pub fn parameters(&self) -> &[Declaration] {
        &self.parameters
    }

    /// The name of each element of each parameter.
    pub fn names(&self) -> Vec<String> {
        self.parameters.iter().flat_map(|p| element_names(&p.name, &p.shape())).collect()
    }

    /// The observations, each with its shape.
    pub fn observations(&self) -> Result<Vec<Quantity>> {
        let graph = Graph::new();
        let m = self.write(Builder::new(scope(&graph, 1, 1, Choices::Sample)?, Source::Nothing, 1, self.replaced()));
        let quantity = |o: &Observed<'_>| Quantity {
            name: o.name.clone(),
            shape: o.data.shape().dims().to_vec(),
            values: o.data.to_f64(),
        };
        Ok(m.observed.iter().map(quantity).collect())
    }

    /// The parameters and generated quantities of free draws z, as an approximation makes them.
    pub fn constrained(&self, z: &[Vec<f64>]) -> Result<Quantities> {
        self.follow(z, None)
    }

    /// The same, and everything that follows from them: the log likelihood of each observation, and new ones.
    pub fn quantities(&self, z: &[Vec<f64>], seed: u64) -> Result<Quantities> {
        self.follow(z, Some(seed))
    }

    fn follow(&self, z: &[Vec<f64>], seed: Option<u64>) -> Result<Quantities> {
        if z.is_empty() || z.iter().any(|z| z.len() != self.dim) {
            let why = format!("needs at least one draw, of {} numbers each", self.dim);
            return Err(Error::Setting { what: "draws", why });
        }
        let rows = z.len().min(ROWS);
        let graph = Graph::new();
        let scope = scope(&graph, rows, self.dim, Choices::Sample)?;
        let input = graph.input("z", DType::F64, [rows, self.dim]);
        let m = self.write(Builder::new(scope, Source::Free(input), rows, self.replaced()));
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
        let mut sources = vec![];
        for o in m.observed.iter().filter(|_| seed.is_some()) {
            let n = o.data.shape().dims()[0];
            plan.log_likelihood.push(program.quantity(&format!("log_lik.{}", o.name), vec![n], o.log_likelihood));
            plan.predictive.push(Quantity {
                name: o.name.clone(),
                shape: o.data.shape().dims().to_vec(),
                values: vec![],
            });
            sources.push(program.distribution(&o.name, &o.distribution, o.log_likelihood, &o.data, false));
        }
        let mut program = program.builder.compile()?;
        let mut rng = StdRng::seed_from_u64(seed.unwrap_or(0));
        for chunk in z.chunks(rows) {
            // The last chunk is filled up with its last draw.
            let fill = std::iter::repeat_n(&chunk[chunk.len() - 1], rows - chunk.len());
            let values: Vec<f64> = chunk.iter().chain(fill).flatten().copied().collect();
            program.write("z", &Array::new([rows, self.dim], values)?)?;
            program.run(1)?;
            for q in plan.parameters.iter_mut().chain(&mut plan.generated).chain(&mut plan.log_likelihood) {
                let values = program.output(&q.name)?.to_f64();
                q.values.extend(&values[..chunk.len() * q.size()]);
            }
            for (q, source) in plan.predictive.iter_mut().zip(&sources) {
                source.draw(&mut program, chunk.len(), &mut rng, &mut q.values)?;
            }
        }
        plan.log_likelihood.iter_mut().for_each(|q| q.name = q.name.trim_start_matches("log_lik.").to_owned());
        Ok(plan)
    }

    /// Draws of the parameters from their priors, and of observations given them. Priors are
    /// cut off at the bounds of their parameters. None where a prior is improper, of a family whose draws need a size
    /// the model does not tell, or outside the bounds.
    pub fn prior(&self, count: usize, seed: u64) -> Result<Option<Quantities>> {
        if count == 0 {
            return Err(Error::Setting { what: "draws", why: "at least one is needed".to_owned() });
        }
        let graph = Graph::new();
        let scope = scope(&graph, count, 1, Choices::Sample)?;
        let m = self.write(Builder::new(scope, Source::Inputs, count, self.replaced()));
        if m.declared.iter().any(|d| !d.prior.is_proper()) {
            return Ok(None);
        }
        let mut collect = Collector::new(&graph);
        let zeros: Vec<Array> =
            m.declared.iter().map(|d| Array::filled(DType::F64, d.value.shape(), 0.5)).collect::<Result<_, _>>()?;
        let priors: Vec<DrawFrom> = m
            .declared
            .iter()
            .zip(&zeros)
            .map(|(d, like)| collect.distribution(&format!("prior.{}", d.name), &d.prior, d.value, like, true))
            .collect();
        let likelihoods: Vec<DrawFrom> = m
            .observed
            .iter()
            .map(|o| collect.distribution(&o.name, &o.distribution, o.log_likelihood, &o.data, false))
            .collect();
        let mut program = collect.builder.compile()?;
        for (d, zeros) in m.declared.iter().zip(&zeros) {
            program.write(&d.name, zeros)?;
        }
        let mut rng = StdRng::seed_from_u64(seed);
        let mut drawn = Quantities::default();
        // One parameter after the other: a prior may depend on those declared before.
        for ((d, prior), declaration) in m.declared.iter().zip(&priors).zip(&self.parameters) {
            program.run(1)?;
            let mut values = vec![];
            prior.draw_within(d.constraint, &mut program, count, &mut rng, &mut values)?;
            if values.len() != d.value.shape().size() {
                return Ok(None);
            }
            if d.constraint == Constraint::Ordered {
                values.chunks_mut(d.size).for_each(|v| v.sort_by(f64::total_cmp));
            }
            program.write(&d.name, &Array::new(d.value.shape(), values.clone())?)?;
            drawn.parameters.push(Quantity { name: d.name.clone(), shape: declaration.shape(), values });
        }
        program.run(1)?;
        for (o, likelihood) in m.observed.iter().zip(&likelihoods) {
            let mut values = vec![];
            likelihood.draw(&mut program, count, &mut rng, &mut values)?;
            drawn.predictive.push(Quantity { name: o.name.clone(), shape: o.data.shape().dims().to_vec(), values });
        }
        Ok(Some(drawn))
    }
}

impl Target for Model {
    fn dim(&self) -> usize {
        self.dim
    }

    fn log_density<'g>(&self, scope: &Scope<'g>, z: Expr<'g>) -> Expr<'g> {
        let rows = z.shape().dims().first().copied().unwrap_or(1);
        let m = Builder::new(scope.clone(), Source::Free(z), rows, self.replaced()).knowing(&self.rowless);
        self.write(m).log_density
    }

    fn is_subsampled(&self) -> bool {
        self.subsampled
    }
}

fn write<'g>(define: &dyn Define, m: Builder<'g>) -> Written<'g> {
    define.define(&m);
    m.finish()
}

fn scope<'g>(graph: &'g Graph, rows: usize, dim: usize, choices: Choices) -> Result<Scope<'g>> {
    Scope::new(graph, rows, DType::F64, choices, &Start::standard(dim), &Params::default())
}

/// Outputs of a program under construction.
struct Collector<'g> {
    builder: mcvi_expr::ProgramBuilder<'g>,
}

/// Where the parameters of a distribution are found, to draw from it.
struct DrawFrom {
    family: Family,
    /// Outputs, with the width of each parameter for one element.
    parameters: Vec<(String, usize)>,
    /// Elements for each row.
    elements: usize,
    /// A further parameter that densities read off their value.
    extra: Option<Vec<f64>>,
}

impl<'g> Collector<'g> {
    fn new(graph: &'g Graph) -> Self {
        Collector { builder: graph.program() }
    }

    fn add(&mut self, name: &str, value: Expr<'g>) {
        let builder = std::mem::replace(&mut self.builder, value.graph().program());
        self.builder = builder.output(name, value);
    }

    fn quantity(&mut self, name: &str, shape: Vec<usize>, value: Expr<'g>) -> Quantity {
        self.add(name, value);
        Quantity { name: name.to_owned(), shape, values: vec![] }
    }

    /// Make a distribution's parameters known, one for each element it is a distribution of. Of a parameter every row
    /// is one vector, of data every row has all of them.
    fn distribution(
        &mut self,
        name: &str,
        of: &Distribution<'g>,
        elements: Expr<'g>,
        data: &Array,
        is_parameter: bool,
    ) -> DrawFrom {
        let rows = elements.shape().dims()[0];
        let dims = data.shape().dims();
        let last = dims.last().copied().unwrap_or(1);
        // Axes of one event, for each parameter: none for families of single numbers.
        let (event, extra): (Vec<Vec<usize>>, _) = match of.family {
            Family::CategoricalLogit => (vec![vec![0]], None),
            Family::MultinomialLogit => {
                let trials = data.to_f64().chunks(last).map(|c| c.iter().sum()).collect();
                (vec![vec![last]], Some(trials))
            }
            Family::Dirichlet => (vec![vec![last]], None),
            Family::MultivariateNormalCholesky => (vec![vec![last], vec![last, last]], None),
            Family::LkjCholesky => (vec![vec![]], Some(vec![last as f64])),
            _ => (vec![], None),
        };
        let count = match of.family {
            Family::LkjCholesky => 1,
            Family::MultinomialLogit | Family::Dirichlet | Family::MultivariateNormalCholesky => {
                if is_parameter {
                    1
                } else {
                    dims[..dims.len() - 1].iter().product()
                }
            }
            _ if elements.shape().rank() > 1 => elements.shape().size() / rows,
            _ => 1,
        };
        let parameters = of.parameters.iter().enumerate().map(|(i, p)| {
            let p = p.expr(elements);
            let mut event = event.get(i).cloned().unwrap_or_default();
            if event == [0] {
                event = vec![p.shape().dims().last().copied().unwrap_or(1)];
            }
            let width = event.iter().product();
            let to = [vec![rows, count], event.clone()].concat();
            // What has a row for each vector lacks the axis of elements.
            let lacks = is_parameter && !event.is_empty() && p.shape().rank() == 1 + event.len();
            let p = if lacks { p.expand(1) } else { p };
            (format!("{name}.{i}"), p.broadcast_to(to), width)
        });
        let parameters: Vec<(String, Expr<'g>, usize)> = parameters.collect();
        let known = parameters.iter().all(|(_, p, _)| p.error().is_none());
        let mut outputs = vec![];
        for (name, p, width) in parameters.into_iter().filter(|_| known) {
            self.add(&name, p);
            outputs.push((name, width));
        }
        DrawFrom { family: of.family, parameters: outputs, elements: count, extra }
    }
}

impl DrawFrom {
    /// Draw for the first `rows` rows.
    fn draw(&self, program: &mut Program, rows: usize, rng: &mut StdRng, into: &mut Vec<f64>) -> Result<()> {
        self.draw_within(Constraint::Real, program, rows, rng, into)
    }

    /// The same, cut off at the bounds of a constraint. What lies outside nearly always is left out.
    fn draw_within(
        &self,
        bounds: Constraint,
        program: &mut Program,
        rows: usize,
        rng: &mut StdRng,
        into: &mut Vec<f64>,
    ) -> Result<()> {
        let inside = |x: f64| match bounds {
            Constraint::Positive => x > 0.0,
            Constraint::Lower(low) => x > low,
            Constraint::Upper(high) => x < high,
            Constraint::Interval(low, high) => (low..=high).contains(&x),
            _ => true,
        };
        let values: Vec<(Vec<f64>, usize)> = self
            .parameters
            .iter()
            .map(|(name, width)| Ok((program.output(name)?.to_f64(), *width)))
            .collect::<Result<_>>()?;
        for i in 0..rows * self.elements {
            let mut parameters: Vec<&[f64]> = values.iter().map(|(v, w)| &v[i * w..(i + 1) * w]).collect();
            let extra = self.extra.as_ref().map(|e| [e[i % self.elements % e.len()]]);
            if let Some(extra) = &extra {
                parameters.push(extra);
            }
            let tries = (0..TRIES).map(|_| self.family.draw(&parameters, rng));
            let mut kept = tries.skip_while(|drawn| !drawn.iter().all(|x| x.is_nan() || inside(*x)));
            match kept.next() {
                Some(drawn) => into.extend(drawn),
                None => return Ok(()),
            }
        }
        Ok(())
    }
}
