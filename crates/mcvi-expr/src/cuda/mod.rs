//! Runs a plan on an NVIDIA GPU.
//!
//! A whole run is one kernel: every multiprocessor walks through a list of tiles, fixed beforehand, and waits between levels
//! for those that others must complete first (`source/run.cu`). So a level costs one exchange through the cache instead of a
//! launch, and kernels of one level run side by side. What a tile computes is fixed by the plan alone: results depend
//! neither on the number of multiprocessors used nor on which of them computes what.

mod access;
mod balance;
mod cache;
mod code;
mod conv;
mod driver;
mod executor;
mod fuse;
mod lower;
mod nvrtc;
mod pipeline;
mod profile;
mod schedule;
mod task;
mod unroll;
mod walk;

pub(crate) use driver::{check, multiprocessors};
pub(crate) use executor::Executor;
pub(crate) use lower::source;

use crate::error::{Error, Result};

/// Compile the source of a plan for a processor, without a GPU; `None` if there is no compiler here.
pub(crate) fn compile_source(source: &str, processor: &str) -> Option<Result<usize>> {
    nvrtc::available().ok()?;
    let code = nvrtc::compile(source, processor);
    Some(code.map(|c| c.len()).map_err(|why| Error::Device { device: processor.to_owned(), why }))
}
