//! What was granted and has not arrived, grant by grant.

use core::{ops::Range, time::Duration};
use std::collections::VecDeque;

use evb_core::{
    grant::{Fate, Grant, GrantCounters, LaneDemand},
    index::LaneIndex,
    lane::Request,
    time::Instant,
    units::Bytes,
};

use crate::cost::PacketCost;

/// Time after which a lane with an outstanding grant that delivers no byte is stalled.
pub(crate) const STALL: Duration = Duration::from_millis(50);

/// Time after which a stalled lane may lose its connection. It is not shorter, since a source that
/// waits for a core on a busy host is back before, and a new connection costs more.
pub(crate) const GIVEN_UP: Duration = Duration::from_millis(200);

/// Time for which the bytes of a lost connection may still lie in a switch port: 160 kB at 10
/// Mbit/s.
const DRAIN: Duration = Duration::from_millis(130);

/// Part in which grant policies differ; the charges are kept for all of them alike.
pub(crate) trait Rule {
    /// The next grant that may be given now; charged.
    fn poll(&mut self, charges: &mut Charges, lanes: &[LaneDemand], now: Instant) -> Option<Grant>;

    /// Decides if that much more may be outstanding on that lane: asked before lost bytes are sent
    /// again, which go before all new grants.
    fn room(&self, _charges: &Charges, _lane: LaneIndex, _cost: Bytes) -> Room {
        Room::Free
    }

    /// Returns the cost of bytes in the port.
    fn cost(&self) -> &PacketCost;

    /// Notes the bytes that the lane has received in all, on its connection or on a new one.
    fn handle_received(&mut self, _lane: LaneIndex, _received: u64) {}

    /// The lane's connection is new.
    fn handle_reset(&mut self, _lane: LaneIndex) {}
}

/// Room for more outstanding bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// There is room.
    Free,
    /// The lane has no room.
    LaneFull,
    /// The port has no room, so no lane has.
    PortFull,
}

/// The charges of all lanes. A grant is charged when given, and released whole when the last of its
/// bytes has arrived or is declared lost (docs/reference/protocol.md UDP-15).
#[derive(Debug)]
pub(crate) struct Charges {
    lanes: Vec<LaneCharges>,
    outstanding: Bytes,
    /// Charges of connections that are gone, until the network has drained.
    draining: VecDeque<(Instant, usize, Bytes)>,
    pub(crate) counters: GrantCounters,
}

#[derive(Debug, Default)]
struct LaneCharges {
    grants: VecDeque<Charge>,
    outstanding: Bytes,
    /// Charges of lost connections, until the network has drained.
    draining: Bytes,
    last_byte: Instant,
    stalled: bool,
}

#[derive(Debug)]
struct Charge {
    /// The lane bytes.
    start: u64,
    end: u64,
    request: Request,
    /// Bytes of the grant that have neither arrived nor been declared lost.
    left: u64,
    cost: Bytes,
    given: Instant,
    /// Set when its first byte is here.
    has_begun: bool,
}

impl Charges {
    pub(crate) fn new(lanes: usize) -> Self {
        Self {
            lanes: (0..lanes).map(|_| LaneCharges::default()).collect(),
            outstanding: Bytes::ZERO,
            draining: VecDeque::new(),
            counters: GrantCounters { stalls: vec![0; lanes], ..GrantCounters::default() },
        }
    }

    pub(crate) fn outstanding(&self) -> Bytes {
        self.outstanding
    }

    pub(crate) fn of_lane(&self, lane: LaneIndex) -> Bytes {
        self.lanes[lane].outstanding
    }

    /// Returns the buffer bytes that may still lie in the port because of a lane: its grants, and
    /// those of its lost connections.
    pub(crate) fn in_port(&self, lane: LaneIndex) -> Bytes {
        self.lanes[lane].outstanding + self.lanes[lane].draining
    }

    pub(crate) fn is_stalled(&self, lane: LaneIndex) -> bool {
        self.lanes[lane].stalled
    }

    /// Returns true for a lane that is stalled and has brought nothing for [`GIVEN_UP`].
    pub(crate) fn is_given_up(&self, lane: LaneIndex, now: Instant) -> bool {
        let charges = &self.lanes[lane];
        charges.stalled && now.since(charges.last_byte) >= GIVEN_UP
    }

    /// Charges a grant.
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
        self.counters.grants += 1;
        self.counters.outstanding_peak = self.counters.outstanding_peak.max(self.outstanding);
        grant
    }

    /// The first transmission of the next bytes of a lane, up to `end`, is granted and charged.
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

    pub(crate) fn handle_received(&mut self, lane: LaneIndex, received: u64, now: Instant) {
        let charges = &mut self.lanes[lane];
        charges.last_byte = now;
        charges.stalled = false;
        for charge in charges.grants.iter_mut().take_while(|charge| charge.start < received) {
            if !charge.has_begun && charge.request == 0 {
                charge.has_begun = true;
                self.counters.first_byte.record(now.since(charge.given));
            }
        }
        // Repetitions end by `handle_accounted` alone.
        let is_here = |charge: &mut Charge| charge.request == 0 && charge.end <= received;
        while let Some(charge) = charges.grants.pop_front_if(is_here) {
            charges.outstanding -= charge.cost;
            self.outstanding -= charge.cost;
            self.counters.last_byte.record(now.since(charge.given));
        }
    }

    /// A transmission, or a part of one, has ended.
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
            charges.stalled = false;
        }
        let mut index = 0;
        while let Some(charge) = charges.grants.get_mut(index) {
            let overlap = range.end.min(charge.end).saturating_sub(range.start.max(charge.start));
            if charge.request != request || overlap == 0 {
                // First transmissions are granted in the order of the lane.
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
            charges.outstanding -= charge.cost;
            self.outstanding -= charge.cost;
            if fate == Fate::Arrived {
                self.counters.last_byte.record(now.since(charge.given));
            }
            charges.grants.remove(index);
        }
        // Only a lane that has something to send is stalled: the awaited bytes may have come by an
        // earlier transmission.
        charges.stalled &= !charges.grants.is_empty();
    }

    /// The lane's connection is gone: its grants are void, their bytes drain.
    pub(crate) fn handle_gone(&mut self, lane: LaneIndex, now: Instant) {
        let charges = &mut self.lanes[lane];
        charges.grants.clear();
        charges.stalled = false;
        let gone = core::mem::take(&mut charges.outstanding);
        if gone > Bytes::ZERO {
            charges.draining += gone;
            self.draining.push_back((now + DRAIN, lane.get(), gone));
        }
    }

    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        while let Some((_, lane, gone)) = self.draining.pop_front_if(|(at, ..)| *at <= now) {
            self.outstanding -= gone;
            self.lanes[lane].draining -= gone;
        }
        for (lane, charges) in self.lanes.iter_mut().enumerate() {
            if !charges.stalled && !charges.grants.is_empty() && charges.last_byte + STALL <= now {
                charges.stalled = true;
                self.counters.stalls[lane] += 1;
            }
        }
    }

    /// The next stall or drain; in steps of [`STALL`], so that it need not be kept exact per byte.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        let waiting = self.lanes.iter().filter(|charges| !charges.stalled && !charges.grants.is_empty());
        let stall = waiting.map(|charges| charges.last_byte + STALL).min();
        evb_core::time::earlier(stall, self.draining.front().map(|(at, ..)| *at))
    }
}
