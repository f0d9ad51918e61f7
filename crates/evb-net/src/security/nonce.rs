//! [`Nonce`]: the number of a tag.

/// Length of a tag in bytes.
pub const TAG_LENGTH: usize = 16;

/// The number of a tag: its class, and its place in that class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nonce {
    /// Count of earlier tags in that class.
    pub number: u64,
    /// Class of tags that share a sequence of numbers.
    pub class: u32,
}
