//! Where programs run.

use mcvi_expr::ProgramBuilder;

/// What to compute with. Results depend on the device, not on the number of threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Threads of the processor.
    pub threads: usize,
}

impl Default for Machine {
    /// The processor with all its threads.
    fn default() -> Self {
        Machine::with_threads(std::thread::available_parallelism().map_or(1, usize::from))
    }
}

impl Machine {
    /// The processor, with so many threads.
    pub fn with_threads(threads: usize) -> Self {
        Machine { threads }
    }

    /// Have a program run there.
    pub(crate) fn program<'g>(self, program: ProgramBuilder<'g>) -> ProgramBuilder<'g> {
        program.threads(self.threads)
    }
}
