//! Inputs that consist of several parts: pieces of bytes, each behind its length, and streams that
//! arrive piece by piece.

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

/// Runs a future to its end, on a runtime that is kept.
///
/// # Panics
/// Panics if the operating system refuses a runtime.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    RUNTIME.with_borrow_mut(|kept| {
        let make = || Builder::new_current_thread().enable_all().build().expect("a runtime");
        kept.get_or_insert_with(make).block_on(future)
    })
}

/// One piece: a byte for its purpose, and its bytes.
pub type Piece<'a> = (u8, &'a [u8]);

/// Returns the pieces of an input: each is a byte, a length (u16, little-endian) and this many
/// bytes, or as many as are left.
pub fn pieces(mut data: &[u8]) -> impl Iterator<Item = Piece<'_>> {
    std::iter::from_fn(move || {
        let ([kind, l0, l1], rest) = data.split_first_chunk::<3>()?;
        let length = usize::from(u16::from_le_bytes([*l0, *l1])).min(rest.len());
        let (piece, rest) = rest.split_at(length);
        data = rest;
        Some((*kind, piece))
    })
}

/// Returns the input that has these pieces.
///
/// # Panics
/// Panics if a piece has more than 64 KiB.
pub fn join(pieces: &[Piece<'_>]) -> Vec<u8> {
    let mut data = Vec::new();
    for (kind, piece) in pieces {
        data.push(*kind);
        data.extend(u16::try_from(piece.len()).expect("a short piece").to_le_bytes());
        data.extend_from_slice(piece);
    }
    data
}

/// A stream that returns its bytes a few at a time, and then ends.
#[derive(Debug)]
pub struct Slowly<'a> {
    bytes: &'a [u8],
    step: usize,
}

impl<'a> Slowly<'a> {
    /// Creates a stream that returns at most `step` bytes at a time.
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
