//! The readers of `mcvi_cli::fuzz` by name.

use mcvi_cli::fuzz::TARGETS;

/// Feed an input to a reader.
///
/// # Panics
/// If there is no such reader.
pub fn run(name: &str, data: &[u8]) {
    let target = TARGETS.iter().find(|target| target.name == name).expect("a reader of this name");
    (target.run)(data);
}
