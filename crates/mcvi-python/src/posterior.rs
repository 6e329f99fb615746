//! Fits, in memory and saved: fitting, drawing, resuming, and what the command would print and write.

use crate::errors::{exception, exception_of};
use crate::model::Model;
use crate::regression::{self, Column};
use crate::{arrays, interrupts};
use anyhow::Result;
use mcvi::infer::{Checkpoint, Event, Request, infer_from};
use mcvi::model::Quantities;
use mcvi::{BayesianModel, Mixture};
use mcvi_cli::fit::settings::{Identity, Saved, Settings};
use mcvi_cli::fit::{self, Options, Outcome, Progress};
use mcvi_cli::report;
use mcvi_cli::store::folder::Staging;
use mcvi_cli::store::zarr::Values;
use numpy::{PyArray1, PyArrayMethods};
use pyo3::exceptions::PyUserWarning;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use std::ffi::CString;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often progress is told.
const TELL: Duration = Duration::from_millis(200);

/// A fit in memory.
#[pyclass(frozen, module = "mcvi._mcvi")]
pub struct Fit {
    outcome: Outcome,
    request: Request,
    model: Py<Model>,
}

/// A fit in a folder.
#[pyclass(frozen, module = "mcvi._mcvi")]
pub struct SavedFit {
    saved: Saved,
    approximation: Mutex<Option<Arc<Mixture>>>,
    model: Py<Model>,
}

/// Fits a model with options as on the command line of `mcvi fit`. The observer is called with the share that is done and how
/// it goes.
#[pyfunction]
#[pyo3(signature = (model, options, observer=None))]
pub fn fit_model(py: Python<'_>, model: Py<Model>, options: Vec<String>, observer: Option<Py<PyAny>>) -> PyResult<Fit> {
    let request = |options: &Options| options.complete(options.request()?, &Checkpoint::default());
    run(py, model, &options, observer, request, &Checkpoint::default())
}

/// The fit in a folder. A model is needed if it was made in Python.
#[pyfunction]
#[pyo3(signature = (folder, model=None))]
pub fn open_fit(py: Python<'_>, folder: PathBuf, model: Option<Py<Model>>) -> PyResult<SavedFit> {
    let given = model.as_ref().map(|model| model.get().model.clone());
    let opened = py.detach(|| {
        let saved = Saved::open(&folder)?;
        let model = match given {
            Some(model) => saved.checked(model)?,
            None => saved.model()?,
        };
        Ok((saved, model))
    });
    let (saved, opened) = opened.map_err(|e| exception(py, &e))?;
    let model = match model {
        Some(model) => model,
        None => Py::new(py, Model::native(opened))?,
    };
    Ok(SavedFit { saved, approximation: Mutex::new(None), model })
}

/// Fit from a state, with a request made of options.
fn run(
    py: Python<'_>,
    model: Py<Model>,
    words: &[String],
    observer: Option<Py<PyAny>>,
    request: impl Fn(&Options) -> Result<Request> + Send + Sync,
    from: &Checkpoint,
) -> PyResult<Fit> {
    interrupts::begin();
    let (started, failure) = (Instant::now(), model.get().failure.clone());
    let (target, told) = (model.get().model.clone(), failure.clone());
    let ran = py.detach(move || -> Result<(Outcome, Request)> {
        let options = Options::parse(words)?;
        let request = request(&options)?;
        let (progress, mut last) = (Progress::new(request.budget), Instant::now());
        let posterior = infer_from(target, &request, from, |event| {
            let Event::Trace { chain, point } = event else { return ControlFlow::Continue(()) };
            let tell = observer.as_ref().filter(|_| last.elapsed() >= TELL);
            let stop = told.attach(|py| {
                if let Some(observer) = tell {
                    observer.call1(py, progress.at(chain, point))?;
                }
                interrupts::any(py)
            });
            if tell.is_some() {
                last = Instant::now();
            }
            if stop.unwrap_or(true) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        let outcome = Outcome::new(posterior, (request.draws, options.is_raw()), started.elapsed().as_secs_f64())?;
        Ok((outcome, request))
    });
    // An observer that failed has stopped the fit.
    if let Some(error) = failure.take() {
        return Err(error);
    }
    let (outcome, request) = ran.map_err(|e| exception(py, &e))?;
    Ok(Fit { outcome, request, model })
}

#[pymethods]
impl Fit {
    /// The model.
    #[getter]
    fn model(&self, py: Python<'_>) -> Py<Model> {
        self.model.clone_ref(py)
    }

    /// The result as JSON, as in `summary.json`.
    fn summary(&self) -> String {
        self.outcome.json().to_string()
    }

    /// Why it stopped: `Converged`, `MaxIterations`, `Budget` or `Interrupted`.
    fn stop_reason(&self) -> String {
        format!("{:?}", self.outcome.posterior.stop_reason)
    }

    /// The draws that would be written, with what follows from them.
    fn draws<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let p = &self.outcome.posterior;
        let all = py.detach(|| p.model.quantities(&self.outcome.draws.z, None, p.approximation.hardware()));
        let all = self.or_raise(py, all.map_err(Into::into))?;
        drawn(py, &all, &self.outcome.draws, self.outcome.is_resampled)
    }

    /// New draws.
    #[pyo3(signature = (count, raw=false, seed=None))]
    fn draw<'py>(&self, py: Python<'py>, count: usize, raw: bool, seed: Option<u64>) -> PyResult<Bound<'py, PyDict>> {
        let p = &self.outcome.posterior;
        let seed = seed.unwrap_or_else(|| mcvi::derive_seed(self.request.settings.seed, fit::MORE));
        let made = py.detach(|| fit::draws(p.model.as_ref(), &p.approximation, count, raw, seed));
        let (all, draws, is_resampled) = self.or_raise(py, made)?;
        drawn(py, &all, &draws, is_resampled)
    }

    /// The groups of arrays that ArviZ expects.
    fn groups<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let made = py.detach(|| {
            let all = self.quantities()?;
            Ok((fit::groups(&self.outcome, &all, self.request.settings.seed)?, all.note))
        });
        let (made, note) = self.or_raise(py, made)?;
        if let Some(note) = note {
            PyErr::warn(py, &py.get_type::<PyUserWarning>(), &CString::new(note)?, 1)?;
        }
        let groups = PyList::empty(py);
        for group in made {
            let variables = PyList::empty(py);
            for variable in group.variables {
                let (dims, shape): (Vec<String>, Vec<usize>) = variable.dims.into_iter().unzip();
                let values = match variable.values {
                    Values::F64(values) => arrays::array(py, values, &shape)?.into_any(),
                    Values::F32(values) => PyArray1::from_vec(py, values).reshape(shape)?.into_any(),
                    Values::I64(values) => PyList::new(py, values)?.into_any(),
                    Values::Text(values) => PyList::new(py, values)?.into_any(),
                };
                variables.append((variable.name, dims, values))?;
            }
            groups.append((group.name, serde_json::Value::Object(group.attributes).to_string(), variables))?;
        }
        Ok(groups)
    }

    /// What a regression predicts for new rows.
    fn predict<'py>(
        &self,
        py: Python<'py>,
        columns: Vec<(String, Column)>,
        missing: &str,
        seed: u64,
    ) -> PyResult<Bound<'py, PyDict>> {
        let Some(regression) = &self.model.get().regression else {
            let why = "only regressions predict new rows".to_owned();
            return Err(exception(py, &mcvi_cli::Mistake(why).into()));
        };
        regression::predict(py, regression, columns, &self.outcome.draws.z, (missing, seed))
    }

    /// All draws of the verdict with their weights, the trace of the fit that was kept, and what each step adds.
    fn diagnostics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (p, out) = (&self.outcome.posterior, PyDict::new(py));
        let table = |rows: Vec<f64>, columns: usize| arrays::array(py, rows.clone(), &[rows.len() / columns, columns]);
        out.set_item("z", table(p.draws.z.concat(), p.model.dim())?)?;
        for (name, values) in [("log_weight", &p.draws.log_weights), ("log_p", &p.draws.log_p)] {
            out.set_item(name, arrays::array(py, values.clone(), &[values.len()])?)?;
        }
        let kept = p.attempts.get(p.kept).and_then(|attempt| attempt.outcome.as_ref().ok());
        let trace = kept.map_or(vec![], |fitted| fitted.report.trace.clone());
        out.set_item("trace", table(trace.iter().flat_map(|t| [t.iteration as f64, t.bound, t.se]).collect(), 3)?)?;
        out.set_item("steps", table(p.diagnostics.steps.iter().flat_map(|s| [s.value, s.se]).collect(), 2)?)?;
        Ok(out)
    }

    /// The report, a page of HTML.
    fn report(&self, py: Python<'_>) -> PyResult<String> {
        let page = py.detach(|| Ok(report::render(&fit::page(&self.outcome, &self.quantities()?)?)));
        self.or_raise(py, page)
    }

    /// Writes the folder that `mcvi fit --out FOLDER` writes.
    fn save(&self, py: Python<'_>, folder: PathBuf) -> PyResult<()> {
        let written = py.detach(|| {
            let staging = Staging::new(&folder).map_err(mcvi_cli::mistaken)?;
            let identity = Identity::of(self.outcome.posterior.model.as_ref())?;
            let results = fit::Results::new(&self.outcome, identity, self.request.settings.seed)?;
            fit::write(staging.path(), &self.outcome, results, &self.request, &self.outcome.json())?;
            staging.commit().map(|_| ())
        });
        self.or_raise(py, written)
    }

    /// Goes on where the fit stopped.
    #[pyo3(signature = (options, observer=None))]
    fn resume(&self, py: Python<'_>, options: Vec<String>, observer: Option<Py<PyAny>>) -> PyResult<Fit> {
        let p = &self.outcome.posterior;
        let request = |options: &Options| {
            let chain = p.approximation.chain();
            let at = (p.stop_reason, p.iterations);
            let settings = Settings::new(p.model.as_ref(), chain, &self.request, at)?;
            let request = settings.map_or_else(|| self.request.clone(), |settings| settings.resumed());
            options.complete(request, &p.checkpoint)
        };
        run(py, self.model.clone_ref(py), &options, observer, request, &p.checkpoint)
    }
}

impl Fit {
    /// What follows from the draws that are written, likelihoods and predictions included.
    fn quantities(&self) -> Result<Quantities> {
        Ok(fit::written(&self.outcome, self.request.settings.seed)?.0)
    }

    fn or_raise<T>(&self, py: Python<'_>, result: Result<T>) -> PyResult<T> {
        result.map_err(|e| exception_of(py, &e, &self.model.get().failure))
    }
}

#[pymethods]
impl SavedFit {
    /// The model.
    #[getter]
    fn model(&self, py: Python<'_>) -> Py<Model> {
        self.model.clone_ref(py)
    }

    /// New draws.
    #[pyo3(signature = (count, raw=false, seed=None))]
    fn draw<'py>(&self, py: Python<'py>, count: usize, raw: bool, seed: Option<u64>) -> PyResult<Bound<'py, PyDict>> {
        let (model, fitted) = (self.model.get().model.clone(), self.saved.settings.request.settings.seed);
        let seed = seed.unwrap_or_else(|| mcvi::derive_seed(fitted, fit::MORE));
        let made = py.detach(|| {
            let approximation = self.approximation(model.clone())?;
            fit::draws(model.as_ref(), &approximation, count, raw, seed)
        });
        let (all, draws, is_resampled) = self.or_raise(py, made)?;
        drawn(py, &all, &draws, is_resampled)
    }

    /// Goes on where the fit stopped.
    #[pyo3(signature = (options, observer=None))]
    fn resume(&self, py: Python<'_>, options: Vec<String>, observer: Option<Py<PyAny>>) -> PyResult<Fit> {
        let checkpoint = self.or_raise(py, py.detach(|| self.saved.checkpoint()))?;
        let request = |options: &Options| options.complete(self.saved.settings.resumed(), &checkpoint);
        run(py, self.model.clone_ref(py), &options, observer, request, &checkpoint)
    }
}

impl SavedFit {
    /// The fitted approximation, read when it is first needed.
    fn approximation(&self, model: Arc<dyn BayesianModel>) -> Result<Arc<Mixture>> {
        let mut known = self.approximation.lock().unwrap_or_else(PoisonError::into_inner);
        if known.is_none() {
            let hardware = mcvi::Hardware::default();
            *known = Some(Arc::new(fit::approximation(&self.saved, model, hardware)?));
        }
        known.clone().ok_or_else(|| anyhow::anyhow!("it was read"))
    }

    fn or_raise<T>(&self, py: Python<'_>, result: Result<T>) -> PyResult<T> {
        result.map_err(|e| exception_of(py, &e, &self.model.get().failure))
    }
}

/// Draws by name, with `log_p` and, unless they have equal weight, `log_weight`, as the columns of a table are called.
fn drawn<'py>(
    py: Python<'py>,
    all: &Quantities,
    draws: &mcvi::Draws,
    is_resampled: bool,
) -> PyResult<Bound<'py, PyDict>> {
    let out = PyDict::new(py);
    for q in all.parameters.iter().chain(&all.generated) {
        out.set_item(&q.name, arrays::quantity(py, q)?)?;
    }
    let weights = Some(&draws.log_weights).filter(|_| !is_resampled);
    for (name, values) in [("log_weight", weights), ("log_p", Some(&draws.log_p))] {
        let Some(values) = values else { continue };
        let mut name = name.to_owned();
        while out.contains(&name)? {
            name.push('_');
        }
        out.set_item(name, arrays::array(py, values.clone(), &[values.len()])?)?;
    }
    Ok(out)
}
