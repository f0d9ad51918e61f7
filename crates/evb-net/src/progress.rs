//! [`Progress`]: whether there is more to read.

/// Outcome of one turn of reading from a connection or socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// There was no input, and the task's waker is registered for it.
    Idle,
    /// All input is read, and the task's waker is registered for more.
    Drained,
    /// The turn ended at its limit, so more input may be waiting.
    More,
}
