//! Many independent items: data sets to fit, simulations, training runs. They are run side by side on one machine, or shared
//! out to jobs that know nothing of each other, and each result stands under the name of its item in a folder.
//!
//! A result depends on its item alone, never on its place or on the job that ran it. So whatever is there is right, a
//! repeated command does what is missing, and joined shards are equal to an unsharded run.

mod folder;
mod queue;

pub use folder::{FILE, Kind, Manifest, SetFolder};
pub use queue::{Item, Outcome, Queue};

use crate::interrupts::Interrupts;
use crate::output::{print_result, say};
use anyhow::{Result, anyhow};
use serde_json::{Value, json};
use std::fmt;
use std::path::Path;
use std::str::FromStr;

/// One of several jobs that share the items of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    number: usize,
    of: usize,
}

impl Shard {
    /// Whether the i-th item is one of its own. Neighbours go to different shards, since they are often alike.
    pub fn has(self, i: usize) -> bool {
        i % self.of == self.number - 1
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let parts = text.split_once('/').and_then(|(i, n)| Some((i.parse().ok()?, n.parse().ok()?)));
        match parts {
            Some((number, of)) if 1 <= number && number <= of => Ok(Shard { number, of }),
            Some((_, 0)) | None => {
                Err("the number of this shard, a slash, and how many there are, such as 2/8".to_owned())
            }
            Some((_, of)) => Err(format!("of {of} shards the first is 1/{of} and the last {of}/{of}")),
        }
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

/// Run all items of a queue, this many at a time, until a signal stops them. An item that fails, even by a panic, does not
/// affect the others, except those that start from it.
pub fn run(
    queue: Queue,
    at_a_time: usize,
    interrupts: &Interrupts,
    work: impl Fn(usize) -> Outcome + Sync,
    failed: impl Fn(&str, &anyhow::Error) + Sync,
) -> Vec<(String, Option<Outcome>)> {
    std::thread::scope(|scope| {
        for _ in 0..at_a_time {
            scope.spawn(|| {
                while let Some(i) = queue.next(|| interrupts.any()) {
                    let work = || match queue.lacks(i) {
                        Some(before) => Err(anyhow!("`{before}`, which it starts from, did not finish")),
                        None => work(i),
                    };
                    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work))
                        .unwrap_or_else(|_| Err(anyhow!("stopped by an error of the program")));
                    if let Err(error) = &outcome {
                        failed(queue.name(i), error);
                    }
                    queue.ended(i, outcome);
                }
            });
        }
    });
    queue.outcomes()
}

/// The results of all items that were to be run; a set that was interrupted or that lacks some is an error. A shard says how it is
/// joined with the others.
pub fn settle(
    outcomes: Vec<(String, Option<Outcome>)>,
    interrupts: &Interrupts,
    (shard, out): (Option<Shard>, Option<&Path>),
    json: bool,
) -> Result<Vec<Value>> {
    let all = outcomes.len();
    let lost = outcomes.iter().filter(|(_, outcome)| matches!(outcome, Some(Err(_)))).count();
    let done = outcomes.into_iter().filter_map(|(_, outcome)| outcome?.ok());
    let done: Vec<Value> = done.filter(|result| result["interrupted"] != true).collect();
    let again = out.map_or("", |_| "; the same command does the others");
    if interrupts.any() {
        say(&format!("{} of {all} are done{again}", done.len()));
        interrupts.outcome(true)?;
    }
    if lost > 0 || done.len() < all {
        return Err(anyhow!("{} of {all} are done, {lost} failed{again}", done.len()));
    }
    if let (Some(shard), Some(out)) = (shard, out) {
        let out = out.display();
        let text = format!("Shard {shard} is done: {all} results in {out}.\nTo join all shards: mcvi merge {out}");
        print_result(json, &json!({ "shard": shard.to_string(), "done": all }), &text)?;
    }
    Ok(done)
}

/// A name as the name of a file, on any system: what could be misread is written as in an address, `north%2Fwest`.
pub fn file_name(name: &str) -> String {
    let plain = |i: usize, b: u8| b.is_ascii_alphanumeric() || b"-_".contains(&b) || (b == b'.' && i > 0);
    let bytes = name.bytes().enumerate();
    bytes.map(|(i, b)| if plain(i, b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_share_out_every_item_once() {
        for of in 1..=5 {
            let shards: Vec<Shard> = (1..=of).map(|i| format!("{i}/{of}").parse().expect("a shard")).collect();
            for i in 0..13 {
                assert_eq!(shards.iter().filter(|shard| shard.has(i)).count(), 1);
            }
        }
        for bad in ["0/4", "5/4", "1", "1/0", "a/b", "1/2/3", "-1/4"] {
            assert!(bad.parse::<Shard>().is_err(), "{bad}");
        }
    }

    #[test]
    fn names_of_files_are_different_and_harmless() {
        let names = ["a", "a/b", "a%2Fb", "..", "", "ä", "a b", "A"];
        let files: std::collections::BTreeSet<String> = names.iter().map(|name| file_name(name)).collect();
        assert_eq!(files.len(), names.len());
        assert_eq!(file_name("north/west.2"), "north%2Fwest.2");
        assert_eq!(file_name(".."), "%2E.");
    }

    #[test]
    fn an_item_that_fails_stops_only_those_that_start_from_it() {
        let item = |name: &str, after| Item { name: name.to_owned(), after };
        let items = vec![item("a", Some(1)), item("b", None), item("c", None), item("d", Some(2))];
        let queue = Queue::new(items).expect("no circle");
        let work = |i| if i == 1 { panic!("a test") } else { Ok(json!({ "i": i })) };
        let outcomes = run(queue, 2, &Interrupts::new(), work, |_, _| {});
        let done: Vec<bool> = outcomes.iter().map(|(_, o)| matches!(o, Some(Ok(_)))).collect();
        assert_eq!(done, [false, false, true, true]);
        assert_eq!(Queue::new(vec![item("a", Some(1)), item("b", Some(0))]).err().as_deref(), Some("a"));
    }
}
