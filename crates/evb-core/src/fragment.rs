//! [`Fragment`]: the data of one source for one event.

use core::fmt;

use crate::{id::EventId, units::Bytes};

/// The detector's own timestamp of a fragment, in the detector's ticks. evb carries it and never
/// interprets it; it is unrelated to the clocks of the hosts.
///
/// ```
/// use evb_core::fragment::Timestamp;
///
/// // The clock of this detector ticks every 16 ns.
/// let (first, second) = (Timestamp::new(1_000), Timestamp::new(1_125));
/// assert_eq!((second.ticks() - first.ticks()) * 16, 2_000, "nanoseconds");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

impl Timestamp {
    /// Wraps the detector's tick count.
    pub const fn new(ticks: u64) -> Self {
        Self(ticks)
    }

    /// Returns the detector's tick count.
    pub const fn ticks(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// CRC-64/NVME of a fragment's payload (NVM Express NVM command set 1.0, §5.2.1.3.4; polynomial
/// `0xad93d23594c93659`, reflected). The source computes the checksum, and the builder checks it.
/// The 16-bit checksums of UDP and TCP, often computed by the network card, do not cover host
/// memory.
///
/// ```
/// use evb_core::fragment::Checksum;
///
/// // The check value of CRC-64/NVME.
/// assert_eq!(Checksum::of(b"123456789").number(), 0xAE8B_1486_0A79_9888);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Checksum(u64);

impl Checksum {
    /// Returns the checksum of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Self(evb_crc::checksum(bytes))
    }

    /// Wraps a checksum that was received in a message or record.
    pub const fn from_number(number: u64) -> Self {
        Self(number)
    }

    /// Returns the checksum as a number.
    pub const fn number(self) -> u64 {
        self.0
    }
}

/// A checksum over bytes that arrive in pieces.
///
/// ```
/// use evb_core::fragment::{Checksum, RunningChecksum};
///
/// let mut checksum = RunningChecksum::default();
/// for piece in [b"detector ".as_slice(), b"data"] {
///     checksum.update(piece);
/// }
/// assert_eq!(checksum.take(), Checksum::of(b"detector data"));
/// ```
#[derive(Clone, Debug, Default)]
pub struct RunningChecksum(evb_crc::Digest);

/// Least number of new bytes that are added to the checksum at once while a payload arrives.
/// Shorter steps cost more (measured: per byte, steps of 1455 B cost 1.4 times as much as steps of
/// 16 KiB). After 16 KiB, the bytes are still in the core's cache.
const STEP: usize = 16 << 10;

impl RunningChecksum {
    /// Adds the next bytes to the checksum.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Adds the new part of a payload that is arriving, if the part is at least [`STEP`] bytes.
    /// `bytes` are all bytes since the last [`Self::take`].
    pub(crate) fn follow(&mut self, bytes: &[u8]) {
        if bytes.len() as u64 >= self.0.length() + STEP as u64 {
            self.catch_up(bytes);
        }
    }

    /// Adds the new part of a payload that is arriving, however short. `bytes` are all bytes since
    /// the last [`Self::take`].
    pub(crate) fn catch_up(&mut self, bytes: &[u8]) {
        let known = usize::try_from(self.0.length()).unwrap_or(usize::MAX);
        self.update(bytes.get(known..).unwrap_or_default());
    }

    /// Returns the checksum of all bytes since the last call, and starts over.
    pub fn take(&mut self) -> Checksum {
        Checksum(core::mem::take(&mut self.0).value())
    }
}

/// The data of one source for one event, as readout pushes it.
///
/// ```
/// use evb_core::{
///     fragment::{Checksum, Fragment, Timestamp},
///     id::EventId,
///     units::Bytes,
/// };
///
/// let samples = vec![0x2a; 1024];
/// let fragment = Fragment::new(EventId::FIRST, Timestamp::new(1000), samples);
/// assert_eq!(fragment.size(), Bytes::kib(1));
/// assert_eq!(fragment.checksum, Checksum::of(&fragment.payload));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// The event's trigger number.
    pub event: EventId,
    /// The detector's own timestamp, in its ticks.
    pub timestamp: Timestamp,
    /// Payload bytes; the source sends them from this memory without a copy.
    pub payload: bytes::Bytes,
    /// Checksum of the payload, computed when the fragment was created.
    pub checksum: Checksum,
    /// Number of packets of the fragment that were lost before they reached the source. A fragment
    /// that lost packets and has no payload is no fragment: its event names the source as missing.
    pub lost_packets: u32,
}

impl Fragment {
    /// Wraps readout data and computes the checksum.
    pub fn new(event: EventId, timestamp: Timestamp, payload: impl Into<bytes::Bytes>) -> Self {
        let payload = payload.into();
        let checksum = Checksum::of(&payload);
        Self { event, timestamp, payload, checksum, lost_packets: 0 }
    }

    /// Returns the payload's length.
    pub fn size(&self) -> Bytes {
        Bytes::new(self.payload.len() as u64)
    }
}
