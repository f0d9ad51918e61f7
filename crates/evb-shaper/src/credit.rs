//! Credit: a byte budget per builder port, given out in chunks.

use evb_core::{
    grant::{Grant, LaneDemand},
    id::EventId,
    index::LaneIndex,
    time::Instant,
    units::Bytes,
};

use crate::{
    charges::{Charges, Room, Rule},
    cost::PacketCost,
};

/// Configuration of a builder's credit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreditConfig {
    /// The most buffer bytes permitted and not arrived, over all lanes; at most the port's buffer.
    pub budget: Bytes,
    /// Lane bytes of one turn.
    pub chunk: Bytes,
    /// Lanes that have their turn at once; with `None`, as many as the budget carries.
    pub sources_at_once: Option<usize>,
    /// Start of the rotation over the lanes; different for each builder, so that they do not all
    /// ask the same source first.
    pub offset: usize,
    /// Cost of bytes in the port.
    pub cost: PacketCost,
}

/// The credit policy.
///
/// Invariant: the outstanding charge never exceeds the budget. Lanes are served by the oldest event
/// that they hold, ties by rotation, and none overtakes; a turn is one chunk, which may reach
/// beyond that event. A lane holds at most max(chunk, budget / 4), or four chunks while no other
/// lane wants to send: a lane that is alone does not stop and wait. A stalled lane gets no new
/// grants, and the builder closes it where it keeps the others waiting.
#[derive(Debug)]
pub struct Credit {
    config: CreditConfig,
    /// The most that a chunk may be charged, with what announces its fragments.
    chunk_limit: Bytes,
    /// The most that a lane may hold while others want to send.
    lane_limit: Bytes,
    /// The most that it may hold while none does.
    lone_limit: Bytes,
    next: usize,
    /// With `sources_at_once`: the lanes whose turn it is, and the lane offset that ends it.
    turns: Vec<(LaneIndex, u64)>,
    received: Vec<u64>,
}

impl Credit {
    /// A policy over `lanes` lanes. The chunk is cut down to what the budget can carry.
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

    /// Returns the lane with the oldest event among those that may be served, in rotation order.
    /// The room for its chunk is checked afterwards: a younger event's smaller chunk must not
    /// overtake, or the oldest would wait while there are small ones.
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

    /// The end of the lane's next chunk, and its charge.
    fn next_chunk(&self, demand: &LaneDemand) -> (u64, Bytes) {
        let CreditConfig { cost, budget, chunk, .. } = &self.config;
        let length = chunk.count().min(demand.ready - demand.granted);
        let charge = cost.grant(Bytes::new(length), demand.fragment);
        if charge <= self.chunk_limit {
            return (demand.granted + length, charge);
        }
        // Tiny fragments may cost more to announce than to send, so the grant is cut to the room of
        // the limit, at least a packet.
        let part = u128::from(length) * u128::from(self.chunk_limit.count()) / u128::from(charge.count());
        let packets = (part as u64 + cost.record_header().count()) / cost.packet_payload().count();
        let length = cost.full_packets(packets.max(1)).count().min(length);
        let charge = cost.grant(Bytes::new(length), demand.fragment);
        (demand.granted + length, charge.min(*budget))
    }

    /// Returns the largest holder of the budget among the lanes that have been stalled for
    /// [`GIVEN_UP`](crate::charges::GIVEN_UP), where these together hold more than a quarter of the
    /// budget and another lane finds no room in it.
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

/// Returns true if the lane may hold that much more.
fn within(limit: Bytes, charges: &Charges, lane: LaneIndex, cost: Bytes) -> bool {
    let held = charges.of_lane(lane);
    held == Bytes::ZERO || held + cost <= limit
}

#[cfg(test)]
mod tests;
