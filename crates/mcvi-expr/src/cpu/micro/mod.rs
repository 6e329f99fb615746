//! Vectorised elementwise kernels: one operation over blocks of elements, per instruction level.
//!
//! At one level an element's result depends on its operands alone, not on its place or its
//! neighbours; between levels results may differ in the last bits (fused multiply-add or not).

mod elementary;
mod gamma;
mod kernels;
mod lanes;
mod list;
pub mod noise;
#[cfg(test)]
mod noise_tests;
mod real;
mod scalar;
#[cfg(test)]
mod tables;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_edges;

pub use kernels::{Micro, micro};
pub use list::{Lists, RunList, Short, Term, as_muladd, lists};
pub use real::Real;

/// Highest order of [`MicroOp::Polygamma`] and [`MicroOp::PolygammaDiff`] with a kernel.
pub const MAX_ORDER: u32 = 24;

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

/// An elementwise operation on operands a, b, c.
///
/// Errors are bounds of what was found at any level, in either type unless said otherwise; "ulp" is
/// that of the type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MicroOp {
    /// −a
    Neg,
    /// 1/a
    Recip,
    /// a²
    Square,
    /// √a
    Sqrt,
    /// |a|
    Abs,
    /// −1, 0 or 1; NaN at NaN
    Sign,
    /// Largest integer not above a
    Floor,
    /// e^a, to 1.1 ulp
    Exp,
    /// e^a − 1, to 2 ulp
    Expm1,
    /// ln a, to 1 ulp
    Ln,
    /// ln(1 + a), to 2 ulp
    Log1p,
    /// ln(1 + e^a), to 2 ulp
    Softplus,
    /// 1/(1 + e^−a), to 2.5 ulp
    Sigmoid,
    /// tanh a, to 3 ulp
    Tanh,
    /// sin a, to 2 ulp; the standard library's from |a| = 10⁵
    Sin,
    /// cos a, to 2 ulp; the standard library's from |a| = 10⁵
    Cos,
    /// erf a, to 2 ulp
    Erf,
    /// ln|Γ(a)|, to 1e-14·max(1, |value|), in `f32` 2e-7·max(1, |value|)
    Lgamma,
    /// ψ⁽ᵏ⁾(a): digamma (0), trigamma (1), … up to [`MAX_ORDER`]. Orders 0 and 1 to
    /// 1e-14·max(1, |value|), in `f32` 2e-7; the others, in scalar code, to 1e-12 relative for
    /// a > 0. At negative a by reflection up to order 20, NaN beyond.
    Polygamma(u32),
    /// a + b
    Add,
    /// a − b
    Sub,
    /// a·b
    Mul,
    /// a/b
    Div,
    /// The smaller; NaN if either is
    Min,
    /// The larger; NaN if either is
    Max,
    /// a^b, to 1.1 ulp; the standard library's unless a is positive and normal and b finite
    Pow,
    /// 1 if a < b, else 0
    Lt,
    /// 1 if a ≤ b, else 0
    Le,
    /// 1 if a = b, else 0
    Eq,
    /// ψ⁽ᵏ⁻¹⁾(a + b) − ψ⁽ᵏ⁻¹⁾(a), lgamma standing for ψ⁽⁻¹⁾, k up to [`MAX_ORDER`]. For positive
    /// a and a + b to 1e-14 relative (k ≤ 2; absolute near the zeros of k = 0; in `f32` 5e-7) or
    /// 1e-12 (k ≥ 3, scalar code), however large a or small b; elsewhere the plain difference.
    PolygammaDiff(u32),
    /// [`MicroOp::PolygammaDiff`] of two consecutive orders at once, k = 0 or 1: k goes to `dst`, k + 1 to
    /// `c`. c is a second result: the kernel writes through that pointer. Either result may be a or b,
    /// the other not the same; errors are those of the single operations.
    PolygammaDiffPair(u32),
    /// a·b + c, fused where the level has it
    MulAdd,
    /// b where a ≠ 0, else c
    Select,
}
