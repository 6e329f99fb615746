//! Vectorised elementwise kernels: one operation over blocks of elements, per instruction level.
//!
//! At one level an element's result depends on its operands alone, not on its place or its
//! neighbours; between levels results may differ in the last bits (fused multiply-add or not).

mod elementary;
mod gamma;
mod kernels;
mod lanes;
mod list;
mod loops;
pub mod noise;
#[cfg(test)]
mod noise_tests;
mod real;
mod scalar;
#[cfg(test)]
mod tables;
#[cfg(test)]
mod tables_gamma;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_edges;

pub use kernels::micro;
pub use list::{Lists, RunList, Short, Term, as_muladd, lists};
pub use loops::Micro;
pub use real::Real;

/// Whether the baseline has fused multiply-add as an instruction.
const BASE_FMA: bool = cfg!(any(target_arch = "aarch64", target_feature = "fma"));

/// Instruction level a kernel is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Level {
    /// What every processor of the target has.
    Baseline,
    /// AVX2 and FMA.
    Avx2,
    /// AVX-512 F, BW, DQ and VL, besides AVX2 and FMA.
    Avx512,
}

impl Level {
    /// The best level of the processor this runs on.
    pub fn detect() -> Level {
        #[cfg(target_arch = "x86_64")]
        {
            let avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
            let avx512 = is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl");
            if avx2 && avx512 {
                return Level::Avx512;
            } else if avx2 {
                return Level::Avx2;
            }
        }
        Level::Baseline
    }
}
