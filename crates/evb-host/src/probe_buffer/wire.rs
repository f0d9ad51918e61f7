//! The messages between the listener and the senders: records over TCP, and numbered datagrams over
//! UDP. A record is JSON, filled up with blanks.
//!
//! All records have the same length, so that the length of a message from an unknown peer never
//! determines an allocation. After a [`Message::Sent`], the listener reads exactly as many times as
//! it has ordered datagrams; a sender that announces another number is disconnected.

use std::{
    io::{self, Read as _},
    net::TcpStream,
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};

/// Size of every record in bytes.
pub(super) const RECORD: usize = 256;
/// Size of a datagram's header in bytes; the rest of the datagram is padding.
pub(super) const HEADER: usize = 24;
/// Largest number of datagrams in the train of one sender.
pub(super) const MOST: u32 = 65_536;

/// A record on the control connection between sender and listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Message {
    /// Sender to listener: the first message on the connection, by which the listener recognises
    /// senders.
    #[serde(rename = "evb_probe_buffer_hello")]
    Hello,
    /// Listener to sender: the sender's number, the UDP port for datagrams, the length of their
    /// payload, and the token that they must carry.
    Welcome { sender: u16, port: u16, payload: u16, token: u64 },
    /// Listener to sender: a request for the time of the sender's clock.
    Ping { nonce: u64 },
    /// Sender to listener: the time of the sender's monotonic clock.
    Pong { nonce: u64, nanos: u64 },
    /// Listener to sender: an order to send datagrams.
    Order(Order),
    /// Sender to listener: the order has been carried out, and the sender's operating system
    /// refused `errors` datagrams. The sending time of each ordered datagram follows: nanoseconds
    /// after the start, 32 bits each.
    Sent { burst: u32, count: u32, errors: u32 },
    /// Listener to sender: the end of the measurement, with the measured buffer; 0 if there is
    /// none.
    End { bytes: u64 },
}

/// An order for one sender: a few datagrams far apart, which find the port empty, then a pause,
/// then the burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Order {
    /// Number of the burst.
    pub(super) burst: u32,
    /// Number of datagrams to send ahead of the burst.
    pub(super) ahead: u32,
    /// Number of datagrams in the burst.
    pub(super) count: u32,
    /// Start time by the sender's monotonic clock, in nanoseconds.
    pub(super) start: u64,
    /// Time between datagrams ahead of the burst, in nanoseconds. A pause of four times this length
    /// separates these datagrams from the burst.
    pub(super) ahead_spacing: u64,
    /// Time from the start to the first datagram ahead of the burst, in nanoseconds. The phase
    /// differs between senders, so that their datagrams do not meet in the port.
    pub(super) phase: u64,
    /// Time between datagrams of the burst, in nanoseconds.
    pub(super) spacing: u64,
}

impl Order {
    /// Returns the number of all datagrams of the order.
    pub(super) fn total(&self) -> u32 {
        self.ahead.saturating_add(self.count)
    }

    /// Returns the scheduled sending time of a datagram, in nanoseconds after the start.
    pub(super) fn due(&self, index: u32) -> u64 {
        match index.checked_sub(self.ahead) {
            None => self.phase + u64::from(index) * self.ahead_spacing,
            Some(behind) => {
                // With the usual spacing, three more of them make the pause of four before the
                // burst.
                let pause = if self.ahead == 0 { 0 } else { 3 };
                u64::from(self.ahead + pause) * self.ahead_spacing + u64::from(behind) * self.spacing
            }
        }
    }
}

impl Message {
    pub(super) fn encode(&self) -> [u8; RECORD] {
        let mut record = [b' '; RECORD];
        let written = serde_json::to_writer(&mut record[..], self);
        debug_assert!(written.is_ok(), "a message is shorter than a record");
        record
    }

    /// Decodes a record; `None` if the record is invalid.
    pub(super) fn decode(record: &[u8; RECORD]) -> Option<Self> {
        serde_json::from_slice(record).ok()
    }

    /// Receives a record within the time `patience`; `None` if the record is invalid.
    pub(super) fn receive(control: &mut TcpStream, patience: Duration) -> io::Result<Option<Self>> {
        let mut record = [0; RECORD];
        receive_exactly(control, &mut record, patience)?;
        Ok(Self::decode(&record))
    }
}

/// The header of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Numbered {
    pub(super) sender: u16,
    pub(super) token: u64,
    pub(super) burst: u32,
    pub(super) index: u32,
}

impl Numbered {
    /// Encodes the head of a datagram.
    pub(super) fn encode(&self) -> [u8; HEADER] {
        let mut head = [0; HEADER];
        head[..4].copy_from_slice(&u32::from(self.sender).to_le_bytes());
        head[4..12].copy_from_slice(&self.token.to_le_bytes());
        head[12..16].copy_from_slice(&self.burst.to_le_bytes());
        head[16..20].copy_from_slice(&self.index.to_le_bytes());
        head
    }

    /// Decodes the head of a datagram; `None` if it is cut short or impossible.
    pub(super) fn decode(datagram: &[u8]) -> Option<Self> {
        Some(Self {
            sender: u16::try_from(word(datagram, 0)?).ok()?,
            token: u64::from_le_bytes(*datagram.get(4..)?.first_chunk()?),
            burst: word(datagram, 12)?,
            index: word(datagram, 16)?,
        })
    }
}

/// Receives exactly as many bytes as `bytes` has; fails if this takes longer than `patience` in
/// total, even if bytes arrive one by one.
pub(super) fn receive_exactly(
    control: &mut TcpStream,
    bytes: &mut [u8],
    patience: Duration,
) -> io::Result<()> {
    let until = Instant::now() + patience;
    let mut received = 0;
    while let Some(rest) = bytes.get_mut(received..).filter(|rest| !rest.is_empty()) {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        control.set_read_timeout(Some(left))?;
        match control.read(rest) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => received += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}
