//! Lengths that the authentication of a protected lane adds to its bytes.

/// Length of a tag in bytes.
pub const TAG_LENGTH: usize = 16;

/// Number of bytes that a parcel of a protected TCP lane adds to its content: length and tag.
pub const PARCEL_OVERHEAD: usize = 2 + TAG_LENGTH;
