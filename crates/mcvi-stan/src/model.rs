//! A program with its data as a model of `mcvi`.

use crate::columns;
use crate::data;
use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::posterior::{Generated, Posterior, SUMMARISED};
use crate::program::Program;
use crate::simulate::Simulated;
use mcvi::model::{Quantities, Quantity};
use mcvi::{
    About, Array, BayesianModel, DType, DataDigest, Error, Expr, Hardware, Parameter, Result, Scope, Source, Target,
    derive_seed,
};
use mcvi_expr::Graph;
use serde_json::{Value as Json, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The kind of source that a saved run of a Stan program has.
pub const KIND: &str = "stan";
/// The generated quantity that holds the log likelihood of each observation, by convention.
const LOG_LIKELIHOOD: &str = "log_lik";
/// Draws whose parameters are computed at once.
const ROWS: usize = 500;

/// Why a program or its data cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// A file that cannot be read.
    #[error("{path}: {why}")]
    File {
        /// The file.
        path: String,
        /// What is wrong with it.
        why: String,
    },
    /// Mistakes in the program or its data, or what is not supported.
    #[error(transparent)]
    Program(#[from] Box<Diagnostics>),
}

/// Where a program is.
#[derive(Clone, Debug)]
pub enum ProgramText {
    /// In a file, with what it includes beside it.
    File(PathBuf),
    /// Here.
    Text(String),
}

/// Where the data of a program are.
#[derive(Clone, Debug)]
pub enum ProgramData {
    /// In a file of JSON, or of CSV with a column for each item.
    File(PathBuf),
    /// Here: an object of JSON.
    Values(Json),
}

impl ProgramData {
    fn of_file(path: Option<&Path>) -> Self {
        path.map_or_else(|| ProgramData::Values(json!({})), |path| ProgramData::File(path.to_owned()))
    }
}

/// A Stan program with its data.
#[derive(Clone, Debug)]
pub struct StanModel {
    posterior: Posterior,
    name: String,
    source: Option<Source>,
    /// The data as given.
    items: Json,
}

impl StanModel {
    /// Compiles the text of a program with data, an object of JSON.
    ///
    /// ```
    /// use mcvi::{BayesianModel, log_density};
    /// use mcvi_stan::StanModel;
    ///
    /// let program = "data { int N; vector[N] y; } parameters { real mu; } model { y ~ normal(mu, 1); }";
    /// let model = StanModel::compile(program, &serde_json::json!({ "N": 2, "y": [0.5, 1.5] }))?;
    /// assert_eq!(model.names(), ["mu"]);
    /// let expected = -0.25 - (2.0 * std::f64::consts::PI).ln();
    /// assert!((log_density(&model, &[vec![1.0]])?[0] - expected).abs() < 1e-12);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn compile(source: &str, data: &Json) -> std::result::Result<StanModel, Box<Diagnostics>> {
        let program = Program::read("model.stan", source, &|_| None)?;
        let posterior = Posterior::new(&program, data)?;
        Ok(StanModel { posterior, name: "model".to_owned(), source: None, items: data.clone() })
    }

    /// Opens a program's file, what it includes from its folder, and a file of data: JSON, or CSV with a column for each item.
    pub fn open(program: &Path, data: Option<&Path>) -> std::result::Result<StanModel, OpenError> {
        StanModel::from_parts(ProgramText::File(program.to_owned()), ProgramData::of_file(data))
    }

    /// Compiles a program with its data, either of which may be in a file or at hand. What is at hand is kept in the
    /// [`Source`] as it is.
    pub fn from_parts(program: ProgramText, data: ProgramData) -> std::result::Result<StanModel, OpenError> {
        let mut source = serde_json::Map::new();
        let full = |path: &Path| json!(std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()));
        let (checked, name) = match program {
            ProgramText::File(path) => {
                source.insert("program".to_owned(), full(&path));
                (read_program(&path)?, path.file_stem().map_or_else(String::new, |s| s.to_string_lossy().into_owned()))
            }
            ProgramText::Text(text) => {
                let program = Program::read("model.stan", &text, &|_| None)?;
                source.insert("text".to_owned(), json!(text));
                (program, "model".to_owned())
            }
        };
        let items = match data {
            ProgramData::File(path) => {
                source.insert("data".to_owned(), full(&path));
                let text = read(&path)?;
                match path.extension().is_some_and(|e| e.eq_ignore_ascii_case("csv")) {
                    true => columns::read(&text, &checked.tree).map_err(|why| file(&path, &why))?,
                    false => data::parse(&text).map_err(|why| file(&path, &why))?,
                }
            }
            ProgramData::Values(values) => {
                if values.as_object().is_some_and(|items| !items.is_empty()) {
                    source.insert("values".to_owned(), values.clone());
                }
                values
            }
        };
        let posterior = Posterior::new(&checked, &items)?;
        let source = Some(Source { kind: KIND.to_owned(), settings: source });
        let model = StanModel { posterior, name, source, items };
        model.check_generated()?;
        Ok(model)
    }

    /// Opens the program and data of a saved run again.
    pub fn reopen(source: &Source) -> std::result::Result<StanModel, OpenError> {
        let text = |key: &str| source.settings.get(key).and_then(Json::as_str);
        let missing = || file(Path::new("the saved run"), "does not name its program");
        let program = text("program").map(|path| ProgramText::File(path.into()));
        let program = program.or_else(|| text("text").map(|text| ProgramText::Text(text.to_owned())));
        let data = match source.settings.get("values") {
            Some(values) => ProgramData::Values(values.clone()),
            None => ProgramData::of_file(text("data").map(Path::new)),
        };
        StanModel::from_parts(program.ok_or_else(missing)?, data)
    }

    /// The posterior that the model is.
    pub fn posterior(&self) -> &Posterior {
        &self.posterior
    }

    /// Parameters and transformed parameters of draws. With a limit only those with at most so many elements, as draws for
    /// a verdict would not fit into memory otherwise, but also generated quantities that are functions of the parameters.
    fn constrained(&self, z: &[Vec<f64>], most: usize, hardware: Hardware) -> Result<Vec<Quantity>> {
        let p = &self.posterior;
        let quantity =
            |(name, shape): (&str, &[usize])| Quantity { name: name.to_owned(), shape: shape.to_vec(), values: vec![] };
        let parameters = p.parameters().map(|(name, shape, _)| Some(quantity((name, shape))));
        let transformed = p.transformed_parameters().map(quantity).map(|q| (q.size() <= most).then_some(q));
        let wanted: Vec<Option<Quantity>> = parameters.chain(transformed).collect();
        let rows = z.len().clamp(1, ROWS);
        let graph = Graph::new();
        let input = graph.input("z", DType::F64, [rows, p.dim()]);
        let mut builder = graph.program().threads(hardware.threads);
        for (quantity, value) in wanted.iter().zip(p.constrained(input)) {
            if let (Some(quantity), Some(value)) = (quantity, value) {
                builder = builder.output(&quantity.name, value);
            }
        }
        let mut quantities: Vec<Quantity> = wanted.into_iter().flatten().collect();
        if most < usize::MAX {
            for (name, shape, value) in p.functions(input).into_iter().filter(|f| f.0 != LOG_LIKELIHOOD) {
                builder = builder.output(name, value);
                quantities.push(quantity((name, shape)));
            }
        }
        let mut program = builder.compile()?;
        for chunk in z.chunks(rows) {
            // The last chunk is filled up with its last draw.
            let fill = std::iter::repeat_n(&chunk[chunk.len() - 1], rows - chunk.len());
            let values: Vec<f64> = chunk.iter().chain(fill).flatten().copied().collect();
            program.write("z", &Array::new([rows, p.dim()], values)?)?;
            program.run(1)?;
            for q in quantities.iter_mut().filter(|q| q.size() > 0) {
                let values = program.output(&q.name)?.to_f64();
                q.values.extend(&values[..chunk.len() * q.size()]);
            }
        }
        Ok(quantities)
    }

    /// Generated quantities of draws, and why some are missing: a draw that the program rejects, or cannot go on with, has NaN.
    fn generated(&self, known: &[Quantity], draws: usize, seed: u64) -> (Vec<Quantity>, Option<String>) {
        let mut out: Vec<Quantity> = vec![];
        let (mut missing, mut first) = (0, None);
        for i in 0..draws {
            let values: Vec<&[f64]> = known.iter().map(|q| &q.values[i * q.size()..(i + 1) * q.size()]).collect();
            let seed = derive_seed(seed, &format!("generated quantities of draw {i}"));
            let list = match self.posterior.generated(&values, seed) {
                Ok(list) => list,
                Err(mistakes) => {
                    missing += 1;
                    first = first.or(Some(mistakes));
                    out.iter_mut().for_each(|q| q.values.resize((i + 1) * q.size(), f64::NAN));
                    continue;
                }
            };
            if out.is_empty() {
                let before = |g: &Generated| vec![f64::NAN; i * g.values.len()];
                let quantity =
                    |g: &Generated| Quantity { name: g.name.clone(), shape: g.shape.clone(), values: before(g) };
                out = list.iter().map(quantity).collect();
            }
            for (quantity, Generated { values, .. }) in out.iter_mut().zip(list) {
                quantity.values.extend(values);
            }
        }
        let why = first.and_then(|mistakes| {
            let mistake = mistakes.list.first()?;
            let line = mistakes.sources.line(mistake.span);
            Some(format!(
                "Generated quantities of {missing} of {draws} draws are missing; line {line}: {}",
                mistake.message
            ))
        });
        (out, why)
    }

    /// Runs the generated quantities once, where unconstrained parameters are 0: what is not supported is known before a fit.
    fn check_generated(&self) -> std::result::Result<(), OpenError> {
        if self.posterior.program().tree.generated_quantities.is_empty() {
            return Ok(());
        }
        let origin = [vec![0.0; self.posterior.dim()]];
        let Ok(known) = self.constrained(&origin, usize::MAX, Hardware::with_threads(1)) else { return Ok(()) };
        let values: Vec<&[f64]> = known.iter().map(|q| q.values.as_slice()).collect();
        match self.posterior.generated(&values, 0) {
            Err(mistakes) if mistakes.list.iter().any(Diagnostic::is_unsupported) => Err(mistakes.into()),
            _ => Ok(()),
        }
    }

    /// A draw from the prior, and of data, as a mistake of the model's if there is none.
    fn simulated(&self, seed: u64) -> Result<Simulated> {
        let program = self.posterior.program();
        self.posterior.simulate(seed).map_err(|mistake| {
            let why = format!("line {}: {}", program.sources().line(mistake.span), mistake.message);
            Error::CannotDraw { name: self.name.clone(), why }
        })
    }
}

/// Reads and checks a program's file, with what it includes from its folder.
pub fn read_program(path: &Path) -> std::result::Result<Program, OpenError> {
    let text = read(path)?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let includes = |name: &str| std::fs::read_to_string(folder.join(name)).ok();
    Ok(Program::read(&path.display().to_string(), &text, &includes)?)
}

fn read(path: &Path) -> std::result::Result<String, OpenError> {
    std::fs::read_to_string(path).map_err(|e| file(path, &e.to_string()))
}

fn file(path: &Path, why: &str) -> OpenError {
    OpenError::File { path: path.display().to_string(), why: why.to_owned() }
}

impl Target for StanModel {
    fn dim(&self) -> usize {
        self.posterior.dim()
    }

    fn log_density<'g>(&self, _scope: &Scope<'g>, z: Expr<'g>) -> Expr<'g> {
        self.posterior.log_density(z)
    }
}

impl BayesianModel for StanModel {
    fn about(&self) -> About {
        let note = |e: f64| {
            format!("Differential equations are solved in fixed steps; at the origin their error is about {e:.0e}.")
        };
        let mut notes: Vec<String> = self.posterior.solver_error().map(note).into_iter().collect();
        if !self.posterior.unused().is_empty() {
            notes.push(format!("The program does not declare the data {}.", self.posterior.unused().join(", ")));
        }
        About { name: self.name.clone(), description: "a Stan program".to_owned(), notes, ..About::default() }
    }

    fn parameters(&self) -> Vec<Parameter> {
        let parameter = |(name, shape, free): (&str, &[usize], usize)| Parameter::new(name, shape.to_vec(), free);
        self.posterior.parameters().map(parameter).collect()
    }

    /// Without a seed, parameters and small transformed parameters: what is summarised over many draws.
    fn quantities(&self, z: &[Vec<f64>], seed: Option<u64>, hardware: Hardware) -> Result<Quantities> {
        let mut known = self.constrained(z, if seed.is_some() { usize::MAX } else { SUMMARISED }, hardware)?;
        let (generated, note) = match seed {
            Some(seed) => self.generated(&known, z.len(), seed),
            None => (vec![], None),
        };
        let mut transformed = known.split_off(self.posterior.parameters().count());
        let mut out = Quantities { parameters: known, note, ..Quantities::default() };
        // Single numbers come first: they are what most readers look for.
        transformed.sort_by_key(|q| if seed.is_some() { 0 } else { q.size() });
        out.generated = transformed;
        for mut quantity in generated {
            if quantity.name == LOG_LIKELIHOOD {
                out.log_likelihood.push(quantity);
            } else if let Some(name) = self.posterior.replicated(&quantity.name).map(str::to_owned) {
                quantity.name = name;
                out.predictive.push(quantity);
            } else {
                out.generated.push(quantity);
            }
        }
        out.parameters.retain(|q| q.size() > 0);
        out.generated.retain(|q| q.size() > 0);
        Ok(out)
    }

    /// The data that the program replicates.
    fn observations(&self) -> Result<Vec<Quantity>> {
        let names = self.posterior.program().generated_quantities();
        let names: Vec<String> = names.iter().filter_map(|n| self.posterior.replicated(n)).map(str::to_owned).collect();
        let observed = names.into_iter().filter_map(|name| {
            let (shape, values) = self.posterior.data(&name)?;
            Some(Quantity { name: name.clone(), shape: shape.to_vec(), values: values.to_vec() })
        });
        Ok(observed.collect())
    }

    /// What the program's statements say of each parameter, drawn in turn, and data given those: generated quantities named
    /// after a data item, or else what the model says of the data.
    fn prior(&self, count: usize, seed: u64) -> Result<Quantities> {
        let shaped = |(name, shape, _): (&str, &[usize], usize)| Quantity {
            name: name.to_owned(),
            shape: shape.to_vec(),
            values: vec![],
        };
        let mut out =
            Quantities { parameters: self.posterior.parameters().map(shaped).collect(), ..Quantities::default() };
        for i in 0..count {
            let simulated = self.simulated(derive_seed(seed, &format!("prior {i}")))?;
            for (quantity, values) in out.parameters.iter_mut().zip(simulated.parameters) {
                quantity.values.extend(values);
            }
            for (name, values) in simulated.data {
                match out.predictive.iter_mut().find(|q| q.name == name) {
                    Some(quantity) => quantity.values.extend(values),
                    None => {
                        let shape = self.posterior.data(&name).map_or(vec![], |(shape, _)| shape.to_vec());
                        out.predictive.push(Quantity { name, shape, values });
                    }
                }
            }
        }
        out.parameters.retain(|q| q.size() > 0);
        Ok(out)
    }

    fn unconstrained(&self, parameters: &[Quantity]) -> Result<Vec<Vec<f64>>> {
        let program = self.posterior.program();
        let count = parameters.iter().find(|q| q.size() > 0).map_or(0, |q| q.values.len() / q.size());
        let row = |i: usize| {
            let values = |(name, shape, _): (&str, &[usize], usize)| -> &[f64] {
                let size: usize = shape.iter().product();
                let found = parameters.iter().find(|q| q.name == name);
                found.and_then(|q| q.values.get(i * size..(i + 1) * size)).unwrap_or(&[])
            };
            let list: Vec<&[f64]> = self.posterior.parameters().map(values).collect();
            self.posterior.unconstrained(&list).map_err(|mistake| {
                let line = program.sources().line(mistake.span);
                Error::Target { why: format!("line {line}: {}", mistake.message) }
            })
        };
        (0..count).map(row).collect()
    }

    fn observing(&self, observations: &[(String, Vec<f64>)]) -> Result<Arc<dyn BayesianModel>> {
        let mut items = self.items.clone();
        for (name, values) in observations {
            let shape = self.posterior.data(name).map_or(&[][..], |(shape, _)| shape);
            items[name.as_str()] = crate::data::write(values, shape);
        }
        let posterior = Posterior::new(self.posterior.program(), &items)
            .map_err(|mistakes| Error::Target { why: format!("\n{mistakes}") })?;
        Ok(Arc::new(StanModel { posterior, name: self.name.clone(), source: None, items }))
    }

    fn source(&self) -> Option<Source> {
        self.source.clone()
    }

    fn data_digest(&self) -> Result<String> {
        let mut digest = DataDigest::default();
        for name in self.posterior.data_names() {
            if let Some((_, values)) = self.posterior.data(name) {
                digest.add(name, values);
            }
        }
        Ok(digest.finish())
    }
}
