//! Seeds by name: draws for one purpose are independent of draws for another, and of those made with the seed itself.

/// A seed for one purpose, from a user's seed and the name of the purpose.
///
/// ```
/// assert_ne!(mcvi::derive_seed(1, "validation"), mcvi::derive_seed(1, "posterior draws"));
/// ```
pub fn derive_seed(seed: u64, purpose: &str) -> u64 {
    SplitMix::new(seed, purpose).next()
}

/// SplitMix64 (Steele, Lea & Flood 2014), started from a seed and a name.
pub(crate) struct SplitMix(u64);

impl SplitMix {
    const GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;

    pub fn new(seed: u64, name: &str) -> Self {
        // FNV-1a over the name.
        let hash =
            name.bytes().fold(0xCBF2_9CE4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01B3));
        SplitMix(hash ^ seed.wrapping_mul(Self::GAMMA))
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(Self::GAMMA);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        x ^ (x >> 31)
    }
}
