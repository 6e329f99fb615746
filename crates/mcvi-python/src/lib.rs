//! The native half of the Python package `mcvi`: models, fits and saved runs as opaque objects, numbers as arrays of NumPy,
//! everything else as text or JSON. What is Python's business (frames, ArviZ, adapters, displays) is in Python, beside it.
//!
//! It calls what the command calls, so that both give the same bytes. The interpreter's lock is released while anything is
//! computed.

mod arrays;
mod errors;
mod expression;
mod function;
mod interrupts;
mod log_density;
mod model;
mod posterior;
mod python_model;
mod regression;
mod vae;

use pyo3::prelude::*;
use std::ffi::OsString;

/// Runs a command line, as the command `mcvi` does, and returns its exit code.
#[pyfunction]
fn main(py: Python<'_>, words: Vec<OsString>) -> u8 {
    py.detach(|| mcvi_cli::run(words))
}

/// What a command line prints.
#[pyfunction]
fn printed(py: Python<'_>, words: Vec<OsString>) -> PyResult<String> {
    py.detach(|| mcvi_cli::printed(&words)).map_err(|e| errors::exception(py, &e))
}

/// A chain described in JSON: in full, and in words.
#[pyfunction]
fn describe_chain(py: Python<'_>, json: &str) -> PyResult<(String, String)> {
    let chain = mcvi_cli::fit::parse_chain(json, true).map_err(|e| anyhow::Error::msg(format!("chain: {e}")));
    let chain = chain.map_err(|e| errors::exception(py, &mcvi_cli::mistaken(e)))?;
    Ok((serde_json::json!(chain).to_string(), chain.to_string()))
}

/// The native half of the package `mcvi`.
#[pymodule]
fn _mcvi(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<model::Model>()?;
    module.add_class::<log_density::LogDensity>()?;
    module.add_function(wrap_pyfunction!(log_density::expression_functions, module)?)?;
    module.add_class::<posterior::Fit>()?;
    module.add_class::<posterior::SavedFit>()?;
    module.add_class::<vae::DeepModel>()?;
    module.add_function(wrap_pyfunction!(vae::train_vae, module)?)?;
    module.add_function(wrap_pyfunction!(vae::open_vae, module)?)?;
    module.add_function(wrap_pyfunction!(main, module)?)?;
    module.add_function(wrap_pyfunction!(printed, module)?)?;
    module.add_function(wrap_pyfunction!(describe_chain, module)?)?;
    module.add_function(wrap_pyfunction!(model::open_model, module)?)?;
    module.add_function(wrap_pyfunction!(model::stan_model, module)?)?;
    module.add_function(wrap_pyfunction!(model::python_model, module)?)?;
    module.add_function(wrap_pyfunction!(regression::regression, module)?)?;
    module.add_function(wrap_pyfunction!(posterior::fit_model, module)?)?;
    module.add_function(wrap_pyfunction!(posterior::open_fit, module)?)
}
