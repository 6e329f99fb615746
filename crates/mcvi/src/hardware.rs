//! Where programs run.

use mcvi_expr::ProgramBuilder;

/// What to compute with. Results depend on the device, not on the number of threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hardware {
    /// Threads of the processor.
    pub threads: usize,
}

impl Default for Hardware {
    /// The processor with all its threads.
    fn default() -> Self {
        Hardware::with_threads(std::thread::available_parallelism().map_or(1, usize::from))
    }
}

impl Hardware {
    /// The processor, with so many threads.
    pub fn with_threads(threads: usize) -> Self {
        Hardware { threads }
    }

    /// Have a program run there.
    pub(crate) fn program<'g>(self, program: ProgramBuilder<'g>) -> ProgramBuilder<'g> {
        program.threads(self.threads)
    }
}
