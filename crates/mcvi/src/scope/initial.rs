//! Starting values of parameters.

/// Starting value of a parameter, and the size of a change in it that matters.
pub struct Initial {
    /// The values, in row-major order.
    pub values: Vec<f64>,
    /// One scale for each value.
    pub scale: Vec<f64>,
}

impl Initial {
    /// Values whose changes matter at the scale of one.
    pub fn new(values: Vec<f64>) -> Self {
        let scale = vec![1.0; values.len()];
        Initial { values, scale }
    }

    /// With another scale for each value.
    pub fn scaled(values: Vec<f64>, scale: Vec<f64>) -> Self {
        Initial { values, scale }
    }
}

/// Numbers of unit variance, the same on every machine: a network needs units that differ, not randomness.
pub(super) fn spread_numbers(n: usize, path: &str, seed: u64) -> impl Iterator<Item = f64> + use<> {
    // FNV-1a over the name, so that layers of one size differ.
    let name = path.bytes().fold(0xCBF2_9CE4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01B3));
    let mut state = name ^ seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (0..n).map(move |_| {
        // SplitMix64, and a uniform of variance one.
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut x = state;
        x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        x ^= x >> 31;
        ((x >> 11) as f64 / (1u64 << 53) as f64 - 0.5) * 12f64.sqrt()
    })
}
