//! The hardware that programs run on.

use mcvi_expr::{Device, ProgramBuilder};

/// The hardware to compute on. Results depend on the device and its precision, not on the number of threads or
/// multiprocessors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hardware {
    /// The CPU or a GPU.
    pub device: Device,
    /// Number of CPU threads.
    pub threads: usize,
    /// On a GPU, multiply matrices in full single precision instead of TF32.
    pub full_precision: bool,
    /// On a GPU, use at most this many multiprocessors, so that several programs can run side by side; none for all.
    pub multiprocessors: Option<usize>,
}

impl Default for Hardware {
    /// The CPU with all its threads.
    fn default() -> Self {
        Hardware::with_threads(std::thread::available_parallelism().map_or(1, usize::from))
    }
}

impl Hardware {
    /// The CPU with this many threads.
    pub fn with_threads(threads: usize) -> Self {
        Hardware { device: Device::Cpu, threads, full_precision: false, multiprocessors: None }
    }

    /// What results depend on, in words: the kind of device and the precision of its matrix products.
    pub fn kind(self) -> &'static str {
        match (self.device, self.full_precision) {
            (Device::Cpu, _) => "cpu",
            (_, false) => "cuda",
            (_, true) => "cuda with full precision",
        }
    }

    /// Make a program run on it.
    pub(crate) fn program<'g>(self, program: ProgramBuilder<'g>) -> ProgramBuilder<'g> {
        let program = program.threads(self.threads).device(self.device);
        let program = if self.full_precision { program.full_precision() } else { program };
        match self.multiprocessors {
            Some(count) => program.multiprocessors(count),
            None => program,
        }
    }
}
