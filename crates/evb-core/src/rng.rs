//! A small random number generator. All numbers of a generator follow from its seed, so that a run
//! can be repeated exactly.

/// SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", OOPSLA 2014):
/// uniformly distributed 64-bit numbers. The generator is not cryptographically secure.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// Returns a generator whose numbers follow from `seed`.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next random 64 bits.
    pub const fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Returns a uniform random number in `0..bound`, or zero for an empty range. The bias is below
    /// bound / 2⁶⁴.
    pub const fn below(&mut self, bound: u64) -> u64 {
        ((self.next_u64() as u128 * bound as u128) >> 64) as u64
    }

    /// Returns a uniform random number in [0, 1).
    pub fn uniform(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Returns an exponentially distributed number with mean 1, as for the intervals of a Poisson
    /// process.
    pub fn exponential(&mut self) -> f64 {
        -(1.0 - self.uniform()).ln()
    }

    /// Returns a normally distributed number with mean 0 and standard deviation 1 (Box and Muller
    /// 1958).
    pub fn gaussian(&mut self) -> f64 {
        let radius = (2.0 * self.exponential()).sqrt();
        radius * (core::f64::consts::TAU * self.uniform()).cos()
    }
}
