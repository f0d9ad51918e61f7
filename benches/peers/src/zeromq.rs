//! A small event builder over ZeroMQ: each source has one PUSH socket per builder, each builder has
//! one PULL socket, and the event id modulo the number of builders selects the builder.

pub mod builder;
pub mod source;

#[cfg(test)]
mod tests;

pub use builder::build;
pub use source::send;

use crate::role::Work;
use anyhow::Result;

/// The header at the start of every ZeroMQ message, in front of the payload: 24 bytes, little
/// endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The event id, from 1.
    pub event: u64,
    /// The source id, from 1.
    pub source: u32,
    /// Length of the payload that follows, in bytes.
    pub length: u32,
    /// Unix time of the trigger, in nanoseconds.
    pub trigger_ns: u64,
}

/// The event id of a source's first message.
pub const HELLO: u64 = 0;

/// The event id of a source's last message.
pub const END: u64 = u64::MAX;

impl Header {
    /// Length of an encoded header, in bytes.
    pub const LENGTH: usize = 24;

    /// Encodes the header as it is sent.
    pub fn encode(self) -> [u8; Self::LENGTH] {
        let mut bytes = [0; Self::LENGTH];
        bytes[..8].copy_from_slice(&self.event.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.source.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.length.to_le_bytes());
        bytes[16..].copy_from_slice(&self.trigger_ns.to_le_bytes());
        bytes
    }

    /// Reads a header from the start of `bytes`; `None` if they are too few.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let event = u64::from_le_bytes(*bytes.first_chunk()?);
        let source = u32::from_le_bytes(*bytes.get(8..)?.first_chunk()?);
        let length = u32::from_le_bytes(*bytes.get(12..)?.first_chunk()?);
        let trigger_ns = u64::from_le_bytes(*bytes.get(16..)?.first_chunk()?);
        Some(Self { event, source, length, trigger_ns })
    }
}

/// Returns the high-water mark, in messages, that keeps a queue within `work.queue_bytes`, but at
/// least 8 messages long.
fn high_water_mark(work: &Work) -> i32 {
    if work.queue_bytes == 0 {
        return work.hwm;
    }
    let fitting = work.queue_bytes / (Header::LENGTH + work.size);
    work.hwm.min(i32::try_from(fitting.max(8)).unwrap_or(i32::MAX))
}

fn socket(context: &zmq::Context, kind: zmq::SocketType, work: &Work) -> Result<zmq::Socket> {
    let socket = context.socket(kind)?;
    socket.set_sndhwm(high_water_mark(work))?;
    socket.set_rcvhwm(high_water_mark(work))?;
    socket.set_linger(-1)?;
    Ok(socket)
}
