//! [`GrantPolicy`]: the interface of policies by which a builder grants bytes to sources. The
//! policies are in evb-shaper.

use core::ops::Range;

use crate::{
    id::EventId, index::LaneIndex, time::Instant, times::Times, units::Bytes, wire::datagram::Request,
};

/// A policy's view of a lane: the cumulative counters (lane offsets in bytes) and the event that
/// comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneDemand {
    /// End of the last announced fragment.
    pub ready: u64,
    /// Lane offset up to which the source may send.
    pub granted: u64,
    /// Lane offset up to which bytes have arrived.
    pub received: u64,
    /// The event whose fragment holds the offset `granted`. It is meaningful while
    /// `ready > granted`.
    pub oldest: EventId,
    /// Lane offset at which that fragment ends.
    pub oldest_end: u64,
    /// Mean lane bytes of the fragments that are to come; 0 if there are none.
    pub fragment: u64,
    /// True if the source is connected. A lane that is not gets no grants.
    pub connected: bool,
    /// Bytes below `granted` that were lost on the way and have to be sent again.
    pub lost: Option<Lost>,
}

/// Lane bytes to be requested again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    /// Lane offset of the first byte.
    pub start: u64,
    /// Lane offset of the end.
    pub end: u64,
    /// The number of a request for them now.
    pub request: Request,
}

/// Permission for one lane to send the bytes from `start` to `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Index of the lane.
    pub lane: LaneIndex,
    /// Lane offset of the first byte.
    pub start: u64,
    /// Lane offset of the end; for a first transmission, the new value of the lane's `granted`.
    pub end: u64,
    /// The number of the request, or 0 for a first transmission.
    pub request: Request,
}

/// End of a transmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It arrived.
    Arrived,
    /// It was declared lost. If it arrives later, it does not count.
    Lost,
}

/// Counters of a policy, and the durations of its grants.
#[derive(Clone, Debug, Default)]
pub struct GrantCounters {
    /// Grants given.
    pub grants: u64,
    /// Time from a grant to its first byte, of grants whose bytes arrived.
    pub first_byte: Times,
    /// Time from a grant to its last byte.
    pub last_byte: Times,
    /// Most bytes that were outstanding at once, in buffer bytes.
    pub outstanding_peak: Bytes,
    /// Number of stalls of each lane with a grant outstanding.
    pub stalls: Vec<u64>,
}

/// A machine that decides the next grant from the lanes' demands.
///
/// Its inputs are `handle_received`, `handle_accounted`, `handle_reset` and `handle_timeout`; its
/// output is `poll`, which is called until it returns `None`. After each grant, the caller raises
/// the lane's `granted` before it polls again.
pub trait GrantPolicy {
    /// Returns the next grant that may be given now.
    fn poll(&mut self, lanes: &[LaneDemand], now: Instant) -> Option<Grant>;

    /// Notes that `lane` has received all bytes up to `received`. Over a stream, that accounts for
    /// all granted bytes below it.
    fn handle_received(&mut self, lane: LaneIndex, received: u64, now: Instant);

    /// Notes the end of a transmission of `range` under that request, over datagrams, where bytes
    /// are granted and lost in pieces. Each byte of a grant ends once
    /// (docs/reference/protocol.md UDP-15).
    fn handle_accounted(
        &mut self,
        lane: LaneIndex,
        range: Range<u64>,
        request: Request,
        fate: Fate,
        now: Instant,
    );

    /// Notes that the lane has a new connection. Grants beyond `received` are void.
    fn handle_reset(&mut self, lane: LaneIndex, received: u64, now: Instant);

    /// Notes that the lane's connection is gone. Its outstanding bytes may still be in the switch.
    fn handle_gone(&mut self, lane: LaneIndex, now: Instant);

    /// Handles timers that are due.
    fn handle_timeout(&mut self, now: Instant);

    /// Returns a lane that delivers nothing and withholds budget that others wait for. Close its
    /// connection, so that its grants are void and the others go on. It is called after
    /// `handle_timeout`.
    fn withholding(&self, _lanes: &[LaneDemand], _now: Instant) -> Option<LaneIndex> {
        None
    }

    /// Returns the time at which `handle_timeout` is due.
    fn next_timeout(&self) -> Option<Instant>;

    /// Returns the buffer bytes that are granted and have not arrived, over all lanes.
    fn outstanding(&self) -> Bytes;

    /// Returns the counters so far.
    fn counters(&self) -> &GrantCounters;
}
