//! Mutated inputs for every reader: each is read or refused, and none makes the reader panic. `mcvi-bench fuzz` does the
//! same with as many inputs as there is time for, and watches time and memory.

use mcvi_cli::fuzz::{Rng, TARGETS, mutated, seeds};
use std::path::Path;

/// Inputs of each reader.
const INPUTS: u64 = 2000;

#[test]
fn no_bytes_make_a_reader_panic() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    std::thread::scope(|scope| {
        let threads = TARGETS.map(|target| {
            let seeds = seeds(&corpus, &target).expect("a corpus");
            scope.spawn(move || {
                for (i, seed) in seeds.iter().enumerate() {
                    assert!((target.run)(seed), "{}: seed {i} is valid", target.name);
                }
                for number in 0..INPUTS {
                    let bytes = mutated(&seeds, &mut Rng::new(1, target.name, number));
                    let run = std::panic::catch_unwind(|| (target.run)(&bytes));
                    assert!(run.is_ok(), "{}: input {number} makes the reader panic", target.name);
                }
            })
        });
        let failed: Vec<_> = threads.into_iter().filter_map(|thread| thread.join().err()).collect();
        assert!(failed.is_empty(), "{} readers, see above", failed.len());
    });
}
