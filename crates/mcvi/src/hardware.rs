//! The hardware that programs run on.

use crate::error::Result;
use mcvi_expr::{Communicator, Device, Parts, ProgramBuilder};
use std::fmt;
use std::sync::Arc;

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
    /// The ranks that work together, of which this is one; none if it works alone.
    pub ranks: Option<Ranks>,
}

/// The fewest rows of data in a part of a sum, and the most parts: two, three, four or six ranks have equally many.
const ROWS: usize = 8192;
const PARTS: usize = 12;

/// Processes that work together, from one of them. They do so as long as they live.
#[derive(Clone, Copy)]
pub struct Ranks(&'static Arc<dyn Communicator>);

impl Ranks {
    /// The ranks behind a communicator.
    pub fn new(communicator: impl Communicator + 'static) -> Self {
        let communicator: Arc<dyn Communicator> = Arc::new(communicator);
        Ranks(Box::leak(Box::new(communicator)))
    }

    /// This rank, from 0 on, and how many there are.
    pub fn place(self) -> (usize, usize) {
        (self.0.rank(), self.0.size())
    }

    /// A computation in this many parts, at least one for each rank.
    pub fn parts(self, total: usize) -> Result<Parts> {
        Ok(Parts::new(self.0.clone(), total)?)
    }

    /// What the first rank has. All call it at the same point.
    pub fn agree(self, here: f64) -> Result<f64> {
        Ok(self.numbers(vec![here])?[0][0])
    }

    /// What every rank has, in the order of ranks.
    fn numbers(self, mine: Vec<f64>) -> Result<Vec<Vec<f64>>> {
        let mut bytes = vec![0; 8 * mine.len()];
        bytes.as_chunks_mut().0.iter_mut().zip(mine).for_each(|(b, x)| *b = x.to_ne_bytes());
        let all = self.one_each()?.gather(bytes)?;
        Ok(all.iter().map(|bytes| bytes.as_chunks().0.iter().map(|b| f64::from_ne_bytes(*b)).collect()).collect())
    }

    /// Whether it holds on any rank.
    pub fn any(self, here: bool) -> Result<bool> {
        Ok(self.one_each()?.gather(vec![u8::from(here)])?.iter().flatten().any(|x| *x != 0))
    }

    fn one_each(self) -> Result<Parts> {
        self.parts(self.place().1)
    }
}

/// What the first of these ranks has, lest they decide differently. One that is lost is noticed where they next share something.
pub(crate) fn agreed(ranks: Option<Ranks>, here: f64) -> f64 {
    ranks.map_or(here, |ranks| ranks.agree(here).unwrap_or(here))
}

impl PartialEq for Ranks {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}
impl Eq for Ranks {}
impl fmt::Debug for Ranks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {} of {}", self.0.rank(), self.0.size())
    }
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
        Hardware { device: Device::Cpu, threads, full_precision: false, multiprocessors: None, ranks: None }
    }

    /// This rank, from 0 on, and how many there are.
    pub fn rank(self) -> (usize, usize) {
        self.ranks.map_or((0, 1), Ranks::place)
    }

    /// Whether this rank writes and speaks for all.
    pub fn is_first(self) -> bool {
        self.rank().0 == 0
    }

    /// A computation in this many parts, shared out among the ranks.
    pub(crate) fn parts(self, total: usize) -> Result<Parts> {
        self.ranks.map_or_else(|| Ok(Parts::alone(total)), |ranks| ranks.parts(total))
    }

    /// The parts that a sum over this many rows of data is divided into, if it is long: the same on any number of ranks. More ranks than
    /// parts all do the same.
    pub(crate) fn divide(self, rows: usize) -> Option<Parts> {
        let total = (rows / ROWS).min(PARTS);
        // On a GPU, sums over parts would be taken on the host.
        if total < 2 || self.device != Device::Cpu {
            return None;
        }
        match self.ranks {
            Some(ranks) if ranks.place().1 <= total => ranks.parts(total).ok(),
            _ => Some(Parts::alone(total)),
        }
    }

    /// What every rank has, in the order of ranks.
    pub(crate) fn gather(self, mine: Vec<f64>) -> Result<Vec<Vec<f64>>> {
        match self.ranks {
            Some(ranks) => ranks.numbers(mine),
            None => Ok(vec![mine]),
        }
    }

    /// Whether it holds on any rank.
    pub(crate) fn any(self, here: bool) -> Result<bool> {
        self.ranks.map_or(Ok(here), |ranks| ranks.any(here))
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
