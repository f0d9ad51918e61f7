//! [`Nonce`]: the number of a tag.

/// The unique number of a tag: its class, and its position within the class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nonce {
    /// Number of earlier tags in the same class.
    pub number: u64,
    /// Class of tags that share a sequence of numbers.
    pub class: u32,
}
