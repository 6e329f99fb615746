//! Ctrl-C, which Python tells its main thread: the first one stops a fit, so that what there is can be returned; a second one
//! is an exception like any other.

use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use std::cell::Cell;

thread_local! {
    static RECEIVED: Cell<bool> = const { Cell::new(false) };
}

/// Forgets what was received before a fit begins.
pub fn begin() {
    RECEIVED.set(false);
}

/// Whether the fit of this thread is to stop. What another handler of signals raises, such as a timeout's, ends it as an error.
pub fn any(py: Python<'_>) -> PyResult<bool> {
    match py.check_signals() {
        Err(error) if !is_first(py, &error) => Err(error),
        _ => Ok(RECEIVED.get()),
    }
}

/// Whether this is the first Ctrl-C of a fit.
pub fn is_first(py: Python<'_>, error: &PyErr) -> bool {
    error.is_instance_of::<PyKeyboardInterrupt>(py) && !RECEIVED.replace(true)
}
