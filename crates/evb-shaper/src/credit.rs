//! Credit: a grant policy in which a builder gives out a byte budget for its switch port, in
//! chunks.

use evb_core::{
    grant::{Grant, LaneDemand},
    id::EventId,
    index::LaneIndex,
    time::Instant,
    units::Bytes,
};

use crate::{
    budget::BudgetGroup,
    charges::{Charges, Room, Rule},
    cost::PacketCost,
};

/// Configuration of a builder's credit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreditConfig {
    /// The largest number of buffer bytes that may be granted and not arrived, over all lanes. The
    /// budget must not exceed the port's buffer.
    pub budget: Bytes,
    /// Limits for groups of lanes, in addition to the budget.
    pub groups: Vec<BudgetGroup>,
    /// Lane bytes of one turn, the amount that a lane is granted at a time.
    pub chunk: Bytes,
    /// Number of lanes that may have their turn at the same time; with `None`, as many as the
    /// budget permits.
    pub sources_at_once: Option<usize>,
    /// Lane at which the rotation starts. Each builder starts at another lane, so that the builders
    /// do not all ask the same source first.
    pub offset: usize,
    /// Cost of lane bytes in the port's buffer.
    pub cost: PacketCost,
}

/// The credit policy.
///
/// Invariant: the outstanding charge never exceeds the budget. The lane with the oldest event is
/// served first, and a younger event never overtakes; among lanes with the same event, service
/// rotates. A turn is one chunk, which may reach beyond the oldest event. A lane holds at most
/// max(chunk, budget / 4), or four chunks while no other lane wants to send, so that a lone lane
/// need not wait for each chunk to arrive. A stalled lane gets no new grants, and the builder
/// closes its connection if it keeps other lanes waiting.
#[derive(Debug)]
pub struct Credit {
    config: CreditConfig,
    /// The largest charge of a chunk, in buffer bytes, including the announcements of its
    /// fragments.
    chunk_limit: Bytes,
    /// The largest charge that a lane may hold while other lanes want to send.
    lane_limit: Bytes,
    /// The largest charge that a lane may hold while no other lane wants to send.
    lone_limit: Bytes,
    next: usize,
    /// With `sources_at_once`: the lanes whose turn it is, each with the lane offset at which its
    /// turn ends.
    turns: Vec<(LaneIndex, u64)>,
    received: Vec<u64>,
}

impl Credit {
    /// Creates the policy for `lanes` lanes. A chunk larger than the budget is reduced to it.
    pub(crate) fn new(mut config: CreditConfig, lanes: usize) -> Self {
        let most = config.cost.affordable(config.budget);
        config.chunk = config.chunk.min(most).max(Bytes::new(1));
        config.budget = config.budget.max(config.cost.buffer(config.chunk));
        let chunk = config.cost.buffer(config.chunk);
        let lane_limit = chunk.max(config.budget / 4);
        let lone_limit = (chunk * 4).max(lane_limit);
        let chunk_limit = chunk.max(config.budget / 2);
        let next = config.offset % lanes.max(1);
        Self {
            config,
            chunk_limit,
            lane_limit,
            lone_limit,
            next,
            turns: Vec::new(),
            received: vec![0; lanes],
        }
    }

    /// Returns the lane with the oldest event among the lanes that may be served; of several lanes
    /// with this event, the first in rotation order. The caller checks afterwards if the budget has
    /// room for the chunk. If a smaller chunk of a younger event could overtake, the oldest event
    /// might wait for ever.
    fn pick(&self, charges: &Charges, lanes: &[LaneDemand]) -> Option<LaneIndex> {
        let count = lanes.len();
        let mut best: Option<(EventId, LaneIndex)> = None;
        let mut alone = None;
        for step in 0..count {
            let lane = if self.next + step < count { self.next + step } else { self.next + step - count };
            let lane = LaneIndex::new(lane);
            let demand = &lanes[lane];
            if demand.ready <= demand.granted || !demand.connected || charges.is_stalled(lane) {
                continue;
            }
            let cost = self.next_chunk(demand).1;
            if within(self.lane_limit, charges, lane, cost) {
                if best.is_none_or(|(oldest, _)| demand.oldest < oldest) {
                    best = Some((demand.oldest, lane));
                }
            } else {
                alone = Some((lane, cost)).filter(|_| alone.is_none());
            }
        }
        let alone = alone.filter(|(lane, cost)| within(self.lone_limit, charges, *lane, *cost));
        best.map(|(_, lane)| lane).or_else(|| alone.map(|(lane, _)| lane))
    }

    /// Returns the end offset of a lane's next chunk, and the charge of the chunk.
    fn next_chunk(&self, demand: &LaneDemand) -> (u64, Bytes) {
        let CreditConfig { cost, budget, chunk, .. } = &self.config;
        let length = chunk.count().min(demand.ready - demand.granted);
        let charge = cost.grant(Bytes::new(length), demand.fragment);
        if charge <= self.chunk_limit {
            return (demand.granted + length, charge);
        }
        // Tiny fragments may cost more to announce than to send. The grant is therefore reduced to
        // the limit, but not below one packet.
        let part = u128::from(length) * u128::from(self.chunk_limit.count()) / u128::from(charge.count());
        let packets = (part as u64 + cost.record_header().count()) / cost.packet_payload().count();
        let length = cost.full_packets(packets.max(1)).count().min(length);
        let charge = cost.grant(Bytes::new(length), demand.fragment);
        (demand.granted + length, charge.min(*budget))
    }

    /// Returns the lane that holds most of the budget among those stalled for
    /// [`GIVEN_UP`](crate::charges::GIVEN_UP). Returns `None` unless the stalled lanes together
    /// hold more than a quarter of the budget and another lane waits for room in it.
    pub(crate) fn withholding(
        &self,
        charges: &Charges,
        lanes: &[LaneDemand],
        now: Instant,
    ) -> Option<LaneIndex> {
        let stalled = || LaneIndex::all(lanes.len()).filter(|lane| charges.is_given_up(*lane, now));
        let held: Bytes = stalled().map(|lane| charges.of_lane(lane)).sum();
        let is_short = |demand: &LaneDemand| {
            demand.connected
                && demand.ready > demand.granted
                && charges.outstanding() + self.next_chunk(demand).1 > self.config.budget
        };
        let waits =
            || LaneIndex::all(lanes.len()).any(|lane| !charges.is_stalled(lane) && is_short(&lanes[lane]));
        if held <= self.config.budget / 4 || !waits() {
            return None;
        }
        stalled().max_by_key(|lane| charges.of_lane(*lane))
    }

    fn poll_all(&mut self, charges: &mut Charges, lanes: &[LaneDemand], now: Instant) -> Option<Grant> {
        let lane = self.pick(charges, lanes)?;
        let (end, cost) = self.next_chunk(&lanes[lane]);
        if charges.outstanding() + cost > self.config.budget {
            return None;
        }
        self.next = (lane.get() + 1) % lanes.len();
        Some(charges.give_next(lane, &lanes[lane], end, cost, now))
    }

    fn poll_turns(
        &mut self,
        charges: &mut Charges,
        lanes: &[LaneDemand],
        at_once: usize,
        now: Instant,
    ) -> Option<Grant> {
        let received = &self.received;
        self.turns.retain(|(lane, end)| {
            received[*lane] < *end && lanes[*lane].connected && !charges.is_stalled(*lane)
        });
        while self.turns.len() < at_once {
            let free = |lane: LaneIndex| self.turns.iter().all(|(taken, _)| *taken != lane);
            let wants = |lane: &LaneIndex| {
                let demand = &lanes[*lane];
                demand.ready > demand.granted && demand.connected && free(*lane) && !charges.is_stalled(*lane)
            };
            let order = (0..lanes.len()).map(|step| LaneIndex::new((self.next + step) % lanes.len()));
            let Some(lane) = order.filter(wants).min_by_key(|lane| lanes[*lane].oldest) else { break };
            self.turns.push((lane, lanes[lane].oldest_end));
            self.next = (lane.get() + 1) % lanes.len();
        }
        let limit = if self.turns.len() == 1 { self.lone_limit } else { self.lane_limit };
        for (lane, turn_end) in &self.turns {
            let demand = LaneDemand { ready: lanes[*lane].ready.min(*turn_end), ..lanes[*lane] };
            if demand.ready <= demand.granted {
                continue;
            }
            let (end, cost) = self.next_chunk(&demand);
            let has_room = charges.outstanding() + cost <= self.config.budget;
            if has_room && within(limit, charges, *lane, cost) {
                return Some(charges.give_next(*lane, &demand, end, cost, now));
            }
        }
        None
    }
}

impl Rule for Credit {
    fn poll(&mut self, charges: &mut Charges, lanes: &[LaneDemand], now: Instant) -> Option<Grant> {
        let grant = match self.config.sources_at_once {
            Some(at_once) => self.poll_turns(charges, lanes, at_once.max(1), now),
            None => self.poll_all(charges, lanes, now),
        };
        debug_assert!(charges.outstanding() <= self.config.budget, "budget exceeded");
        grant
    }

    fn room(&self, charges: &Charges, lane: LaneIndex, cost: Bytes) -> Room {
        if charges.outstanding() + cost > self.config.budget {
            Room::PortFull
        } else if within(self.lane_limit, charges, lane, cost) {
            Room::Free
        } else {
            Room::LaneFull
        }
    }

    fn cost(&self) -> &PacketCost {
        &self.config.cost
    }

    fn handle_received(&mut self, lane: LaneIndex, received: u64) {
        self.received[lane] = received;
    }

    fn handle_reset(&mut self, lane: LaneIndex) {
        self.turns.retain(|(turn, _)| *turn != lane);
    }
}

/// Returns true if a lane may hold a further charge of `cost` under the given limit.
fn within(limit: Bytes, charges: &Charges, lane: LaneIndex, cost: Bytes) -> bool {
    let held = charges.of_lane(lane);
    held == Bytes::ZERO || held + cost <= limit
}

#[cfg(test)]
mod tests;
