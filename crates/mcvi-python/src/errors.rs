//! Errors of the library as exceptions, in the same words as the command's, and exceptions as errors of the library.

use crate::interrupts;
use pyo3::prelude::*;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The exception for an error: `mcvi.UsageError` for what the user can mend, `mcvi.Error` for anything else.
pub fn exception(py: Python<'_>, error: &anyhow::Error) -> PyErr {
    let class = if mcvi_cli::exit_code(error) == 2 { "UsageError" } else { "Error" };
    let made = py.import("mcvi._errors").and_then(|module| module.getattr(class)?.call1((format!("{error:#}"),)));
    made.map_or_else(|e| e, PyErr::from_value)
}

/// The same; if a function of Python has failed, its own exception.
pub fn exception_of(py: Python<'_>, error: &anyhow::Error, failure: &Failure) -> PyErr {
    failure.take().unwrap_or_else(|| exception(py, error))
}

/// The exception by which a function of Python has ended a fit.
#[derive(Clone, Default)]
pub struct Failure(Arc<Mutex<Option<PyErr>>>);

impl Failure {
    /// The exception, once.
    pub fn take(&self) -> Option<PyErr> {
        lock(&self.0).take()
    }

    /// What a function of Python returns. If Ctrl-C arrives meanwhile it is called again, and the fit stops after it.
    pub fn attach<R>(&self, call: impl Fn(Python<'_>) -> PyResult<R>) -> Result<R, String> {
        Python::attach(|py| {
            let result = match call(py) {
                Err(error) if interrupts::is_first(py, &error) => call(py),
                result => result,
            };
            result.map_err(|error| {
                let words = error.to_string();
                *lock(&self.0) = Some(error);
                words
            })
        })
    }
}

/// A lock that a panic elsewhere does not take away.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
