//! Threads that walk through a program together, and the barrier they meet at.

use super::arena::Arena;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, TryLockError};

/// Spins before a waiting thread starts to give way to others.
const SPINS: usize = 300;

thread_local! {
    /// Kept between runs, so that a run allocates nothing.
    static SCRATCH: RefCell<Arena> = RefCell::default();
    /// Whether this thread is running a program: one run from inside it (by an external function) gets no team.
    static BUSY: Cell<bool> = const { Cell::new(false) };
}

/// A meeting point. Waiting spins: segments last microseconds, and sleeping would take longer than they do.
pub(super) struct Barrier {
    threads: usize,
    arrived: AtomicUsize,
    generation: AtomicUsize,
    /// A thread panicked and will never arrive.
    broken: AtomicBool,
}

impl Barrier {
    fn new(threads: usize) -> Self {
        Barrier {
            threads,
            arrived: AtomicUsize::new(0),
            generation: AtomicUsize::new(0),
            broken: AtomicBool::new(false),
        }
    }

    /// Whether there is only one thread.
    pub fn is_for_one(&self) -> bool {
        self.threads == 1
    }

    /// Wait until all threads are here; the last one does `then` first.
    pub fn wait(&self, then: impl FnOnce()) {
        if self.threads == 1 {
            return then();
        }
        let generation = self.generation.load(Ordering::Relaxed);
        if self.arrived.fetch_add(1, Ordering::AcqRel) == self.threads - 1 {
            self.arrived.store(0, Ordering::Relaxed);
            then();
            self.generation.store(generation.wrapping_add(1), Ordering::Release);
            return;
        }
        let mut spins = 0;
        while self.generation.load(Ordering::Acquire) == generation {
            spins += 1;
            if spins < SPINS {
                std::hint::spin_loop();
            } else {
                assert!(!self.broken.load(Ordering::Relaxed), "another thread of the program panicked");
                std::thread::yield_now();
            }
        }
    }
}

/// Marks the barrier broken if its thread unwinds, and the thread free in any case.
struct Guard<'a> {
    barrier: &'a Barrier,
    /// Whether the thread was busy before.
    outer: bool,
}
impl Drop for Guard<'_> {
    fn drop(&mut self) {
        BUSY.set(self.outer);
        if std::thread::panicking() {
            self.barrier.broken.store(true, Ordering::Relaxed);
        }
    }
}

/// A number of threads, shared by all programs that use as many.
pub(super) struct Team {
    threads: usize,
    /// One program at a time: two that wait at barriers on the same threads could wait for each other for ever.
    pool: Option<Mutex<rayon::ThreadPool>>,
}

impl Team {
    /// The team of this size. Falls back to one thread if the system grants no more.
    pub fn of(threads: usize) -> Arc<Team> {
        static TEAMS: OnceLock<Mutex<HashMap<usize, Arc<Team>>>> = OnceLock::new();
        let mut teams = TEAMS.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
        let team = teams.entry(threads).or_insert_with(|| {
            let builder = rayon::ThreadPoolBuilder::new().num_threads(threads);
            let pool = if threads > 1 { builder.build().ok() } else { None };
            let threads = if pool.is_some() { threads } else { 1 };
            Arc::new(Team { threads, pool: pool.map(Mutex::new) })
        });
        team.clone()
    }

    /// Run `walk` on every thread of the team.
    pub fn run(&self, walk: &(dyn Fn(usize, &mut Arena, &Barrier) + Sync)) {
        // Whoever finds the team at work goes alone, rather than wait: a thread of a user's pool that waits may be
        // given another program to run, and that one would wait for the first.
        let pool = self.pool.as_ref().filter(|_| !BUSY.get()).and_then(|pool| match pool.try_lock() {
            Ok(pool) => Some(pool),
            Err(TryLockError::Poisoned(pool)) => Some(pool.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        });
        let barrier = Barrier::new(if pool.is_some() { self.threads } else { 1 });
        let on_thread = |index: usize| {
            let _guard = Guard { barrier: &barrier, outer: BUSY.replace(true) };
            let mut scratch = SCRATCH.take();
            walk(index, &mut scratch, &barrier);
            SCRATCH.set(scratch);
        };
        match pool {
            None => on_thread(0),
            Some(pool) => {
                pool.broadcast(|thread| on_thread(thread.index()));
            }
        }
    }
}
