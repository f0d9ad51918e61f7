//! [`GrantPolicy`]: the interface of the policies by which a builder grants bytes to sources. The
//! policies themselves are in the crate evb-shaper.

use core::ops::Range;

use crate::{
    id::EventId, index::LaneIndex, time::Instant, times::Times, units::Bytes, wire::datagram::Request,
};

/// State of a lane as a grant policy sees it: the lane's counters (offsets in bytes) and the next
/// event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneDemand {
    /// Lane offset at which the last announced fragment ends.
    pub ready: u64,
    /// Lane offset up to which the source may send.
    pub granted: u64,
    /// Lane offset up to which bytes have arrived.
    pub received: u64,
    /// The event whose fragment contains the lane byte at offset `granted`. The value of `oldest`
    /// is meaningful only while `ready > granted`.
    pub oldest: EventId,
    /// Lane offset at which the fragment of `oldest` ends.
    pub oldest_end: u64,
    /// Mean length, in lane bytes, of the fragments that have not arrived completely; 0 if there
    /// are no such fragments.
    pub fragment: u64,
    /// True if the source is connected. A lane without a connection gets no grants.
    pub connected: bool,
    /// Bytes below `granted` that were lost in the network and have to be sent again.
    pub lost: Option<Lost>,
}

/// Lost lane bytes that the builder can request again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    /// Lane offset of the first lost byte.
    pub start: u64,
    /// Lane offset of the end of the lost bytes.
    pub end: u64,
    /// Number that a request would get if the builder requested the bytes now.
    pub request: Request,
}

/// Permission for the source of one lane to send the bytes from `start` to `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Index of the lane.
    pub lane: LaneIndex,
    /// Lane offset of the first byte of the grant.
    pub start: u64,
    /// Lane offset of the end of the grant; for a first transmission, the new value of the lane's
    /// `granted`.
    pub end: u64,
    /// The number of the request for lost bytes, or 0 for a first transmission.
    pub request: Request,
}

/// Outcome of the transmission of a range of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The bytes arrived.
    Arrived,
    /// The bytes were declared lost. If the bytes arrive later, they do not count.
    Lost,
}

/// Counters of a policy, and the durations of its grants.
#[derive(Clone, Debug, Default)]
pub struct GrantCounters {
    /// Number of grants.
    pub grants: u64,
    /// Time from a grant to its first byte, for grants whose bytes arrived.
    pub first_byte: Times,
    /// Time from a grant to its last byte.
    pub last_byte: Times,
    /// Highest number of bytes that were outstanding at once, in buffer bytes.
    pub outstanding_peak: Bytes,
    /// Number of stalls of each lane while it had a grant outstanding.
    pub stalls: Vec<u64>,
}

/// A state machine that decides the next grant from the demands of all lanes.
///
/// The inputs of a policy are `handle_demand`, `handle_received`, `handle_accounted`,
/// `handle_reset` and `handle_timeout`; the output is `poll`, which is called until it returns
/// `None`. After each grant, the caller raises the lane's `granted` before it polls again.
pub trait GrantPolicy {
    /// Notes that a lane's demand has changed, so that `poll` need not look at all lanes. The first
    /// demand of a lane may be any.
    fn handle_demand(&mut self, _lane: LaneIndex, _demand: &LaneDemand) {}

    /// Returns a grant that fits now, or `None` if the lanes have to wait.
    fn poll(&mut self, lanes: &[LaneDemand], now: Instant) -> Option<Grant>;

    /// Notes that `lane` has received all bytes up to `received`. For a lane over a stream, all
    /// granted bytes below `received` count as arrived.
    fn handle_received(&mut self, lane: LaneIndex, received: u64, now: Instant);

    /// Notes the outcome of a transmission of `range` under that request, for a lane over
    /// datagrams, whose bytes are granted and lost in pieces. Each byte of a grant is reported once
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

    /// Notes that the lane's connection is gone. Outstanding bytes of the lane may still be in the
    /// switch.
    fn handle_gone(&mut self, lane: LaneIndex, now: Instant);

    /// Handles timers that have expired.
    fn handle_timeout(&mut self, now: Instant);

    /// Returns a lane that has grants but brings no data, while other lanes wait for its part of
    /// the budget. The builder closes that lane's connection, so that its grants are void and the
    /// other lanes get the budget. The builder calls this method after `handle_timeout`.
    fn withholding(&self, _lanes: &[LaneDemand], _now: Instant) -> Option<LaneIndex> {
        None
    }

    /// Returns the time at which to call `handle_timeout`.
    fn next_timeout(&self) -> Option<Instant>;

    /// Returns the granted bytes of all lanes that have not arrived, in buffer bytes.
    fn outstanding(&self) -> Bytes;

    /// Returns the counters so far.
    fn counters(&self) -> &GrantCounters;
}
