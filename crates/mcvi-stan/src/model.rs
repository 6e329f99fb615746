//! A program with its data as a model of `mcvi`.

use crate::diagnostic::Diagnostics;
use crate::posterior::{Generated, Posterior};
use crate::program::Program;
use mcvi::model::{Quantities, Quantity};
use mcvi::{
    About, Array, BayesianModel, DType, DataDigest, Error, Expr, Hardware, Parameter, Result, Scope, Source, Target,
    derive_seed,
};
use mcvi_expr::Graph;
use serde_json::{Value as Json, json};
use std::path::Path;

/// The kind of source that a saved run of a Stan program has.
pub const KIND: &str = "stan";
/// Draws whose parameters are computed at once.
const ROWS: usize = 500;
/// Elements up to which a transformed parameter is summarised.
const SUMMARISED: usize = 200;

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

/// A Stan program with its data.
#[derive(Clone, Debug)]
pub struct StanModel {
    posterior: Posterior,
    name: String,
    source: Option<Source>,
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
        Ok(StanModel { posterior: Posterior::new(&program, data)?, name: "model".to_owned(), source: None })
    }

    /// Opens a program's file, what it includes from its folder, and a file of data in JSON.
    pub fn open(program: &Path, data: Option<&Path>) -> std::result::Result<StanModel, OpenError> {
        let checked = read_program(program)?;
        let items = match data {
            Some(path) => {
                let text = read(path)?;
                serde_json::from_str(&text).map_err(|e| file(path, &format!("is not JSON: {e}")))?
            }
            None => json!({}),
        };
        let posterior = Posterior::new(&checked, &items)?;
        let full = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let source = json!({ "program": full(program), "data": data.map(full) });
        let name = program.file_stem().map_or_else(String::new, |s| s.to_string_lossy().into_owned());
        Ok(StanModel { posterior, name, source: Some(Source::new(KIND, source)) })
    }

    /// Opens the program and data of a saved run again.
    pub fn reopen(source: &Source) -> std::result::Result<StanModel, OpenError> {
        let path = |key: &str| source.settings.get(key).and_then(Json::as_str).map(Path::new);
        let missing = || file(Path::new("the saved run"), "does not name its program");
        StanModel::open(path("program").ok_or_else(missing)?, path("data"))
    }

    /// The posterior that the model is.
    pub fn posterior(&self) -> &Posterior {
        &self.posterior
    }

    /// Parameters and transformed parameters of draws, with what is asked for of them.
    fn constrained(&self, z: &[Vec<f64>], hardware: Hardware) -> Result<Vec<Quantity>> {
        let p = &self.posterior;
        let shapes = p.parameters().map(|(name, shape, _)| (name, shape)).chain(p.transformed_parameters());
        let mut quantities: Vec<Quantity> = shapes
            .map(|(name, shape)| Quantity { name: name.to_owned(), shape: shape.to_vec(), values: vec![] })
            .collect();
        let rows = z.len().clamp(1, ROWS);
        let graph = Graph::new();
        let input = graph.input("z", DType::F64, [rows, p.dim()]);
        let mut builder = graph.program().threads(hardware.threads);
        for (quantity, value) in quantities.iter().zip(p.constrained(input)) {
            if let Some(value) = value {
                builder = builder.output(&quantity.name, value);
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

    /// Generated quantities of draws.
    fn generated(&self, known: &[Quantity], draws: usize, seed: u64) -> Result<Vec<Quantity>> {
        let mut out: Vec<Quantity> = vec![];
        for i in 0..draws {
            let values: Vec<&[f64]> = known.iter().map(|q| &q.values[i * q.size()..(i + 1) * q.size()]).collect();
            let seed = derive_seed(seed, &format!("generated quantities of draw {i}"));
            let list = self.posterior.generated(&values, seed).map_err(|e| Error::Target { why: format!("\n{e}") })?;
            if out.is_empty() {
                out = list
                    .iter()
                    .map(|g| Quantity { name: g.name.clone(), shape: g.shape.clone(), values: vec![] })
                    .collect();
            }
            for (quantity, Generated { values, .. }) in out.iter_mut().zip(list) {
                quantity.values.extend(values);
            }
        }
        Ok(out)
    }

    /// The data item that a generated quantity replicates: `y` for `y_rep`.
    fn replicated<'a>(&self, name: &'a str) -> Option<&'a str> {
        let stem = name.strip_suffix("_rep")?;
        self.posterior.data(stem).map(|_| stem)
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
        let mut known = self.constrained(z, hardware)?;
        let generated = match seed {
            Some(seed) => self.generated(&known, z.len(), seed)?,
            None => vec![],
        };
        let transformed = known.split_off(self.posterior.parameters().count());
        let mut out = Quantities { parameters: known, ..Quantities::default() };
        out.generated = transformed.into_iter().filter(|q| seed.is_some() || q.size() <= SUMMARISED).collect();
        for mut quantity in generated {
            if quantity.name == "log_lik" {
                out.log_likelihood.push(quantity);
            } else if let Some(name) = self.replicated(&quantity.name).map(str::to_owned) {
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
        let names: Vec<String> = names.iter().filter_map(|n| self.replicated(n)).map(str::to_owned).collect();
        let observed = names.into_iter().filter_map(|name| {
            let (shape, values) = self.posterior.data(&name)?;
            Some(Quantity { name: name.clone(), shape: shape.to_vec(), values: values.to_vec() })
        });
        Ok(observed.collect())
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
