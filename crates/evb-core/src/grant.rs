//! [`GrantPolicy`]: when a builder lets which source send how much. Core says what a policy is; evb-shaper has them.

use core::ops::Range;

use crate::{
    id::EventId, index::LaneIndex, time::Instant, times::Times, units::Bytes, wire::datagram::Request,
};

/// What a policy sees of a lane: the cumulative counters (lane offsets in bytes) and the event that comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneDemand {
    /// End of the last announced fragment.
    pub ready: u64,
    /// The source may send up to here.
    pub granted: u64,
    /// Arrived up to here.
    pub received: u64,
    /// The event whose fragment holds the offset `granted`; meaningful while `ready > granted`.
    pub oldest: EventId,
    /// Where that fragment ends in the lane.
    pub oldest_end: u64,
    /// How many lane bytes a fragment has in the mean, of those that are to come; 0 where none is.
    pub fragment: u64,
    /// Whether the source is connected; a lane that is not gets no grants.
    pub connected: bool,
    /// Bytes below `granted` that were lost on the way and have to be sent again.
    pub lost: Option<Lost>,
}

/// Lane bytes to be asked for again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    /// Lane offset of the first.
    pub start: u64,
    /// Where they end.
    pub end: u64,
    /// The number under which they would be asked for now.
    pub request: Request,
}

/// Permission for one lane to send the bytes from `start` to `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Index of the lane.
    pub lane: LaneIndex,
    /// Lane offset of the first byte.
    pub start: u64,
    /// Where they end; for a first transmission, the new value of the lane's `granted`.
    pub end: u64,
    /// 0 for a first transmission, else the number of the request.
    pub request: Request,
}

/// How a transmission ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is here.
    Arrived,
    /// It was declared lost; if it comes nevertheless, it does not count.
    Lost,
}

/// Counters of a policy, and the durations of its grants.
#[derive(Clone, Debug, Default)]
pub struct GrantCounters {
    /// Grants given.
    pub grants: u64,
    /// From a grant to its first byte, of grants whose bytes arrived.
    pub first_byte: Times,
    /// From a grant to its last byte.
    pub last_byte: Times,
    /// Most bytes that were outstanding at once, in buffer bytes.
    pub outstanding_peak: Bytes,
    /// How often each lane stalled with a grant outstanding.
    pub stalls: Vec<u64>,
}

/// A machine that decides the next grant from what the lanes demand.
///
/// Inputs: `handle_received`, `handle_accounted`, `handle_reset`, `handle_timeout`; output: `poll`, until `None`. After each grant the caller
/// raises the lane's `granted` before it polls again.
pub trait GrantPolicy {
    /// The next grant that may be given now.
    fn poll(&mut self, lanes: &[LaneDemand], now: Instant) -> Option<Grant>;

    /// Bytes arrived: `lane` has received up to `received`, without gap. Over a stream, that accounts for all permitted
    /// bytes below it.
    fn handle_received(&mut self, lane: LaneIndex, received: u64, now: Instant);

    /// Over datagrams, where bytes are permitted and lost in pieces: a transmission of `range`, permitted under that
    /// number, has ended. Each byte of a grant ends once (docs/reference/protocol.md UDP-15).
    fn handle_accounted(
        &mut self,
        lane: LaneIndex,
        range: Range<u64>,
        request: Request,
        fate: Fate,
        now: Instant,
    );

    /// The lane's connection is new: what was granted beyond `received` is void.
    fn handle_reset(&mut self, lane: LaneIndex, received: u64, now: Instant);

    /// The lane's connection is gone: what is outstanding may still lie in the switch.
    fn handle_gone(&mut self, lane: LaneIndex, now: Instant);

    /// Time passed.
    fn handle_timeout(&mut self, now: Instant);

    /// Names a lane that brings nothing and holds budget that the others wait for. Close its connection: its grants are then void
    /// and the others go on. Asked after `handle_timeout`.
    fn withholding(&self, _lanes: &[LaneDemand], _now: Instant) -> Option<LaneIndex> {
        None
    }

    /// When `handle_timeout` is due.
    fn next_timeout(&self) -> Option<Instant>;

    /// Buffer bytes permitted and not yet arrived, over all lanes.
    fn outstanding(&self) -> Bytes;

    /// What was counted so far.
    fn counters(&self) -> &GrantCounters;
}
