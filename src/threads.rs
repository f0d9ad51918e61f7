//! The start of evb's own threads.

#[cfg(test)]
mod tests;

use std::{
    io,
    thread::{Builder, JoinHandle},
};

use evb_net::host::block_signals_of_writes;

/// Starts a thread in which no write ends the process. A program that embeds evb may have any
/// disposition of SIGPIPE and SIGXFSZ, and keeps it.
pub(crate) fn start<T: Send + 'static>(
    name: impl Into<String>,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    Builder::new().name(name.into()).spawn(|| {
        block_signals_of_writes();
        work()
    })
}
