//! Made-up draws for the tests of what is written.

/// Standard Gaussian numbers, the same for the same seed.
pub fn gaussians(seed: u64, n: usize) -> Vec<f64> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut uniform = || {
        // xorshift64*
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        ((state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    };
    let mut gaussian = || (-2.0 * uniform().ln()).sqrt() * (std::f64::consts::TAU * uniform()).cos();
    (0..n).map(|_| gaussian()).collect()
}
