//! Tests of the public interface, as one program: linking is most of what a program of tests costs. `cuda.rs` is apart, to be
//! run alone on a machine with a GPU, and `allocation.rs`, which counts what the whole process allocates.

#[path = "../common/mod.rs"]
mod common;

mod derivatives;
mod determinism;
mod errors;
mod external;
mod literals;
mod memory;
mod mixed_term;
mod programs;
mod ranks;
mod regressions;
mod scan;
mod trees;
mod values;
