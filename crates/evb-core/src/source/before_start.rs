//! [`BeforeStart`]: what a source does with fragments that come too early.

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
