//! Stands in for the module `cuda` in a build without that feature: there is no GPU, and every use of one is an error.

use crate::array::Array;
use crate::device::{Device, GpuOptions};
use crate::error::{Error, Result};
use crate::plan::{Place, Plan};

fn absent<T>(index: usize) -> Result<T> {
    let why = "this build has no CUDA support; rebuild with the feature `cuda`, or use the device cpu".to_owned();
    Err(Error::Device { device: Device::Cuda(index).to_string(), why })
}

pub(crate) fn check(index: usize) -> Result<()> {
    absent(index)
}

pub(crate) fn multiprocessors(index: usize) -> Result<usize> {
    absent(index)
}

/// There is none.
pub(crate) enum Executor {}

impl Executor {
    pub fn new(_: &Plan, index: usize, options: GpuOptions) -> Result<Self> {
        let GpuOptions { full_precision: _, multiprocessors: _ } = options;
        absent(index)
    }

    pub fn write(&mut self, _: &Plan, _: Place, _: &Array) -> Result<()> {
        match *self {}
    }

    pub fn read(&self, _: &Plan, _: Place, _: usize) -> Result<Vec<u8>> {
        match *self {}
    }

    pub fn run(
        &mut self,
        _: &Plan,
        _: u64,
        _: u64,
        _: usize,
        _: &[(usize, &Array)],
        _: &[usize],
    ) -> (usize, Result<Vec<Vec<u8>>>) {
        match *self {}
    }

    pub fn profile(&mut self, _: &Plan, _: u64, _: u64, _: usize) -> Result<Vec<(String, f64)>> {
        match *self {}
    }

    pub fn memory_bytes(&self) -> usize {
        match *self {}
    }

    pub fn kernels(&self) -> (usize, usize) {
        match *self {}
    }
}
