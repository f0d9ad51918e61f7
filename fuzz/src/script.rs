//! Helpers for structured fuzz inputs: byte strings with a length prefix, and streams that deliver
//! a few bytes at a time.

use std::{
    cell::RefCell,
    future::Future,
    io,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::{
    io::{AsyncRead, ReadBuf},
    runtime::{Builder, Runtime},
};

thread_local! {
    static RUNTIME: RefCell<Option<Runtime>> = const { RefCell::new(None) };
}

/// Runs a future to completion, on a tokio runtime that all calls of a thread share.
///
/// # Panics
/// Panics if the runtime cannot be created.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    RUNTIME.with_borrow_mut(|kept| {
        let make = || Builder::new_current_thread().enable_all().build().expect("a runtime");
        kept.get_or_insert_with(make).block_on(future)
    })
}

/// A piece of a fuzz input: a byte that states its kind, and its content.
pub type Piece<'a> = (u8, &'a [u8]);

/// Splits an input into its pieces: each has a kind (one byte), a length (u16, little-endian) and a
/// content of this length, which may be cut off in the last piece.
pub fn pieces(mut data: &[u8]) -> impl Iterator<Item = Piece<'_>> {
    std::iter::from_fn(move || {
        let ([kind, l0, l1], rest) = data.split_first_chunk::<3>()?;
        let length = usize::from(u16::from_le_bytes([*l0, *l1])).min(rest.len());
        let (piece, rest) = rest.split_at(length);
        data = rest;
        Some((*kind, piece))
    })
}

/// Joins the pieces to a fuzz input, from which [`pieces`] returns them again.
///
/// # Panics
/// Panics if a piece has 64 KiB or more.
pub fn join(pieces: &[Piece<'_>]) -> Vec<u8> {
    let mut data = Vec::new();
    for (kind, piece) in pieces {
        data.push(*kind);
        data.extend(u16::try_from(piece.len()).expect("a short piece").to_le_bytes());
        data.extend_from_slice(piece);
    }
    data
}

/// A stream that delivers its bytes a few at a time, and then ends.
#[derive(Debug)]
pub struct Slowly<'a> {
    bytes: &'a [u8],
    step: usize,
}

impl<'a> Slowly<'a> {
    /// Creates a stream that delivers at most `step` bytes per read, but at least one.
    pub fn new(bytes: &'a [u8], step: u8) -> Self {
        Self { bytes, step: usize::from(step).max(1) }
    }
}

impl AsyncRead for Slowly<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let length = self.step.min(into.remaining()).min(self.bytes.len());
        let (piece, rest) = self.bytes.split_at(length);
        into.put_slice(piece);
        self.bytes = rest;
        Poll::Ready(Ok(()))
    }
}
