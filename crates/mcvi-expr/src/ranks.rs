//! Ranks: processes, or threads in their place, that run one program together, each with some of its parts.
//!
//! Parts are fixed by the data and added in their order, whoever holds them, so that the number of ranks changes no bit.

use crate::error::{Error, Result};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, LazyLock, Mutex, PoisonError};

/// How ranks talk to each other.
pub trait Communicator: Send + Sync {
    /// This rank, from 0 on.
    fn rank(&self) -> usize;
    /// How many there are.
    fn size(&self) -> usize;
    /// Send one message to each rank (itself included) and return what each sent here. All ranks call it with the same tag, which
    /// tells calls apart that are under way at once. An error says that another rank is lost.
    fn exchange(&self, tag: u32, messages: Vec<Vec<u8>>) -> std::result::Result<Vec<Vec<u8>>, String>;
}

/// The tag of messages between programs; sums in programs have larger ones.
const BETWEEN: u32 = 0;

/// The parts of a computation, and who holds which.
#[derive(Clone)]
pub struct Parts {
    communicator: Arc<dyn Communicator>,
    total: usize,
}

impl Parts {
    /// This many parts, shared out among the ranks in order: at least one for each.
    pub fn new(communicator: Arc<dyn Communicator>, total: usize) -> Result<Self> {
        let ranks = communicator.size();
        if total < ranks {
            let why = format!("{ranks} ranks need at least as many parts, not {total}");
            return Err(Error::Setting { what: "parts", why });
        }
        Ok(Parts { communicator, total })
    }

    /// All of them here.
    pub fn alone(total: usize) -> Self {
        static ALONE: LazyLock<Arc<dyn Communicator>> = LazyLock::new(|| Arc::new(Alone));
        Parts { communicator: ALONE.clone(), total: total.max(1) }
    }

    /// The first of those held here, where the others will never be added: to see what a part costs.
    pub fn one(&self) -> Self {
        Parts { communicator: Arc::new(One { part: self.mine().start, of: self.total }), total: self.total }
    }

    /// The rows of data, of so many, that belong to a part.
    pub fn rows(&self, part: usize, rows: usize) -> Range<usize> {
        part * rows / self.total..(part + 1) * rows / self.total
    }

    /// The rows of all parts held here.
    pub fn held(&self, rows: usize) -> Range<usize> {
        let mine = self.mine();
        mine.start * rows / self.total..mine.end * rows / self.total
    }

    /// How many parts there are.
    pub fn total(&self) -> usize {
        self.total
    }

    /// Those that this rank holds.
    pub fn mine(&self) -> Range<usize> {
        self.of(self.communicator.rank())
    }

    fn of(&self, rank: usize) -> Range<usize> {
        let ranks = self.communicator.size();
        rank * self.total / ranks..(rank + 1) * self.total / ranks
    }

    /// What every rank has, in the order of ranks, and so of parts. All ranks call it at the same point, outside of programs.
    pub fn gather(&self, mine: Vec<u8>) -> Result<Vec<Vec<u8>>> {
        let ranks = self.communicator.size();
        self.communicator.exchange(BETWEEN, vec![mine; ranks]).map_err(|message| Error::Ranks { message })
    }

    /// Add all parts, in their order. `mine` are those held here, one after the other.
    ///
    /// Every rank adds a slice of all parts, and all get all slices: each element travels twice, however many ranks there are.
    pub(crate) fn sum<T: Number>(&self, tag: u32, mine: &[T], to: &mut [T]) -> Result<()> {
        let (ranks, len) = (self.communicator.size(), to.len());
        let slice = |rank: usize| rank * len / ranks..(rank + 1) * len / ranks;
        let failed = |message| Error::Ranks { message };
        let add = |to: &mut [T], part: &[T]| to.iter_mut().zip(part).for_each(|(to, x)| *to = *to + *x);
        if ranks == 1 {
            let (first, others) = mine.split_at(len);
            to.copy_from_slice(first);
            others.chunks(len.max(1)).for_each(|part| add(to, part));
            return Ok(());
        }
        let message = |rank: usize| {
            let mut bytes = vec![];
            mine.chunks(len.max(1)).for_each(|part| T::write(&part[slice(rank)], &mut bytes));
            bytes
        };
        let own = slice(self.communicator.rank());
        let received = self.communicator.exchange(2 * tag, (0..ranks).map(message).collect()).map_err(failed)?;
        let size = size_of::<T>();
        if received.iter().map(Vec::len).sum::<usize>() != self.total * own.len() * size {
            let message = "another rank computes something else; start all of them with the same command".to_owned();
            return Err(failed(message));
        }
        let sum = &mut to[own.clone()];
        let mut part = sum.to_vec();
        let parts = received.iter().flat_map(|bytes| bytes.chunks((own.len() * size).max(1)));
        for (i, bytes) in parts.enumerate() {
            if i == 0 {
                T::read(bytes, sum);
            } else {
                T::read(bytes, &mut part);
                add(sum, &part);
            }
        }
        let mut bytes = vec![];
        T::write(sum, &mut bytes);
        let slices = self.communicator.exchange(2 * tag + 1, vec![bytes; ranks]).map_err(failed)?;
        for (rank, bytes) in slices.iter().enumerate() {
            T::read(bytes, &mut to[slice(rank)]);
        }
        Ok(())
    }
}

impl PartialEq for Parts {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.communicator, &other.communicator) && self.total == other.total
    }
}
impl Eq for Parts {}
impl Hash for Parts {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (Arc::as_ptr(&self.communicator).cast::<()>(), self.total).hash(state);
    }
}
impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} parts", self.mine().len(), self.total)
    }
}

/// Numbers that are summed.
pub(crate) trait Number: Copy + std::ops::Add<Output = Self> {
    /// Add their bytes.
    fn write(numbers: &[Self], to: &mut Vec<u8>);
    /// As many as there is room for.
    fn read(bytes: &[u8], to: &mut [Self]);
}
macro_rules! number {
    ($($type:ty),*) => {$(
        impl Number for $type {
            fn write(numbers: &[Self], to: &mut Vec<u8>) {
                let from = to.len();
                to.resize(from + size_of_val(numbers), 0);
                to[from..].as_chunks_mut().0.iter_mut().zip(numbers).for_each(|(b, x)| *b = x.to_ne_bytes());
            }
            fn read(bytes: &[u8], to: &mut [Self]) {
                to.iter_mut().zip(bytes.as_chunks().0).for_each(|(x, b)| *x = Self::from_ne_bytes(*b));
            }
        }
    )*};
}
number!(f32, f64);

/// One rank.
struct Alone;

impl Communicator for Alone {
    fn rank(&self) -> usize {
        0
    }
    fn size(&self) -> usize {
        1
    }
    fn exchange(&self, _: u32, messages: Vec<Vec<u8>>) -> std::result::Result<Vec<Vec<u8>>, String> {
        Ok(messages)
    }
}

/// One of some ranks that do not exist.
struct One {
    part: usize,
    of: usize,
}

impl Communicator for One {
    fn rank(&self) -> usize {
        self.part
    }
    fn size(&self) -> usize {
        self.of
    }
    fn exchange(&self, _: u32, _: Vec<Vec<u8>>) -> std::result::Result<Vec<Vec<u8>>, String> {
        Err("there are no other ranks".to_owned())
    }
}

type Message = (u32, Vec<u8>);

/// A rank that is a thread: for tests, and to see what processes would do.
pub struct ThreadRank {
    rank: usize,
    to: Vec<Sender<Message>>,
    from: Vec<Mailbox>,
}

impl ThreadRank {
    /// This many ranks, one for each thread.
    pub fn new(size: usize) -> Vec<Self> {
        let mut ranks: Vec<Self> = (0..size).map(|rank| ThreadRank { rank, to: vec![], from: vec![] }).collect();
        for receiver in 0..size {
            for sender in 0..size {
                let (to, from) = channel();
                ranks[sender].to.push(to);
                ranks[receiver].from.push(Mailbox::new(from));
            }
        }
        ranks
    }
}

impl Communicator for ThreadRank {
    fn rank(&self) -> usize {
        self.rank
    }
    fn size(&self) -> usize {
        self.to.len()
    }
    fn exchange(&self, tag: u32, messages: Vec<Vec<u8>>) -> std::result::Result<Vec<Vec<u8>>, String> {
        let lost = |rank: usize| format!("rank {rank} has ended");
        for (rank, (to, message)) in self.to.iter().zip(messages).enumerate() {
            to.send((tag, message)).map_err(|_| lost(rank))?;
        }
        self.from.iter().enumerate().map(|(rank, from)| from.take(tag).ok_or_else(|| lost(rank))).collect()
    }
}

/// What one rank sent, by tag.
struct Mailbox {
    /// Messages of other tags than the one that was waited for, and whether somebody is waiting for more.
    early: Mutex<(Vec<Message>, bool)>,
    from: Mutex<Receiver<Message>>,
    changed: Condvar,
}

impl Mailbox {
    fn new(from: Receiver<Message>) -> Self {
        Mailbox { early: Mutex::default(), from: Mutex::new(from), changed: Condvar::new() }
    }

    /// The next message with this tag; none if the sender has ended.
    fn take(&self, tag: u32) -> Option<Vec<u8>> {
        let mut early = self.early.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(i) = early.0.iter().position(|(t, _)| *t == tag) {
                return Some(early.0.remove(i).1);
            }
            if early.1 {
                early = self.changed.wait(early).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            early.1 = true;
            drop(early);
            let message = self.from.lock().unwrap_or_else(PoisonError::into_inner).recv();
            early = self.early.lock().unwrap_or_else(PoisonError::into_inner);
            early.1 = false;
            self.changed.notify_all();
            early.0.push(message.ok()?);
        }
    }
}
