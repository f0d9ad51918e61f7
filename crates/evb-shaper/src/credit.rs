//! Credit: a grant policy in which a builder gives out a byte budget for its switch port, in
//! chunks.

use std::collections::BTreeMap;

use evb_core::{
    grant::{Grant, LaneDemand},
    id::EventId,
    index::LaneIndex,
    set::LaneSet,
    time::Instant,
    units::Bytes,
};

use crate::{
    budget::BudgetGroup,
    charges::{Charges, Room, Rule},
    cost::PacketCost,
    queue::{Queue, wanted},
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
/// Invariant: the outstanding charge never exceeds the budget, nor a group's limit on the lanes of
/// the group. The lane with the oldest event is served first, and a younger event never overtakes,
/// except on lanes outside of a group that has no room; among lanes with the same event, service
/// rotates. A turn is one chunk, which may reach beyond the oldest event. A lane holds at most
/// max(chunk, limit / 4), where the limit is the smallest of those that the lane is subject to, or
/// four chunks while no other lane wants to send, so that a lone lane need not wait for each chunk
/// to arrive. A stalled lane gets no new grants, and the builder closes its connection if it keeps
/// other lanes waiting.
#[derive(Debug)]
pub struct Credit {
    config: CreditConfig,
    /// The largest charge of a chunk, in buffer bytes, including the announcements of its
    /// fragments.
    chunk_limit: Bytes,
    /// The largest possible charge of a chunk: the smallest limit.
    smallest: Bytes,
    /// Lanes by the groups that they belong to; without groups, one bundle of all lanes.
    bundles: Vec<Bundle>,
    /// Bundle of each lane, and the lane's event in the queue of its bundle.
    lanes: Vec<BundledLane>,
    next: LaneIndex,
    /// With `sources_at_once`: the lanes whose turn it is, each with the lane offset at which its
    /// turn ends.
    turns: Vec<(LaneIndex, u64)>,
    received: Vec<u64>,
}

impl Credit {
    /// Creates the policy for `lanes` lanes. A chunk larger than the budget or than the limit of a
    /// group is reduced to it.
    pub(crate) fn new(mut config: CreditConfig, lanes: usize) -> Self {
        let limits = config.groups.iter().map(|group| group.limit);
        // A chunk that fits into the budget and into each group can be granted at some time.
        let most = config.cost.affordable(limits.fold(config.budget, Bytes::min));
        config.chunk = config.chunk.min(most).max(Bytes::new(1));
        let chunk = config.cost.buffer(config.chunk);
        // Even a chunk of one byte may cost more than a very small limit.
        config.budget = config.budget.max(chunk);
        config.groups.iter_mut().for_each(|group| group.limit = group.limit.max(chunk));
        let smallest = config.groups.iter().map(|group| group.limit).fold(config.budget, Bytes::min);
        let (bundles, bundled) = bundles(&config, chunk, lanes);
        Self {
            chunk_limit: chunk.max(smallest / 2),
            smallest,
            bundles,
            lanes: bundled,
            next: LaneIndex::new(config.offset % lanes.max(1)),
            turns: Vec::new(),
            received: vec![0; lanes],
            config,
        }
    }

    /// Returns the lanes of each group.
    pub(crate) fn groups(&self) -> impl Iterator<Item = &LaneSet> {
        self.config.groups.iter().map(|group| &*group.lanes)
    }

    /// Returns the bundle of a lane.
    fn bundle(&self, lane: LaneIndex) -> &Bundle {
        &self.bundles[self.lanes[lane].bundle]
    }

    /// Returns the lane with the oldest event among the lanes that may be served; of several lanes
    /// with this event, the first in rotation order. The caller checks afterwards if the budget has
    /// room for the chunk. If a smaller chunk of a younger event could overtake, the oldest event
    /// might wait for ever.
    fn pick(&self, charges: &Charges, lanes: &[LaneDemand]) -> Option<LaneIndex> {
        if let [bundle] = self.bundles.as_slice() {
            return Some(self.first_of(bundle, charges, lanes)?.1);
        }
        // Each bundle offers its first lane. A group without room blocks the bundles in it, also
        // those whose chunks are smaller.
        // Distance of a lane in the rotation from the one that is next.
        let distance = |lane: LaneIndex| lane.get().wrapping_sub(self.next.get()) as u16;
        let mut offers: Vec<_> = (self.bundles.iter())
            .filter_map(|bundle| self.first_of(bundle, charges, lanes).map(|first| (first, bundle)))
            .collect();
        offers.sort_unstable_by_key(|((event, lane), _)| (*event, distance(*lane)));
        let mut full: Vec<usize> = Vec::new();
        for ((_, lane), bundle) in offers {
            if bundle.groups.iter().any(|group| full.contains(group)) {
                continue;
            }
            let cost = self.next_chunk(&lanes[lane]).1;
            let before = full.len();
            full.extend(bundle.groups.iter().filter(|group| !self.has_room(**group, charges, cost)));
            if full.len() == before {
                return Some(lane);
            }
        }
        None
    }

    /// Returns the lane of a bundle that is the first to be served.
    fn first_of(
        &self,
        bundle: &Bundle,
        charges: &Charges,
        lanes: &[LaneDemand],
    ) -> Option<(EventId, LaneIndex)> {
        let mut alone = None;
        let mut others = false;
        for (event, lane) in bundle.queue.in_order(self.next) {
            if charges.is_stalled(lane) {
                continue;
            }
            let cost = self.next_chunk(&lanes[lane]).1;
            if within(bundle.lane_limit, charges, lane, cost) {
                return Some((event, lane));
            }
            others |= alone.replace((event, lane, cost)).is_some();
        }
        // A lane may hold more of the budget while no other one wants to send.
        let (event, lane, cost) = alone.filter(|_| !others)?;
        within(bundle.lone_limit, charges, lane, cost).then_some((event, lane))
    }

    fn has_room(&self, group: usize, charges: &Charges, cost: Bytes) -> bool {
        charges.of_group(group) + cost <= self.config.groups[group].limit
    }

    /// Returns true if a further charge of `cost` on a lane fits into the budget and into the
    /// limits of the lane's groups.
    fn fits(&self, charges: &Charges, lane: LaneIndex, cost: Bytes) -> bool {
        charges.outstanding() + cost <= self.config.budget
            && self.bundle(lane).groups.iter().all(|group| self.has_room(*group, charges, cost))
    }

    /// Returns the end offset of a lane's next chunk, and the charge of the chunk.
    fn next_chunk(&self, demand: &LaneDemand) -> (u64, Bytes) {
        let CreditConfig { cost, chunk, .. } = &self.config;
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
        (demand.granted + length, charge.min(self.smallest))
    }

    /// Returns the lane that holds most of the budget among those stalled for
    /// [`GIVEN_UP`](crate::charges::GIVEN_UP). Returns `None` unless the stalled lanes together
    /// hold more than a quarter of the budget, or of a group's limit, and another lane waits for
    /// room in it.
    pub(crate) fn withholding(
        &self,
        charges: &Charges,
        lanes: &[LaneDemand],
        now: Instant,
    ) -> Option<LaneIndex> {
        let stalled = || charges.stalled().filter(|lane| charges.is_given_up(*lane, now));
        let largest = stalled().max_by_key(|lane| charges.of_lane(*lane))?;
        let held = |is_in: &dyn Fn(LaneIndex) -> bool| -> Bytes {
            stalled().filter(|lane| is_in(*lane)).map(|lane| charges.of_lane(lane)).sum()
        };
        // A lane waits for room if the cost of its next grant exceeds the limit.
        let waits = |is_in: &dyn Fn(LaneIndex) -> bool, held: Bytes, limit: Bytes| {
            let waiting = self.bundles.iter().flat_map(|bundle| bundle.queue.in_order(self.next));
            waiting
                .filter(|(_, lane)| is_in(*lane) && !charges.is_stalled(*lane))
                .any(|(_, lane)| held + self.next_chunk(&lanes[lane]).1 > limit)
        };
        let all = |_| true;
        let budget = self.config.budget;
        if held(&all) > budget / 4 && waits(&all, charges.outstanding(), budget) {
            return Some(largest);
        }
        self.config.groups.iter().enumerate().find_map(|(index, group)| {
            let is_in = |lane| group.lanes.contains(lane);
            let is_short =
                held(&is_in) > group.limit / 4 && waits(&is_in, charges.of_group(index), group.limit);
            stalled().filter(|lane| is_short && is_in(*lane)).max_by_key(|lane| charges.of_lane(*lane))
        })
    }

    /// Gives the next chunk to the lane whose turn it is, if the budget has room.
    fn poll_all(&mut self, charges: &mut Charges, lanes: &[LaneDemand], now: Instant) -> Option<Grant> {
        let lane = self.pick(charges, lanes)?;
        let (end, cost) = self.next_chunk(&lanes[lane]);
        if charges.outstanding() + cost > self.config.budget {
            return None;
        }
        debug_assert!(self.fits(charges, lane, cost), "a group without room is served");
        self.next = LaneIndex::new((lane.get() + 1) % lanes.len());
        Some(charges.give_next(lane, &lanes[lane], end, cost, now))
    }

    /// Gives the next chunk to one of the `at_once` lanes that have a turn. A turn lasts until the
    /// lane has received what its oldest event needs.
    fn poll_turns(
        &mut self,
        charges: &mut Charges,
        lanes: &[LaneDemand],
        at_once: usize,
        now: Instant,
    ) -> Option<Grant> {
        let received = &self.received;
        // A turn is over when the lane has received its bytes, or cannot send.
        self.turns.retain(|(lane, end)| {
            received[*lane] < *end && lanes[*lane].connected && !charges.is_stalled(*lane)
        });
        while self.turns.len() < at_once {
            let is_free = |lane: LaneIndex| self.turns.iter().all(|(taken, _)| *taken != lane);
            let firsts = self.bundles.iter().filter_map(|bundle| {
                let mut order = bundle.queue.in_order(self.next);
                order.find(|(_, lane)| is_free(*lane) && !charges.is_stalled(*lane))
            });
            // Of lanes with the same oldest event, the next one in the rotation comes first.
            let distance = |lane: LaneIndex| lane.get().wrapping_sub(self.next.get()) as u16;
            let Some((_, lane)) = firsts.min_by_key(|(event, lane)| (*event, distance(*lane))) else { break };
            self.turns.push((lane, lanes[lane].oldest_end));
            self.next = LaneIndex::new((lane.get() + 1) % lanes.len());
        }
        for (lane, turn_end) in &self.turns {
            let bundle = self.bundle(*lane);
            // A lane may hold more while no other lane wants to send.
            let limit = if self.turns.len() == 1 { bundle.lone_limit } else { bundle.lane_limit };
            // A turn covers only the bytes up to its end.
            let demand = LaneDemand { ready: lanes[*lane].ready.min(*turn_end), ..lanes[*lane] };
            if demand.ready <= demand.granted {
                continue;
            }
            let (end, cost) = self.next_chunk(&demand);
            if self.fits(charges, *lane, cost) && within(limit, charges, *lane, cost) {
                return Some(charges.give_next(*lane, &demand, end, cost, now));
            }
        }
        None
    }
}

impl Rule for Credit {
    /// Grants a lane its next bytes, by turns or to all lanes alike.
    fn poll(&mut self, charges: &mut Charges, lanes: &[LaneDemand], now: Instant) -> Option<Grant> {
        let grant = match self.config.sources_at_once {
            Some(at_once) => self.poll_turns(charges, lanes, at_once.max(1), now),
            None => self.poll_all(charges, lanes, now),
        };
        debug_assert!(charges.outstanding() <= self.config.budget, "budget exceeded");
        grant
    }

    /// Returns whether the budget and the lane's part of it have room for a grant of this cost.
    fn room(&self, charges: &Charges, lane: LaneIndex, cost: Bytes) -> Room {
        if !self.fits(charges, lane, cost) {
            Room::Full
        } else if within(self.bundle(lane).lane_limit, charges, lane, cost) {
            Room::Free
        } else {
            Room::LaneFull
        }
    }

    fn handle_demand(&mut self, lane: LaneIndex, demand: &LaneDemand) {
        let now = wanted(demand);
        let of_lane = &mut self.lanes[lane];
        let before = core::mem::replace(&mut of_lane.wanted, now);
        self.bundles[of_lane.bundle].queue.change(lane, before, now);
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

/// Lanes that belong to the same groups.
#[derive(Debug)]
struct Bundle {
    /// The groups, as positions in the configuration.
    groups: Vec<usize>,
    /// The largest charge that a lane may hold while other lanes want to send.
    lane_limit: Bytes,
    /// The largest charge that a lane may hold while no other lane wants to send.
    lone_limit: Bytes,
    queue: Queue,
}

/// A lane's place in a bundle.
#[derive(Debug)]
struct BundledLane {
    /// Position of the bundle.
    bundle: usize,
    /// Event of the lane in the queue of its bundle.
    wanted: Option<EventId>,
}

/// Returns the bundles of the lanes, and the place of each lane.
fn bundles(config: &CreditConfig, chunk: Bytes, lanes: usize) -> (Vec<Bundle>, Vec<BundledLane>) {
    let mut found: BTreeMap<Vec<usize>, usize> = BTreeMap::new();
    let mut bundles: Vec<Bundle> = Vec::new();
    let places = LaneIndex::all(lanes.max(1)).map(|lane| {
        let groups = config.groups.iter().enumerate();
        let groups: Vec<usize> =
            groups.filter(|(_, group)| group.lanes.contains(lane)).map(|(index, _)| index).collect();
        let bundle = *found.entry(groups).or_insert_with_key(|groups| {
            let limits = groups.iter().map(|group| config.groups[*group].limit);
            // A quarter of the smallest limit, so that lanes send in turn.
            let lane_limit = chunk.max(limits.fold(config.budget, Bytes::min) / 4);
            let lone_limit = (chunk * 4).max(lane_limit);
            bundles.push(Bundle { groups: groups.clone(), lane_limit, lone_limit, queue: Queue::default() });
            bundles.len() - 1
        });
        BundledLane { bundle, wanted: None }
    });
    let places = places.collect();
    (bundles, places)
}

/// Returns true if a lane may hold a further charge of `cost` under the given limit.
fn within(limit: Bytes, charges: &Charges, lane: LaneIndex, cost: Bytes) -> bool {
    let held = charges.of_lane(lane);
    held == Bytes::ZERO || held + cost <= limit
}

#[cfg(test)]
mod tests;
