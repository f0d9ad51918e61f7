//! The messages between the listener and the senders: fixed records over TCP, and numbered
//! datagrams over UDP.
//!
//! All records have the same length, so that the length of a message from an unknown peer never
//! determines an allocation. After a [`Message::Sent`], the listener reads exactly as many times as
//! it has ordered datagrams; a sender that announces another number is disconnected.

use std::{
    io::{self, Read as _},
    net::TcpStream,
    time::{Duration, Instant},
};

/// Size of every record in bytes.
pub(super) const RECORD: usize = 48;
/// Magic number of the first message, by which the listener recognises senders.
const MAGIC: u64 = u64::from_le_bytes(*b"EVBPROB1");
/// Size of a datagram's header in bytes; the rest of the datagram is padding.
pub(super) const HEADER: usize = 24;
/// Largest number of datagrams in the train of one sender.
pub(super) const MOST: u32 = 65_536;

/// A record on the control connection between sender and listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Message {
    /// Sender to listener: the first message on the connection.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
                let pause = if self.ahead == 0 { 0 } else { 3 };
                u64::from(self.ahead + pause) * self.ahead_spacing + u64::from(behind) * self.spacing
            }
        }
    }
}

impl Message {
    pub(super) fn encode(&self) -> [u8; RECORD] {
        let (kind, small, large) = match *self {
            Self::Hello => (1, [0; 3], [MAGIC, 0, 0, 0]),
            Self::Welcome { sender, port, payload, token } => {
                (2, [sender.into(), port.into(), payload.into()], [token, 0, 0, 0])
            }
            Self::Ping { nonce } => (3, [0; 3], [nonce, 0, 0, 0]),
            Self::Pong { nonce, nanos } => (4, [0; 3], [nonce, nanos, 0, 0]),
            Self::Order(o) => {
                (5, [o.burst, o.ahead, o.count], [o.start, o.ahead_spacing, o.phase, o.spacing])
            }
            Self::Sent { burst, count, errors } => (6, [burst, count, errors], [0; 4]),
            Self::End { bytes } => (7, [0; 3], [bytes, 0, 0, 0]),
        };
        let mut record = [0; RECORD];
        let small = [kind].into_iter().chain(small).flat_map(u32::to_le_bytes);
        fill_with(&mut record, small.chain(large.into_iter().flat_map(u64::to_le_bytes)));
        record
    }

    /// Receives a record within the time `patience`; `None` if the record is invalid.
    pub(super) fn receive(control: &mut TcpStream, patience: Duration) -> io::Result<Option<Self>> {
        let mut record = [0; RECORD];
        receive_exactly(control, &mut record, patience)?;
        Ok(Self::decode(&record))
    }

    /// Decodes a record; `None` if the record is invalid.
    pub(super) fn decode(record: &[u8; RECORD]) -> Option<Self> {
        let small = |at: usize| word(record, at * 4);
        let large = |at: usize| long(record, 16 + at * 8);
        let short = |at| u16::try_from(small(at)?).ok();
        Some(match small(0)? {
            1 if large(0)? == MAGIC => Self::Hello,
            2 => Self::Welcome { sender: short(1)?, port: short(2)?, payload: short(3)?, token: large(0)? },
            3 => Self::Ping { nonce: large(0)? },
            4 => Self::Pong { nonce: large(0)?, nanos: large(1)? },
            5 => Self::Order(Order {
                burst: small(1)?,
                ahead: small(2)?,
                count: small(3)?,
                start: large(0)?,
                ahead_spacing: large(1)?,
                phase: large(2)?,
                spacing: large(3)?,
            }),
            6 => Self::Sent { burst: small(1)?, count: small(2)?, errors: small(3)? },
            7 => Self::End { bytes: large(0)? },
            _ => return None,
        })
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
    pub(super) fn encode(&self) -> [u8; HEADER] {
        let mut head = [0; HEADER];
        let start = u32::from(self.sender).to_le_bytes().into_iter().chain(self.token.to_le_bytes());
        let bytes = start.chain(self.burst.to_le_bytes()).chain(self.index.to_le_bytes());
        fill_with(&mut head, bytes);
        head
    }

    pub(super) fn decode(datagram: &[u8]) -> Option<Self> {
        Some(Self {
            sender: u16::try_from(word(datagram, 0)?).ok()?,
            token: long(datagram, 4)?,
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

fn fill_with(room: &mut [u8], bytes: impl Iterator<Item = u8>) {
    room.iter_mut().zip(bytes).for_each(|(place, byte)| *place = byte);
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}
