//! Reads a stream into two places with one system call (`recvmsg`).

#![allow(unsafe_code)]

use std::{
    io,
    task::{Context, Poll, ready},
};

use bytes::BytesMut;
use socket2::{MaybeUninitSlice, SockRef};
use tokio::{io::Interest, net::TcpStream};

/// Reads into the spare room of `first`, at most `limit` bytes, and then into the spare room of
/// `second`. Returns the number of bytes read into each buffer; two zeros mean the end of the
/// stream.
///
/// A read that returns fewer bytes than there was room for has drained the socket. After such a
/// short read, the function clears tokio's readiness flag, which saves a further system call that
/// would only return `WouldBlock`.
pub(crate) fn poll_read_both(
    stream: &TcpStream,
    cx: &mut Context<'_>,
    first: &mut BytesMut,
    limit: usize,
    second: &mut BytesMut,
) -> Poll<io::Result<(usize, usize)>> {
    loop {
        ready!(stream.poll_read_ready(cx))?;
        let mut outcome = None;
        let tried = stream.try_io(Interest::READABLE, || {
            let (one, two, room) = read_both(stream, first, limit, second)?;
            outcome = Some((one, two));
            match one + two {
                read if read > 0 && read < room => Err(io::ErrorKind::WouldBlock.into()),
                _ => Ok(()),
            }
        });
        match (outcome, tried) {
            (Some(read), _) => return Poll::Ready(Ok(read)),
            (None, Err(error)) if error.kind() == io::ErrorKind::WouldBlock => {}
            (None, Err(error)) => return Poll::Ready(Err(error)),
            (None, Ok(())) => return Poll::Ready(Ok((0, 0))),
        }
    }
}

/// Reads from the stream once. Returns the number of bytes read into each of the two buffers, and
/// the number of bytes that would have fit.
fn read_both(
    stream: &TcpStream,
    first: &mut BytesMut,
    limit: usize,
    second: &mut BytesMut,
) -> io::Result<(usize, usize, usize)> {
    let one = first.spare_capacity_mut();
    let limit = limit.min(one.len());
    let two = second.spare_capacity_mut();
    let room = limit + two.len();
    let mut places = [MaybeUninitSlice::new(&mut one[..limit]), MaybeUninitSlice::new(two)];
    let (read, _) = SockRef::from(stream).recv_vectored(&mut places)?;
    let (one, two) = (read.min(limit), read.saturating_sub(limit));
    // SAFETY: the kernel has written `read` bytes, first into the spare room of `first` up to
    // `limit`, then into the spare room of `second`.
    unsafe {
        first.set_len(first.len() + one);
        second.set_len(second.len() + two);
    }
    Ok((one, two, room))
}

#[cfg(test)]
mod tests;
