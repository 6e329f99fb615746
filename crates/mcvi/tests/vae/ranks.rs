//! Training on several ranks: the same bytes on any number of them.

use crate::training::{bytes, epochs};
use crate::{brief, quarters, small};
use mcvi::vae::{Architecture, TrainSettings, Trainer, TrainingCheckpoint};
use mcvi::{Hardware, Ranks};
use mcvi_expr::ThreadRank;
use std::path::Path;

fn settings() -> TrainSettings {
    let settings = brief(3);
    TrainSettings { parts: 4, batch: settings.batch.next_multiple_of(4), ..settings }
}

fn trainer(architecture: &Architecture, hardware: Hardware) -> Trainer {
    let (train, valid) = (quarters(400, 1), quarters(1200, 2));
    Trainer::new(architecture, &settings(), (&train, &valid, "quarters"), hardware).unwrap()
}

/// What each of several ranks does.
fn on_ranks<T: Send>(size: usize, threads: usize, work: impl Fn(Hardware) -> T + Sync) -> Vec<T> {
    std::thread::scope(|scope| {
        let work = &work;
        let start = |rank| {
            let hardware = Hardware { ranks: Some(Ranks::new(rank)), ..Hardware::with_threads(threads) };
            scope.spawn(move || work(hardware))
        };
        let running: Vec<_> = ThreadRank::new(size).into_iter().map(start).collect();
        running.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}

#[test]
fn the_number_of_ranks_changes_no_bit() {
    let train = |hardware| {
        let mut trainer = trainer(&small(), hardware);
        epochs(&mut trainer, 3);
        (bytes(&mut trainer), trainer.progress().clone())
    };
    let alone = train(Hardware::with_threads(2));
    assert!(alone.1.epochs[2].valid_bound > alone.1.epochs[0].valid_bound);
    for size in 1..=4 {
        for (rank, each) in on_ranks(size, 1 + size % 2, train).into_iter().enumerate() {
            assert!(each == alone, "rank {rank} of {size}");
        }
    }
}

#[test]
fn a_run_goes_on_with_another_number_of_ranks() {
    let whole = on_ranks(1, 1, |hardware| {
        let mut trainer = trainer(&small(), hardware);
        epochs(&mut trainer, 3);
        bytes(&mut trainer)
    });
    let begun = on_ranks(3, 1, |hardware| {
        let mut trainer = trainer(&small(), hardware);
        epochs(&mut trainer, 1);
        bytes(&mut trainer)
    });
    let resumed = on_ranks(2, 1, |hardware| {
        let (train, valid) = (quarters(400, 1), quarters(1200, 2));
        let checkpoint = TrainingCheckpoint::from_bytes(&begun[0], Path::new("checkpoint")).unwrap();
        let mut trainer = Trainer::resume(&checkpoint, (&train, &valid, "quarters"), hardware).unwrap();
        epochs(&mut trainer, 2);
        bytes(&mut trainer)
    });
    assert!(resumed.iter().all(|bytes| *bytes == whole[0]));
}

#[test]
fn ranks_need_parts_and_parts_divide_a_batch() {
    let (train, valid) = (quarters(400, 1), quarters(200, 2));
    let error = |settings: &TrainSettings, hardware| {
        let made = Trainer::new(&small(), settings, (&train, &valid, "quarters"), hardware);
        made.err().map(|e| e.to_string()).unwrap_or_default()
    };
    let few = on_ranks(2, 1, |hardware| error(&brief(1), hardware));
    assert!(few.iter().all(|e| e.contains("2 ranks need at least as many parts, not 1")), "{few:?}");
    let uneven = TrainSettings { batch: 10, parts: 4, ..brief(1) };
    assert!(error(&uneven, Hardware::with_threads(1)).contains("10 images cannot be divided into 4 equal parts"));
}
