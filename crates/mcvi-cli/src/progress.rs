//! A progress bar on a terminal, and nothing elsewhere.

use indicatif::{ProgressBar, ProgressStyle};
use std::time::Duration;

/// A bar over this many pieces of work.
pub fn bar(pieces: usize, what: &str) -> ProgressBar {
    // On standard error; hidden if that is not a terminal.
    let bar = ProgressBar::new(pieces as u64);
    let style = ProgressStyle::with_template("{prefix} {bar:24} {pos}/{len}  {elapsed} {wide_msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.set_prefix(what.to_owned());
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}
