//! The limit of a source's front ends, and [`BeforeStart`], its treatment of fragments that arrive
//! before the start of the run.

/// Largest number of front ends that may be connected to a source (docs/reference/front-end.md
/// FE-3).
pub const MAX_FRONT_ENDS: u32 = 256;

/// Treatment of fragments that arrive before the run has started.
///
/// ```
/// use evb_core::source::BeforeStart;
///
/// // A board still holds fragments of the last run, which must not get into the next one.
/// let before_start = BeforeStart::Discard;
/// assert_ne!(before_start, BeforeStart::Keep);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BeforeStart {
    /// They belong to the run.
    Keep,
    /// They are discarded and counted.
    Discard,
}
