//! Auto-encoders whose posterior is a Markov chain: trained as `mcvi vae train` does, used on arrays.

use crate::arrays::{self, array};
use crate::errors::{Failure, exception, exception_of};
use crate::interrupts;
use anyhow::Result;
use mcvi::Hardware;
use mcvi::data::{Images, Split};
use mcvi::vae::{Deep, Evaluator};
use numpy::{PyArrayDyn, PyReadonlyArrayDyn};
use pyo3::prelude::*;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How often progress is told.
const TELL: Duration = Duration::from_millis(200);

type Floats<'py> = Bound<'py, PyArrayDyn<f64>>;

/// A trained model of images.
#[pyclass(frozen, module = "mcvi._mcvi")]
pub struct DeepModel(Deep);

/// Trains with options as on the command line of `mcvi vae train`: the summary of the run, as JSON.
#[pyfunction]
#[pyo3(signature = (options, observer=None))]
pub fn train_vae(py: Python<'_>, options: Vec<String>, observer: Option<Py<PyAny>>) -> PyResult<String> {
    interrupts::begin();
    let (failure, mut last) = (Failure::default(), Instant::now());
    let trained = py.detach(|| {
        mcvi_cli::vae_train(&options, |done, how| {
            if last.elapsed() < TELL {
                return ControlFlow::Continue(());
            }
            last = Instant::now();
            let stop = failure.attach(|py| {
                if let Some(observer) = &observer {
                    observer.call1(py, (done, how))?;
                }
                interrupts::any(py)
            });
            if stop.unwrap_or(true) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
    });
    let summary = trained.map_err(|e| exception_of(py, &e, &failure))?;
    match failure.take() {
        Some(error) => Err(error),
        None => Ok(summary.to_string()),
    }
}

/// The model of a run.
#[pyfunction]
pub fn open_vae(py: Python<'_>, folder: PathBuf) -> PyResult<DeepModel> {
    py.detach(|| mcvi_cli::vae_model(&folder)).map(DeepModel).map_err(|e| exception(py, &e))
}

#[pymethods]
impl DeepModel {
    /// Rows and columns of an image.
    #[getter]
    fn image(&self) -> [usize; 2] {
        self.0.architecture.image
    }

    /// The number of latent variables.
    #[getter]
    fn latent(&self) -> usize {
        self.0.architecture.latent
    }

    /// The bound and log p(x) of every image, by so many draws.
    fn evidence<'py>(
        &self,
        py: Python<'py>,
        images: &Bound<'py, PyAny>,
        samples: usize,
        seed: u64,
    ) -> PyResult<(Floats<'py>, Floats<'py>)> {
        let images = self.images(images)?;
        let found = py.detach(|| -> Result<_> {
            let which: Vec<i32> = (0..images.len() as i32).collect();
            let mut evaluator = self.evaluator(&images, seed)?;
            Ok(evaluator.evidence(&which, samples, |_| ControlFlow::Continue(()))?)
        });
        let found = found.map_err(|e| exception(py, &e))?;
        let rows = [images.len()];
        Ok((array(py, found.bounds, &rows)?, array(py, found.log_p, &rows)?))
    }

    /// A draw of the latent variables of every image.
    fn encode<'py>(&self, py: Python<'py>, images: &Bound<'py, PyAny>, seed: u64) -> PyResult<Floats<'py>> {
        let images = self.images(images)?;
        let drawn = py.detach(|| -> Result<_> {
            let which: Vec<i32> = (0..images.len() as i32).collect();
            Ok(self.evaluator(&images, seed)?.draw(&which)?)
        });
        array(py, drawn.map_err(|e| exception(py, &e))?.concat(), &[images.len(), self.latent()])
    }

    /// The probability of every pixel, given latent variables.
    fn decode<'py>(&self, py: Python<'py>, z: &Bound<'py, PyAny>) -> PyResult<Floats<'py>> {
        let z = arrays::rows(z)?;
        let pictures = py.detach(|| Evaluator::decode(&self.0, &z));
        self.pictures(py, pictures)
    }

    /// The probability of every pixel of draws from the prior, or such pixels.
    fn sample<'py>(&self, py: Python<'py>, count: usize, binary: bool, seed: u64) -> PyResult<Floats<'py>> {
        let pictures = py.detach(|| Evaluator::sample(&self.0, count, binary, seed));
        self.pictures(py, pictures)
    }
}

impl DeepModel {
    /// Images from an array `[images, rows, columns]` of bytes.
    fn images(&self, value: &Bound<'_, PyAny>) -> PyResult<Images> {
        let bytes: PyReadonlyArrayDyn<'_, u8> = value.extract()?;
        let [height, width] = self.image();
        let images = Images::new(height, width, bytes.as_array().iter().copied().collect());
        images.map_err(|e| exception(value.py(), &e.into()))
    }

    fn evaluator(&self, images: &Images, seed: u64) -> Result<Evaluator> {
        // log p(x) is of one x: grey images are binarized once, as the command does.
        let binary = if images.is_binary() { images.clone() } else { images.binarized(seed, Split::Test) };
        Ok(Evaluator::new(&self.0, &binary.array()?, false, seed, Hardware::default())?)
    }

    fn pictures<'py>(&self, py: Python<'py>, pictures: mcvi::Result<Vec<Vec<f64>>>) -> PyResult<Floats<'py>> {
        let pictures = pictures.map_err(|e| exception(py, &e.into()))?;
        let [height, width] = self.image();
        let count = pictures.len();
        array(py, pictures.concat(), &[count, height, width])
    }
}
