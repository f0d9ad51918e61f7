//! What the listener and the senders say to each other: fixed records over TCP, and numbered datagrams over UDP.
//!
//! Every record has the same length, so nothing is allocated for what a stranger claims; the times that follow a
//! [`Message::Sent`] are as many as the listener itself has ordered, or the sender is dropped.

/// Bytes of every record.
pub(super) const RECORD: usize = 48;
/// In the hello: a stranger does not know it.
const MAGIC: u64 = u64::from_le_bytes(*b"EVBPROB1");
/// Bytes of a datagram that mean something; the rest fills it up.
pub(super) const HEADER: usize = 24;
/// The most datagrams of one train.
pub(super) const MOST: u32 = 65_536;

/// A record of the control connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Message {
    /// Sender to listener: the first one.
    Hello,
    /// Listener to sender: its number, where datagrams go, how long they are, and what they must carry.
    Welcome { sender: u16, port: u16, payload: u16, token: u64 },
    /// Listener to sender: what time is it?
    Ping { nonce: u64 },
    /// Sender to listener: its monotonic clock.
    Pong { nonce: u64, nanos: u64 },
    /// Listener to sender: send this.
    Order(Order),
    /// Sender to listener: sent, with so many errors of its own system. As many times follow as the order has datagrams:
    /// nanoseconds after its start, 32 bits each.
    Sent { burst: u32, count: u32, errors: u32 },
    /// Listener to sender: it is over; what was found, 0 for nothing.
    End { bytes: u64 },
}

/// What one sender sends: a few datagrams far apart, which find the port empty, a pause, then the burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Order {
    /// Its number.
    pub(super) burst: u32,
    /// Datagrams ahead of the burst.
    pub(super) ahead: u32,
    /// Datagrams of the burst.
    pub(super) count: u32,
    /// On the sender's monotonic clock, in nanoseconds.
    pub(super) start: u64,
    /// Between the ones ahead, in nanoseconds; a pause of four times that follows them.
    pub(super) ahead_spacing: u64,
    /// When the first one ahead is due after the start, so that those of several senders do not meet.
    pub(super) phase: u64,
    /// Between those of the burst, in nanoseconds.
    pub(super) spacing: u64,
}

impl Order {
    /// How many datagrams there are in all.
    pub(super) fn total(&self) -> u32 {
        self.ahead.saturating_add(self.count)
    }

    /// When that one is due after the start, in nanoseconds.
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
        let words = [kind].into_iter().chain(small).flat_map(u32::to_le_bytes);
        let bytes = words.chain(large.into_iter().flat_map(u64::to_le_bytes));
        record.iter_mut().zip(bytes).for_each(|(place, byte)| *place = byte);
        record
    }

    /// `None`: not one of ours.
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

/// The head of a datagram.
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
        head.iter_mut().zip(bytes).for_each(|(place, byte)| *place = byte);
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

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}
