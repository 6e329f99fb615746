//! Threads that walk through a program together, and the barrier they meet at.

use super::arena::Arena;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, TryLockError};
use std::time::{Duration, Instant};

/// Spins before a waiting thread starts to give way to others.
const SPINS: usize = 300;

thread_local! {
    /// Kept between runs, so that a run allocates nothing.
    static SCRATCH: RefCell<Arena> = RefCell::default();
    /// Whether it is the first of its team, which waits for the others only where there is work to share.
    static FIRST: Cell<bool> = const { Cell::new(false) };
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
    /// Nanoseconds that the first thread has waited for others, beyond spinning.
    lost: AtomicU64,
}

impl Barrier {
    fn new(threads: usize) -> Self {
        Barrier {
            threads,
            arrived: AtomicUsize::new(0),
            generation: AtomicUsize::new(0),
            broken: AtomicBool::new(false),
            lost: AtomicU64::new(0),
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
        let (mut spins, mut since) = (0, None);
        while self.generation.load(Ordering::Acquire) == generation {
            spins += 1;
            if spins < SPINS {
                std::hint::spin_loop();
            } else {
                assert!(!self.broken.load(Ordering::Relaxed), "another thread of the program panicked");
                since.get_or_insert_with(Instant::now);
                std::thread::yield_now();
            }
        }
        if let Some(since) = since
            && FIRST.get()
        {
            self.lost.fetch_add(since.elapsed().as_nanos() as u64, Ordering::Relaxed);
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
    rest: Mutex<Rest>,
}

/// Share of a run that may be lost in waiting before threads go alone for a while: on a busy machine, where the system
/// runs them by turns, each waits for one that is not running.
const LOST: f64 = 0.25;
/// How long at first, in lengths of the run that lost so much, and at most. It doubles while runs go on to lose as much.
const PAUSE: u32 = 8;
const LONGEST: Duration = Duration::from_secs(4);

/// Until when the team does not work together.
#[derive(Default)]
struct Rest {
    until: Option<Instant>,
    last: Duration,
}

impl Rest {
    fn is_over(&self) -> bool {
        self.until.is_none_or(|until| Instant::now() >= until)
    }

    /// Learn from a run that took so long, of which so much was lost.
    fn learn(&mut self, took: Duration, lost: Duration) {
        if lost < took.mul_f64(LOST) {
            *self = Rest::default();
            return;
        }
        self.last = (2 * self.last).max(PAUSE * took).min(LONGEST);
        self.until = Instant::now().checked_add(self.last);
    }
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
            Arc::new(Team { threads, pool: pool.map(Mutex::new), rest: Mutex::default() })
        });
        team.clone()
    }

    /// Run `walk` on every thread of the team.
    pub fn run(&self, walk: &(dyn Fn(usize, &mut Arena, &Barrier) + Sync)) {
        // Whoever finds the team at work goes alone, rather than wait: a thread of a user's pool that waits may be
        // given another program to run, and that one would wait for the first.
        let rest = || self.rest.lock().unwrap_or_else(PoisonError::into_inner);
        let pool =
            self.pool.as_ref().filter(|_| !BUSY.get() && rest().is_over()).and_then(|pool| match pool.try_lock() {
                Ok(pool) => Some(pool),
                Err(TryLockError::Poisoned(pool)) => Some(pool.into_inner()),
                Err(TryLockError::WouldBlock) => None,
            });
        let barrier = Barrier::new(if pool.is_some() { self.threads } else { 1 });
        let on_thread = |index: usize| {
            FIRST.set(index == 0);
            let _guard = Guard { barrier: &barrier, outer: BUSY.replace(true) };
            let mut scratch = SCRATCH.take();
            walk(index, &mut scratch, &barrier);
            SCRATCH.set(scratch);
        };
        match pool {
            None => on_thread(0),
            Some(pool) => {
                let since = Instant::now();
                pool.broadcast(|thread| on_thread(thread.index()));
                let lost = Duration::from_nanos(barrier.lost.load(Ordering::Relaxed));
                rest().learn(since.elapsed(), lost);
            }
        }
    }
}
