//! The messages between the two ends, with their limits, and the label of a datagram.

use std::{ops::RangeInclusive, time::Duration};

use evb_core::units::Bytes;
use serde::{Deserialize, Serialize};

use crate::ends::{SocketWishes, Transport};

/// Name of this benchmark in commands and greetings.
pub(super) const BENCH: &str = "stream";
/// Largest record.
pub(super) const LARGEST_RECORD: Bytes = Bytes::mib(16);
/// Smallest socket buffer that can be requested; the kernel makes smaller ones larger.
pub(super) const LEAST_BUFFER: Bytes = Bytes::kib(1);
/// Largest socket buffer that can be requested.
pub(super) const LARGEST_BUFFER: Bytes = Bytes::mib(1024);
/// Values of `TCP_MAXSEG` that the kernel takes (`TCP_MIN_MSS`, `MAX_TCP_WINDOW`: Linux,
/// include/net/tcp.h).
pub(super) const MSS: RangeInclusive<u32> = 88..=32_767;
/// Longest run that the receiver accepts, with its warm-up.
const LONGEST_RUN: Duration = Duration::from_secs(700);

/// The sender's order of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Order {
    pub(super) run: u64,
    pub(super) transport: Transport,
    pub(super) warm_up_ms: u64,
    pub(super) window_ms: u64,
    pub(super) wishes: SocketWishes,
}

impl Order {
    /// Returns true if all values are within their limits.
    pub(super) fn is_possible(&self) -> bool {
        let is_short = self
            .warm_up_ms
            .checked_add(self.window_ms)
            .is_some_and(|ms| Duration::from_millis(ms) <= LONGEST_RUN);
        is_short
            && self.wishes.buffer.is_none_or(|buffer| is_buffer(Bytes::new(buffer.into())))
            && self.wishes.mss.is_none_or(is_mss)
    }
}

/// The receiver's answer: it expects the data at this port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Ready {
    pub(super) port: u16,
    /// Size of the receive buffer that the kernel granted.
    pub(super) receive_buffer: u64,
}

/// The sender's message that it has sent everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Sent {
    pub(super) records: u64,
}

/// The receiver's counts of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Counted {
    /// Bytes of payload in the window.
    pub(super) bytes: u64,
    /// Length of the window in nanoseconds.
    pub(super) nanos: u64,
    /// Number of records in the window; over TCP, whose records have no boundaries, number of
    /// reads.
    pub(super) arrivals: u64,
    /// Number of datagrams of the whole run.
    pub(super) datagrams: u64,
    /// Number of datagrams of other runs or programs.
    pub(super) foreign: u64,
}

pub(super) fn is_buffer(size: Bytes) -> bool {
    (LEAST_BUFFER..=LARGEST_BUFFER).contains(&size)
}

pub(super) fn is_mss(mss: u32) -> bool {
    MSS.contains(&mss)
}

/// Length of the label at the head of a datagram.
pub(super) const LABEL: usize = 16;
const MAGIC: u64 = u64::from_be_bytes(*b"evbstrm1");

/// Returns the label of the datagrams of a run.
pub(super) fn label(run: u64) -> [u8; LABEL] {
    let mut label = [0; LABEL];
    label
        .iter_mut()
        .zip(MAGIC.to_le_bytes().into_iter().chain(run.to_le_bytes()))
        .for_each(|(place, byte)| *place = byte);
    label
}
