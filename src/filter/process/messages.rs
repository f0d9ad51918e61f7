//! The messages between evb and a worker (docs/reference/filter.md), each one packet of a socket.

#[cfg(test)]
mod tests;

use std::{
    io::{self, IoSlice},
    mem::MaybeUninit,
    os::fd::{BorrowedFd, OwnedFd},
};

use evb_core::id::EventId;
use rustix::{
    io::Errno,
    net::{
        AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags,
        SocketType, recv, send, sendmsg, socketpair,
    },
};

use super::RECORD_LIMIT;

/// Version of the protocol.
pub(super) const VERSION: u16 = 1;

/// Bytes with which greetings begin.
const MAGIC: [u8; 4] = *b"EVBF";

/// Size of a worker's greeting.
pub(super) const GREETING: usize = 8;

/// Size of a worker's answer about one event.
pub(super) const ANSWER: usize = 16;

/// Limit of the events that one worker has at a time.
pub(super) const QUEUE: usize = 64;

/// Kind of what a request announces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Announced {
    /// The header of a run, for the records that follow.
    Header = 0,
    /// The record of an event, which is to be judged.
    Event = 1,
}

/// Creates a socket with its other end, for a worker.
pub(super) fn channel() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

/// Greets a worker, and gives it the memory.
pub(super) fn greet(socket: &OwnedFd, worker: u16, memory: BorrowedFd<'_>) -> io::Result<()> {
    let mut greeting = [0; 16];
    greeting[..4].copy_from_slice(&MAGIC);
    greeting[4..6].copy_from_slice(&VERSION.to_le_bytes());
    greeting[6..8].copy_from_slice(&worker.to_le_bytes());
    greeting[8..].copy_from_slice(&RECORD_LIMIT.count().to_le_bytes());
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let (mut rights, memory) = (SendAncillaryBuffer::new(&mut space), [memory]);
    rights.push(SendAncillaryMessage::ScmRights(&memory));
    sendmsg(socket, &[IoSlice::new(&greeting)], &mut rights, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)?;
    Ok(())
}

/// Adds to a message what is at `offset` in the memory.
pub(super) fn announce(message: &mut Vec<u8>, what: Announced, event: EventId, offset: u64, size: usize) {
    message.extend_from_slice(&event.number().to_le_bytes());
    message.extend_from_slice(&offset.to_le_bytes());
    // A record has at most 1 GiB.
    message.extend_from_slice(&u32::try_from(size).unwrap_or(u32::MAX).to_le_bytes());
    message.extend_from_slice(&(what as u32).to_le_bytes());
}

/// Sends a message. A worker that does not read it has room for [`QUEUE`] messages.
pub(super) fn tell(socket: &OwnedFd, message: &[u8]) -> io::Result<()> {
    send(socket, message, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)?;
    Ok(())
}

/// A message of a worker.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Heard<'b> {
    /// Nothing for now.
    Nothing,
    /// The worker has closed its end.
    End,
    /// The bytes of a message.
    Message(&'b [u8]),
    /// A message that is larger than any that is allowed.
    TooLong(usize),
}

/// Receives one message. `buffer` has room for the largest one that is allowed.
pub(super) fn hear<'b>(socket: &OwnedFd, buffer: &'b mut [u8]) -> io::Result<Heard<'b>> {
    let room = buffer.len();
    match recv(socket, &mut *buffer, RecvFlags::DONTWAIT | RecvFlags::TRUNC) {
        Ok((_, 0)) | Err(Errno::CONNRESET | Errno::PIPE) => Ok(Heard::End),
        Ok((_, size)) if size > room => Ok(Heard::TooLong(size)),
        Ok((_, size)) => Ok(Heard::Message(&buffer[..size])),
        Err(Errno::AGAIN | Errno::INTR) => Ok(Heard::Nothing),
        Err(error) => Err(error.into()),
    }
}

/// Reads the greeting of a worker; returns what is wrong with it.
pub(super) fn check_greeting(message: &[u8]) -> Result<(), String> {
    if message.len() != GREETING || message[..4] != MAGIC || message[6..] != [0, 0] {
        return Err("began with a message that is no greeting of protocol 1".to_owned());
    }
    match u16::from_le_bytes([message[4], message[5]]) {
        VERSION => Ok(()),
        other => Err(format!("speaks version {other} of the protocol, and this evb version {VERSION}")),
    }
}

/// Reads the answers in a message, each an event and whether it is kept; returns what is wrong with
/// one.
pub(super) fn answers(message: &[u8]) -> impl Iterator<Item = Result<(EventId, bool), String>> {
    let (answers, rest) = message.as_chunks::<ANSWER>();
    let rest = (!rest.is_empty())
        .then(|| Err(format!("sent a message of {} bytes, which is not whole answers", message.len())));
    let read = |answer: &[u8; ANSWER]| {
        // The first eight bytes are the event id.
        let [a, b, c, d, e, f, g, h, verdict, zeros @ ..] = *answer;
        let event = EventId::new(u64::from_le_bytes([a, b, c, d, e, f, g, h]));
        match verdict {
            0 | 1 if zeros == [0; 7] => Ok((event, verdict == 1)),
            _ => Err(format!("sent a verdict on event {event} that is neither keep nor drop")),
        }
    };
    answers.iter().map(read).chain(rest)
}
