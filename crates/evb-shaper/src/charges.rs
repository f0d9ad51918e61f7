//! The account of granted bytes that have not arrived, grant by grant.

use core::{ops::Range, time::Duration};
use std::collections::VecDeque;

use evb_core::{
    grant::{Fate, Grant, GrantCounters, LaneDemand},
    index::LaneIndex,
    lane::Request,
    set::LaneSet,
    time::Instant,
    units::Bytes,
};

use crate::cost::PacketCost;

/// Time without a byte after which a lane with an outstanding grant counts as stalled.
pub(crate) const STALL: Duration = Duration::from_millis(50);

/// Time without a byte after which the builder may close the connection of a stalled lane, for each
/// [`LANES`] lanes that the builder has. A source that only waits for a processor core on a busy
/// host continues before this time, and waiting for it costs less than a new connection. The more
/// sources there are, the more of them may wait for the same core.
pub(crate) const GIVEN_UP: Duration = Duration::from_millis(200);

/// Number of lanes for which [`GIVEN_UP`] is long enough.
const LANES: usize = 64;

/// Time for which the bytes of a lost connection may still lie in a switch port: 160 kB take this
/// long at 10 Mbit/s.
const DRAIN: Duration = Duration::from_millis(130);

/// The part in which grant policies differ: the decision about the next grant. [`Charges`] keeps
/// account of the grants of all policies.
pub(crate) trait Rule {
    /// Returns the next grant that may be given now, if any, and charges it.
    fn poll(&mut self, charges: &mut Charges, lanes: &[LaneDemand], now: Instant) -> Option<Grant>;

    /// Notes that a lane's demand has changed.
    fn handle_demand(&mut self, lane: LaneIndex, demand: &LaneDemand);

    /// Decides if a further charge of `cost` may be outstanding on a lane. The policy is asked
    /// before lost bytes are requested again; such requests have priority over new grants.
    fn room(&self, _charges: &Charges, _lane: LaneIndex, _cost: Bytes) -> Room {
        Room::Free
    }

    /// Returns the parameters from which the charge of a grant is computed.
    fn cost(&self) -> &PacketCost;

    /// Notes the total number of bytes received on a lane, over all of its connections.
    fn handle_received(&mut self, _lane: LaneIndex, _received: u64) {}

    /// Notes that a lane has a new connection.
    fn handle_reset(&mut self, _lane: LaneIndex) {}
}

/// The answer to a request for more outstanding bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// The bytes may be outstanding.
    Free,
    /// The lane has reached its limit of outstanding bytes.
    LaneFull,
    /// A limit of outstanding bytes for several lanes is reached.
    Full,
}

/// The charges of all lanes. A grant is charged when it is given. The whole charge is released when
/// the last byte of the grant has arrived or is declared lost (docs/reference/protocol.md UDP-15).
#[derive(Debug)]
pub(crate) struct Charges {
    lanes: Vec<LaneCharges>,
    /// Lanes with outstanding grants. Timers concern only these lanes, which are few: together they
    /// hold at most the budget.
    granted: LaneSet,
    /// Lanes with outstanding grants on which no byte has arrived for [`STALL`].
    stalled: LaneSet,
    outstanding: Bytes,
    /// Outstanding charges of the groups of lanes.
    groups: Vec<Bytes>,
    /// Charges of lost connections: the time at which the network has certainly delivered their
    /// bytes, the lane, and the charge.
    draining: VecDeque<(Instant, usize, Bytes)>,
    pub(crate) counters: GrantCounters,
}

#[derive(Debug, Default)]
struct LaneCharges {
    grants: VecDeque<Charge>,
    outstanding: Bytes,
    /// Charges of the lane's lost connections whose bytes may still be in the network.
    draining: Bytes,
    last_byte: Instant,
    /// Groups that the lane belongs to.
    groups: Vec<usize>,
}

#[derive(Debug)]
struct Charge {
    /// The first lane offset of the grant.
    start: u64,
    end: u64,
    request: Request,
    /// Bytes of the grant that have neither arrived nor been declared lost.
    left: u64,
    cost: Bytes,
    given: Instant,
    /// True once the first byte of the grant has arrived.
    has_begun: bool,
}

impl Charges {
    /// Creates charges without grants.
    pub(crate) fn new(lanes: usize) -> Self {
        Self {
            lanes: (0..lanes).map(|_| LaneCharges::default()).collect(),
            granted: LaneSet::default(),
            stalled: LaneSet::default(),
            groups: Vec::new(),
            outstanding: Bytes::ZERO,
            draining: VecDeque::new(),
            counters: GrantCounters { stalls: vec![0; lanes], ..GrantCounters::default() },
        }
    }

    /// Adds a group of lanes, whose charges are summed.
    pub(crate) fn add_group(&mut self, lanes: &LaneSet) {
        let group = self.groups.len();
        self.groups.push(Bytes::ZERO);
        for lane in lanes.iter() {
            if let Some(charges) = self.lanes.get_mut(lane.get()) {
                charges.groups.push(group);
            }
        }
    }

    /// Returns the charges of a group's lanes.
    pub(crate) fn of_group(&self, group: usize) -> Bytes {
        self.groups[group]
    }

    pub(crate) fn outstanding(&self) -> Bytes {
        self.outstanding
    }

    pub(crate) fn of_lane(&self, lane: LaneIndex) -> Bytes {
        self.lanes[lane].outstanding
    }

    /// Returns the buffer bytes of a lane that may lie in the port: the charges of its grants and
    /// of its lost connections.
    pub(crate) fn in_port(&self, lane: LaneIndex) -> Bytes {
        self.lanes[lane].outstanding + self.lanes[lane].draining
    }

    pub(crate) fn is_stalled(&self, lane: LaneIndex) -> bool {
        self.stalled.contains(lane)
    }

    /// Returns the stalled lanes.
    pub(crate) fn stalled(&self) -> impl Iterator<Item = LaneIndex> + use<'_> {
        self.stalled.iter()
    }

    /// Returns true for a stalled lane on which no byte has arrived for [`GIVEN_UP`].
    pub(crate) fn is_given_up(&self, lane: LaneIndex, now: Instant) -> bool {
        let patience = GIVEN_UP * self.lanes.len().div_ceil(LANES) as u32;
        self.is_stalled(lane) && now.since(self.lanes[lane].last_byte) >= patience
    }

    /// Charges a grant with `cost`, and returns the grant.
    pub(crate) fn give(&mut self, grant: Grant, cost: Bytes, now: Instant) -> Grant {
        let charges = &mut self.lanes[grant.lane];
        if charges.grants.is_empty() {
            charges.last_byte = now;
        }
        let Grant { start, end, request, .. } = grant;
        charges.grants.push_back(Charge {
            start,
            end,
            request,
            left: end - start,
            cost,
            given: now,
            has_begun: false,
        });
        charges.outstanding += cost;
        self.outstanding += cost;
        charges.groups.iter().for_each(|group| self.groups[*group] += cost);
        self.granted.insert(grant.lane);
        self.counters.grants += 1;
        self.counters.outstanding_peak = self.counters.outstanding_peak.max(self.outstanding);
        grant
    }

    /// Grants the first transmission of a lane's next bytes, up to `end`, and charges it.
    pub(crate) fn give_next(
        &mut self,
        lane: LaneIndex,
        demand: &LaneDemand,
        end: u64,
        cost: Bytes,
        now: Instant,
    ) -> Grant {
        self.give(Grant { lane, start: demand.granted, end, request: 0 }, cost, now)
    }

    /// Notes that a lane has received its bytes up to `received`, and releases the grants that have
    /// arrived whole.
    pub(crate) fn handle_received(&mut self, lane: LaneIndex, received: u64, now: Instant) {
        let charges = &mut self.lanes[lane];
        charges.last_byte = now;
        self.stalled.remove(lane);
        for charge in charges.grants.iter_mut().take_while(|charge| charge.start < received) {
            if !charge.has_begun && charge.request == 0 {
                charge.has_begun = true;
                self.counters.first_byte.record(now.since(charge.given));
            }
        }
        // Grants for retransmissions are released only by `handle_accounted`.
        let is_here = |charge: &mut Charge| charge.request == 0 && charge.end <= received;
        let mut released = Bytes::ZERO;
        while let Some(charge) = charges.grants.pop_front_if(is_here) {
            released += charge.cost;
            self.counters.last_byte.record(now.since(charge.given));
        }
        self.release(lane, released);
    }

    /// Releases charges of grants that the lane no longer has.
    fn release(&mut self, lane: LaneIndex, cost: Bytes) {
        let charges = &mut self.lanes[lane];
        if charges.grants.is_empty() {
            self.granted.remove(lane);
        }
        charges.outstanding -= cost;
        self.outstanding -= cost;
        charges.groups.iter().for_each(|group| self.groups[*group] -= cost);
    }

    /// Notes that the bytes of `range`, as sent for `request`, have arrived or are lost. The charge
    /// of a grant is released when each of its bytes has arrived or is lost.
    pub(crate) fn handle_accounted(
        &mut self,
        lane: LaneIndex,
        range: &Range<u64>,
        request: Request,
        fate: Fate,
        now: Instant,
    ) {
        let charges = &mut self.lanes[lane];
        if fate == Fate::Arrived {
            charges.last_byte = now;
            self.stalled.remove(lane);
        }
        let (mut index, mut released) = (0, Bytes::ZERO);
        while let Some(charge) = charges.grants.get_mut(index) {
            let overlap = range.end.min(charge.end).saturating_sub(range.start.max(charge.start));
            if charge.request != request || overlap == 0 {
                // Grants for first transmissions are in the order of lane offsets, so no later one
                // overlaps.
                if request == 0 && charge.request == 0 && charge.start >= range.end {
                    break;
                }
                index += 1;
                continue;
            }
            debug_assert!(overlap <= charge.left, "accounted twice: {range:?} of {charge:?}");
            charge.left = charge.left.saturating_sub(overlap);
            if charge.left > 0 {
                index += 1;
                continue;
            }
            released += charge.cost;
            if fate == Fate::Arrived {
                self.counters.last_byte.record(now.since(charge.given));
            }
            charges.grants.remove(index);
        }
        if charges.grants.is_empty() {
            // The lane is not stalled: the awaited bytes may have arrived by an earlier
            // transmission.
            self.stalled.remove(lane);
        }
        self.release(lane, released);
    }

    /// Notes that a lane's connection is lost. The grants of the lane are void, but their bytes
    /// stay charged until they have certainly left the network.
    pub(crate) fn handle_gone(&mut self, lane: LaneIndex, now: Instant) {
        let charges = &mut self.lanes[lane];
        charges.grants.clear();
        self.stalled.remove(lane);
        self.granted.remove(lane);
        let gone = core::mem::take(&mut charges.outstanding);
        if gone > Bytes::ZERO {
            charges.draining += gone;
            self.draining.push_back((now + DRAIN, lane.get(), gone));
        }
    }

    /// Releases the charges of closed lanes whose bytes have left the switch by now, and counts
    /// lanes that have begun to stall.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        while let Some((_, lane, cost)) = self.draining.pop_front_if(|(at, ..)| *at <= now) {
            self.outstanding -= cost;
            let charges = &mut self.lanes[lane];
            charges.draining -= cost;
            charges.groups.iter().for_each(|group| self.groups[*group] -= cost);
        }
        for lane in self.granted.iter() {
            if self.lanes[lane].last_byte + STALL <= now && self.stalled.insert(lane) {
                self.counters.stalls[lane.get()] += 1;
            }
        }
    }

    /// Returns the time at which a lane may count as stalled or the charge of a lost connection
    /// ends. Bytes that arrive meanwhile postpone a stall, so the time may be too early.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        let waiting = self.granted.iter_without(&self.stalled);
        let stall = waiting.map(|lane| self.lanes[lane].last_byte + STALL).min();
        evb_core::time::earlier(stall, self.draining.front().map(|(at, ..)| *at))
    }
}
