//! The limit of a source's front ends, and [`BeforeStart`], its treatment of fragments that arrive
//! before the start of the run.

use crate::units::Bytes;

/// Largest number of front ends that may be connected to a source (docs/reference/front-end.md
/// FE-3).
pub const MAX_FRONT_ENDS: u32 = 256;

/// Number of bytes that one read from a front end asks of the operating system.
pub const FRONT_END_READ: usize = 64 * 1024;

/// Smallest number of largest fragments for which a source has memory.
const FEW: u32 = 4;

/// Returns the memory for fragments of which only a part has arrived, if `front_ends` should be
/// connected.
pub fn assembly_memory(max_fragment: Bytes, front_ends: u32) -> Bytes {
    Bytes::new(max_fragment.count().saturating_mul(front_ends.max(FEW).into()))
}

/// Returns the memory that a source needs at most for its front ends: fragments of which a part has
/// arrived, and the read buffers of all connections. `front_ends` is the number of front ends that
/// should be connected.
pub fn front_end_memory(max_fragment: Bytes, front_ends: u32) -> Bytes {
    assembly_memory(max_fragment, front_ends) + Bytes::new(FRONT_END_READ as u64) * MAX_FRONT_ENDS.into()
}

/// Treatment of fragments that arrive before the run has started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BeforeStart {
    /// They belong to the run.
    Keep,
    /// They are discarded and counted.
    Discard,
}
