//! The messages between the two ends, with their limits, and the layout of a request.

use evb_core::units::Bytes;
use serde::{Deserialize, Serialize};

use crate::ends::{LARGEST_DATAGRAM, Transport};

/// Name of this benchmark in commands and greetings.
pub(super) const BENCH: &str = "request";
/// Largest response.
pub(super) const LARGEST_RESPONSE: Bytes = Bytes::mib(16);
/// Length of a request, and of the head of a response.
pub(super) const REQUEST: usize = 16;
const MAGIC: u32 = u32::from_be_bytes(*b"evrq");

/// The order of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Order {
    pub(super) run: u32,
    pub(super) transport: Transport,
    /// Length of every response.
    pub(super) length: u64,
}

impl Order {
    /// Returns true if all values are within their limits.
    pub(super) fn is_possible(&self) -> bool {
        let most = match self.transport {
            Transport::Tcp => LARGEST_RESPONSE.count(),
            Transport::Udp => LARGEST_DATAGRAM,
        };
        (REQUEST as u64..=most).contains(&self.length)
    }
}

/// The answer to an order: requests are expected at this port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Ready {
    pub(super) port: u16,
}

/// The message that no more requests follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Over {
    pub(super) requests: u64,
}

/// The number of requests that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Served {
    pub(super) requests: u64,
}

/// Returns the bytes of a request, which are also the head of its response.
pub(super) fn request(run: u32, number: u64) -> [u8; REQUEST] {
    let mut bytes = [0; REQUEST];
    let fields = MAGIC.to_le_bytes().into_iter().chain(run.to_le_bytes()).chain(number.to_le_bytes());
    bytes.iter_mut().zip(fields).for_each(|(place, byte)| *place = byte);
    bytes
}

/// Returns the number of a request or response of this run; `None` for other bytes.
pub(super) fn number(bytes: &[u8], run: u32) -> Option<u64> {
    let (magic, rest) = bytes.split_first_chunk::<4>()?;
    let (of, rest) = rest.split_first_chunk::<4>()?;
    let (number, _) = rest.split_first_chunk::<8>()?;
    let is_own = u32::from_le_bytes(*magic) == MAGIC && u32::from_le_bytes(*of) == run;
    is_own.then(|| u64::from_le_bytes(*number))
}
