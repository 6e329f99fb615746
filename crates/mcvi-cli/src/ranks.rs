//! The processes that `mpirun` starts: which one this is, and how it ends when another does.

use crate::mistake::Mistake;
use anyhow::Result;
use mcvi::Ranks;
use std::ops::ControlFlow;
use std::sync::OnceLock;

/// This process's rank and how many there are, with what carries their messages.
static STARTED: OnceLock<(usize, usize, Ranks)> = OnceLock::new();

/// Variables that say how many processes there are: of Open MPI, of MPICH and others, of Slurm.
const SIZES: [&str; 4] = ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MPI_LOCALNRANKS", "SLURM_STEP_NUM_TASKS"];

/// How many processes `mpirun` or `srun` has started; 1 if it was not used.
fn launched() -> usize {
    SIZES.iter().find_map(|name| std::env::var(name).ok()?.parse().ok()).unwrap_or(1)
}

/// What keeps MPI running; it is ended in order when this is dropped.
pub struct Session {
    #[cfg(feature = "mpi")]
    _universe: Option<mpi::environment::Universe>,
}

impl Session {
    /// Join the other processes, if this one was started with others.
    #[cfg(feature = "mpi")]
    pub fn start() -> Result<Self> {
        let variables = SIZES[..3].iter().any(|name| std::env::var_os(name).is_some());
        if !variables {
            return Ok(Session { _universe: None });
        }
        let begun = mpi::initialize_with_threading(mpi::Threading::Multiple);
        let Some((universe, threading)) = begun else { anyhow::bail!("MPI could not be started") };
        if threading != mpi::Threading::Multiple {
            anyhow::bail!(
                "this MPI allows no calls from several threads (MPI_THREAD_MULTIPLE); use another build of it"
            );
        }
        let world = world::World::new();
        let (rank, size) = (mcvi::Communicator::rank(&world), mcvi::Communicator::size(&world));
        let _ = STARTED.set((rank, size, Ranks::new(world)));
        Ok(Session { _universe: Some(universe) })
    }

    /// Without MPI there is only this process.
    #[cfg(not(feature = "mpi"))]
    pub fn start() -> Result<Self> {
        Ok(Session {})
    }

    /// End this process with a code. After an error all others end too, so that none waits for it; those that a signal has stopped
    /// were stopped together.
    pub fn end(self, code: u8) {
        let Some((rank, size, _)) = STARTED.get() else { return };
        if *size > 1 && (1..128).contains(&code) {
            // The first rank speaks for all where all have the same error.
            if *rank > 0 {
                std::thread::sleep(std::time::Duration::from_secs(2));
            }
            #[cfg(feature = "mpi")]
            world::abort(code);
        }
    }
}

/// The processes that this one has joined, if any.
pub fn joined() -> Option<Ranks> {
    STARTED.get().map(|(_, _, ranks)| *ranks)
}

/// The processes that share the work; none if this one works alone. An error if there are others that it cannot reach.
pub fn shared() -> Result<Option<Ranks>> {
    if let Some(ranks) = joined() {
        return Ok(Some(ranks));
    }
    if launched() > 1 && !cfg!(feature = "mpi") {
        let why = "this mcvi was built without MPI, and cannot share its work among several processes; build it with \
                   cargo build --release --features mpi, or start one process";
        return Err(Mistake(why.to_owned()).into());
    }
    Ok(None)
}

/// What the first process has: all go by its clock.
pub fn agreed(here: f64) -> f64 {
    joined().map_or(here, |ranks| ranks.agree(here).unwrap_or(here))
}

/// Whether all processes go on: none does if one is to stop. One that cannot tell fails soon in what it shares with the others.
pub fn together(here: ControlFlow<()>) -> ControlFlow<()> {
    let any = STARTED.get().map_or(Ok(here.is_break()), |(_, _, ranks)| ranks.any(here.is_break()));
    if any.unwrap_or(true) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}

/// An error if several processes were started by MPI.
pub fn alone() -> Result<()> {
    match STARTED.get() {
        Some((_, size, _)) if *size > 1 => {
            let why = "this command runs in one process; MPI is for `mcvi fit`, `mcvi vae train` and `mcvi vae evaluate`, and --shard for many fits";
            Err(Mistake(why.to_owned()).into())
        }
        _ => Ok(()),
    }
}

/// This process's number, if it is not the one that speaks for all.
pub fn silent() -> Option<usize> {
    STARTED.get().map(|started| started.0).filter(|rank| *rank > 0)
}

#[cfg(feature = "mpi")]
mod world {
    //! Messages by MPI.

    use mpi::point_to_point::{Destination, Source};
    use mpi::request::WaitGuard;
    use mpi::topology::{Communicator as _, SimpleCommunicator};

    pub struct World {
        rank: usize,
        size: usize,
    }

    impl World {
        pub fn new() -> Self {
            let world = SimpleCommunicator::world();
            World { rank: world.rank() as usize, size: world.size() as usize }
        }
    }

    impl mcvi::Communicator for World {
        fn rank(&self) -> usize {
            self.rank
        }
        fn size(&self) -> usize {
            self.size
        }
        // MPI itself ends all processes if one is lost.
        fn exchange(&self, tag: u32, mut messages: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>, String> {
            let (world, tag) = (SimpleCommunicator::world(), tag as i32);
            let own = std::mem::take(&mut messages[self.rank]);
            let others = || (0..self.size).filter(|rank| *rank != self.rank);
            let mut received = vec![vec![]; self.size];
            mpi::request::scope(|scope| {
                let send = |rank: usize| {
                    let to = world.process_at_rank(rank as i32);
                    WaitGuard::from(to.immediate_send_with_tag(scope, &messages[rank][..], tag))
                };
                let _sent: Vec<_> = others().map(send).collect();
                for rank in others() {
                    received[rank] = world.process_at_rank(rank as i32).receive_vec_with_tag::<u8>(tag).0;
                }
            });
            received[self.rank] = own;
            Ok(received)
        }
    }

    pub fn abort(code: u8) -> ! {
        SimpleCommunicator::world().abort(code.into())
    }
}
