//! [`Progress`]: whether there is more to read.

/// End of a turn of reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// All input is read, and the waker is registered.
    Drained,
    /// The turn is over, and there may be more.
    More,
}
