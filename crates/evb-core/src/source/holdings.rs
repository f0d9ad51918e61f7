//! Fragments whose events get another builder because builders join and leave.

use super::{SourceCore, backlog::Recalled, lane::SourceLane};
use crate::{
    fragment::Fragment,
    id::{BuilderId, EventId, Incarnation},
    index::LaneIndex,
    wire::control::{Holdings, MAX_OUTSTANDING, MalformedMessage},
};

impl SourceCore {
    /// Applies a roster. Lanes of builders that left or restarted end, and their fragments wait for
    /// [`Self::handle_holdings`]. New builders get additional lanes ([`Self::lane_count`]).
    /// Requirements: docs/reference/protocol.md RUN-34.
    pub fn handle_roster(&mut self, builders: &[(BuilderId, Incarnation)]) -> Result<(), MalformedMessage> {
        let mut over = Vec::new();
        let added = self.seats.publish(builders, |lane| over.push(lane))?;
        over.into_iter().for_each(|lane| self.restart(lane));
        for _ in 0..added {
            self.lanes.push(SourceLane::new(&self.times));
        }
        Ok(())
    }

    /// Begins all lanes again at 0, because the supervisor treats this source as a new process.
    pub fn begin_anew(&mut self) {
        LaneIndex::all(self.lanes.len()).for_each(|lane| self.restart(lane));
    }

    /// Applies the supervisor's list of outstanding events and their builders. Fragments that are
    /// in a lane stay there.
    /// Requirements: docs/reference/protocol.md RUN-35.
    pub fn handle_holdings(&mut self, holdings: &Holdings) -> Result<(), MalformedMessage> {
        let decided = EventId::new(holdings.decided);
        let mut held = self.builders_of(holdings)?;
        held.sort_unstable_by_key(|(event, _)| *event);
        let events: Vec<EventId> = held.iter().map(|(event, _)| *event).collect();
        let mut in_lanes: Vec<EventId> = self.lanes.iter().flat_map(SourceLane::held_events).collect();
        in_lanes.sort_unstable();
        self.parking.forget_assignments();
        for (event, lane) in held {
            if in_lanes.binary_search(&event).is_err() {
                self.house(event, lane);
            }
        }
        self.counters.closed += self.parking.retain(decided, &events) as u64;
        self.counters.closed += self.backlog.close(decided);
        Ok(())
    }

    /// Appends a fragment to its builder's lane, or keeps it while the builder is not in the
    /// roster.
    pub(super) fn deliver(&mut self, lane: LaneIndex, fragment: Fragment) {
        if self.seats.is_listed(lane) {
            self.lanes[lane].append(fragment);
            self.announce.insert(lane);
        } else {
            self.parking.park(fragment);
        }
    }

    /// Finds the fragment of an outstanding event, and appends it to the lane of the event's
    /// builder. Without a builder (`None`), the fragment is parked.
    fn house(&mut self, event: EventId, lane: Option<LaneIndex>) {
        let recalled = self.parking.take(event).map_or_else(|| self.backlog.recall(event), Recalled::Here);
        match recalled {
            Recalled::Here(fragment) => match lane {
                Some(lane) => self.deliver(lane, fragment),
                None => self.parking.park(fragment),
            },
            Recalled::Awaited => self.parking.expect(event, lane),
            Recalled::Gone => {
                self.parking.expect(event, lane);
                if self.config.on_demand {
                    self.wanted.push_back(event);
                }
            }
        }
    }

    /// Ends the lane, and keeps its uncommitted fragments by event id.
    fn restart(&mut self, lane: LaneIndex) {
        self.announce.remove(lane);
        self.lanes[lane].restart().for_each(|fragment| self.parking.park(fragment));
    }

    /// Returns each event of the message with the lane to its builder; `None` for an event that has
    /// no builder yet.
    fn builders_of(
        &self,
        holdings: &Holdings,
    ) -> Result<Vec<(EventId, Option<LaneIndex>)>, MalformedMessage> {
        let mut assignments = Vec::new();
        for (builder, events) in holdings.assignments()? {
            let lane = builder.map(|builder| self.lane_of(builder)).transpose()?;
            let lane = lane.filter(|lane| self.seats.is_listed(*lane));
            assignments.extend(events.take(MAX_OUTSTANDING + 1).map(|event| (event, lane)));
            if assignments.len() > MAX_OUTSTANDING {
                let problem = "more events are outstanding than builders could have slots";
                return Err(MalformedMessage { message: "Holdings", problem });
            }
        }
        Ok(assignments)
    }
}
