//! CRC-64/NVME, as fast for short inputs as the processor permits.
//!
//! Fragments of detector data are often shorter than a kilobyte. There, a checksum takes as long as
//! the slowest chain of dependent instructions, and not as long as the number of bytes demands. So
//! both paths of this crate bring an input to the length of whole vectors by zeros in front of it,
//! which do not change the checksum, instead of computing a head and a tail by themselves. They
//! multiply all vectors at once by the powers of x that belong to their distances from the end, and
//! reduce the sum once.
//!
//! | path | processors |
//! |---|---|
//! | `avx512` | x86-64 with VPCLMULQDQ and AVX-512 F, BW and VBMI (Ice Lake, Zen 4 and later) |
//! | `pclmulqdq` | x86-64 with PCLMULQDQ and AVX; `avx512` takes it for at most 128 bytes |
//! | [`crc_fast`] | all others |
//!
//! ```
//! // The check value of CRC-64/NVME.
//! assert_eq!(evb_crc::checksum(b"123456789"), 0xae8b_1486_0a79_9888);
//! ```

#[cfg(target_arch = "x86_64")]
mod powers;
#[cfg(target_arch = "x86_64")]
mod pclmulqdq;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod path;

pub use path::supported;

/// Function that returns the state after some bytes, from the state before them. The first state is
/// all ones, and the checksum is the complement of the last.
pub type Path = fn(state: u64, bytes: &[u8]) -> u64;

/// The state before the first byte. The value of a checksum is the complement of its last state.
const INITIAL: u64 = u64::MAX;

/// Returns the CRC-64/NVME of `bytes` (NVM Express NVM command set 1.0, §5.2.1.3.4; polynomial
/// `0xad93d23594c93659`, reflected, initial value and final XOR all ones).
#[inline]
pub fn checksum(bytes: &[u8]) -> u64 {
    !path::update(INITIAL, bytes)
}

/// A checksum over bytes that arrive in pieces. It remembers nothing but a state of eight bytes and
/// the number of bytes, so it costs nothing to create, and pieces may be short.
///
/// ```
/// let mut digest = evb_crc::Digest::default();
/// for piece in [b"detector ".as_slice(), b"data"] {
///     digest.update(piece);
/// }
/// assert_eq!(digest.value(), evb_crc::checksum(b"detector data"));
/// assert_eq!(digest.length(), 13);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest {
    state: u64,
    length: u64,
}

impl Default for Digest {
    fn default() -> Self {
        Self { state: INITIAL, length: 0 }
    }
}

impl Digest {
    /// Adds the next bytes.
    #[inline]
    pub fn update(&mut self, bytes: &[u8]) {
        self.state = path::update(self.state, bytes);
        self.length += bytes.len() as u64;
    }

    /// Returns the checksum of all bytes so far.
    pub const fn value(&self) -> u64 {
        !self.state
    }

    /// Returns the number of bytes so far.
    pub const fn length(&self) -> u64 {
        self.length
    }
}

#[cfg(test)]
mod tests;
