//! [`SharedLink`]: decides which lane may send next and when, for the lanes that share one link.

#[cfg(test)]
mod tests;

use core::time::Duration;

use evb_core::{index::LaneIndex, time::Instant, units::Bytes};

use crate::{
    bucket::EdtBucket,
    cost::{ByteMeasure, WireBytes},
    link_plan::LinkPlan,
    pace::Pace,
};

/// A link and the lanes that share it. The link may have a rate, the lanes together a ceiling, and
/// each lane a bucket of its own.
///
/// Each limit computes departure times ([`EdtBucket`]) instead of counting tokens. Lanes share by
/// start-time fair queueing (Goyal, Vin & Cheng, 1996): lanes that their own bucket limits to less
/// than the fair share get all that the bucket permits, and the other lanes get equal parts of the
/// rest. A lane with something to send waits only for its own bucket, for the ceiling, or for the
/// link.
#[derive(Debug)]
pub struct SharedLink {
    link: Option<Gate>,
    /// The bucket of all lanes together.
    ceiling: Option<Gate>,
    lanes: Vec<Leaf>,
    /// Lanes that had a train at the last poll or were noted since, ascending.
    busy: Vec<LaneIndex>,
    /// Virtual time of the fair queueing, in bytes.
    served: u64,
    /// True if a lane had a train at the last poll.
    is_backlogged: bool,
    /// Earliest time at which a lane could have sent, if ceiling and link did not limit it.
    due: Instant,
}

/// Permission for a train to depart, as [`SharedLink::poll`] returns it. The train is already
/// charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permit {
    /// Lane that may send its next train.
    pub lane: LaneIndex,
    /// Departure time of the train.
    pub at: Instant,
    /// Delay of the departure after the time at which the train was allowed to depart; `None` if
    /// the train did not have to wait for this time.
    pub late: Option<Duration>,
    /// Part of the lane's delay that its burst cannot make up for, so that this time at the lane's
    /// rate is lost.
    pub forfeited: Duration,
}

/// A bucket, and the kind of bytes that it counts.
#[derive(Debug)]
struct Gate {
    bucket: EdtBucket,
    measure: ByteMeasure,
}

#[derive(Debug)]
struct Leaf {
    bucket: Option<Gate>,
    /// Start tag of the lane's next train in the fair queueing, in bytes.
    tag: u64,
    /// Wire size of the lane's next train; `None` if the lane has nothing to send.
    train: Option<WireBytes>,
    /// Time since which the lane has had something to send.
    since: Instant,
    /// Time at which the train could have departed by the lane's own bucket.
    due: Instant,
    /// True if the lane's train has to wait for its departure time.
    held: bool,
}

/// Largest number of bytes by which a lane that was held back may catch up with the other lanes.
const LANE_LAG: u64 = 1 << 18;

/// A lane that wants to send its next train.
struct Candidate {
    lane: LaneIndex,
    wire: WireBytes,
    /// Departure time of the train.
    at: Instant,
    /// Start tag of the train.
    tag: u64,
    /// Time at which lane, ceiling and link permit the train, which may be past.
    due: Instant,
}

impl SharedLink {
    /// Creates a link with the given limits and a lane for each pace.
    pub fn new(plan: &LinkPlan, lanes: impl IntoIterator<Item = Option<Pace>>) -> Self {
        let mut shared = Self {
            link: plan.link().map(Gate::new),
            ceiling: plan.ceiling().map(Gate::new),
            lanes: Vec::new(),
            busy: Vec::new(),
            served: 0,
            is_backlogged: false,
            due: Instant::ZERO,
        };
        lanes.into_iter().for_each(|pace| shared.add_lane(pace));
        shared
    }

    /// Adds a lane with the given pace.
    pub fn add_lane(&mut self, pace: Option<Pace>) {
        self.lanes.push(Leaf {
            bucket: pace.as_ref().map(Gate::new),
            tag: 0,
            train: None,
            since: Instant::ZERO,
            due: Instant::ZERO,
            held: false,
        });
    }

    /// Notes that a lane may have got something to send since the last poll.
    pub fn note_news(&mut self, lane: LaneIndex) {
        if let Err(place) = self.busy.binary_search(&lane)
            && lane.get() < self.lanes.len()
        {
            self.busy.insert(place, lane);
        }
    }

    /// Returns and charges the next train that may depart by `now + lead`. If all trains must wait,
    /// returns the time to poll again. `demand` returns the wire size of a lane's next train, or
    /// `None` if the lane has nothing to send. It is asked for lanes that had a train at the last
    /// poll or were noted ([`note_news`](Self::note_news)) since.
    ///
    /// # Errors
    /// Returns the time at which the first waiting train may be handed out, or `None` if no lane
    /// has a train.
    pub fn poll(
        &mut self,
        now: Instant,
        lead: Duration,
        demand: impl FnMut(LaneIndex) -> Option<WireBytes>,
    ) -> Result<Permit, Option<Instant>> {
        self.note_backlogs(now, demand);
        let mut best: Option<Candidate> = None;
        for lane in &self.busy {
            let leaf = &self.lanes[*lane];
            let Some(wire) = leaf.train else { continue };
            if best.as_ref().is_none_or(|best| leaf.due.max(now) <= best.at) {
                let candidate = self.candidate(*lane, wire, now);
                best = best.filter(|best| best.rank() <= candidate.rank()).or(Some(candidate));
            }
        }
        let Some(best) = best else { return Err(None) };
        if best.at > now + lead {
            self.busy.iter().for_each(|lane| self.lanes[*lane].held = true);
            let at = best.at;
            // A train is handed out before it departs, by the time `lead`.
            let until = at.as_nanos() - u64::try_from(lead.as_nanos()).unwrap_or(u64::MAX).min(at.as_nanos());
            return Err(Some(Instant::from_nanos(until)));
        }
        Ok(self.permit(&best))
    }

    /// Returns a time for the next poll, `until` or a little later, so that lanes whose departure
    /// times follow shortly after `until` share one wake-up. `until` is the time that
    /// [`poll`](Self::poll) returned. No train is delayed by more than `most`, by more than half
    /// its time on the line, or by more than half of the further lateness that its lane's burst
    /// makes up for, so no rate is lost. A lane that is alone is not delayed.
    pub fn joined(&self, until: Instant, most: Duration) -> Instant {
        let paced = || {
            let leaves = self.busy.iter().map(|lane| &self.lanes[*lane]);
            leaves.filter_map(|leaf| Some((leaf.due, leaf.train?, leaf.bucket.as_ref()?)))
        };
        // If the first train waits for the link or the ceiling, the trains of other lanes wait for
        // these too, so a delay would only cost rate.
        if paced().map(|(due, ..)| due).min() != Some(until) {
            return until;
        }
        let latest = |(due, train, gate): (Instant, WireBytes, &Gate)| due + gate.slack(train).min(most);
        // The first train departs by this time.
        let deadline = paced().map(latest).min().unwrap_or(until);
        paced().map(|(due, ..)| due).filter(|due| *due <= deadline).max().unwrap_or(until)
    }

    /// Charges a lane for bytes that leave now without a permit, such as announcements. The lane's
    /// next trains leave later accordingly.
    pub fn charge_lane(&mut self, lane: LaneIndex, wire: WireBytes, now: Instant) {
        let Some(leaf) = self.lanes.get_mut(lane.get()) else { return };
        // A train that waits has earned tokens since it became ready.
        if let Some(gate) = &mut leaf.bucket {
            gate.spend(wire, now, leaf.train.map_or(now, |_| leaf.since));
        }
        // The lane has had these bytes of its fair share.
        leaf.tag += wire.line.count();
        let first = self.idle_until(now);
        if let Some(gate) = &mut self.ceiling {
            gate.spend(wire, now, first);
        }
        self.charge_link(wire, now);
    }

    /// Charges the link for bytes that leave without a permit and are not the lanes', such as
    /// control messages, so that the lanes leave room for them.
    pub fn charge_link(&mut self, wire: WireBytes, now: Instant) {
        let first = self.idle_until(now);
        if let Some(gate) = &mut self.link {
            gate.spend(wire, now, first);
        }
    }

    /// Returns the time up to which the link counts as idle, so that it does not catch up on this
    /// time: `now` if no lane has something to send.
    fn idle_until(&self, now: Instant) -> Instant {
        if self.is_backlogged { Instant::ZERO } else { now }
    }

    /// Gives a lane another pace; with `None`, the lane is not paced any more.
    pub fn set_pace(&mut self, lane: LaneIndex, pace: Option<Pace>, now: Instant) {
        let Some(leaf) = self.lanes.get_mut(lane.get()) else { return };
        match (&mut leaf.bucket, pace) {
            (Some(gate), Some(pace)) if gate.measure == pace.measure && gate.bucket.burst() == pace.burst => {
                gate.bucket.set_rate(pace.rate, now);
            }
            (bucket, pace) => {
                *bucket = pace.as_ref().map(Gate::new);
                if let Some(gate) = bucket {
                    gate.bucket.wake(now);
                }
            }
        }
    }

    /// Updates which lanes have something to send, and the earliest time at which one could send.
    fn note_backlogs(&mut self, now: Instant, mut demand: impl FnMut(LaneIndex) -> Option<WireBytes>) {
        self.due = Instant::FAR_FUTURE;
        self.busy.retain(|lane| {
            let leaf = &mut self.lanes[*lane];
            let train = demand(*lane);
            if train.is_some() && leaf.train.is_none() {
                leaf.since = now;
                // The time for which a lane had nothing to send gives it no advantage over others.
                leaf.tag = leaf.tag.max(self.served);
                if let Some(gate) = &mut leaf.bucket {
                    gate.bucket.wake(now);
                }
            }
            leaf.train = train;
            leaf.held &= train.is_some();
            if let Some(wire) = train {
                leaf.due = leaf.bucket.as_ref().map_or(leaf.since, |gate| gate.due(wire));
                self.due = self.due.min(leaf.due);
            }
            train.is_some()
        });
        debug_assert!(
            LaneIndex::all(self.lanes.len())
                .all(|lane| self.busy.binary_search(&lane).is_ok() || demand(lane).is_none()),
            "a lane has something to send that was not noted"
        );
        let is_backlogged = self.due < Instant::FAR_FUTURE;
        if is_backlogged
            && !self.is_backlogged
            && let Some(gate) = &mut self.ceiling
        {
            gate.bucket.wake(now);
        }
        self.is_backlogged = is_backlogged;
    }

    fn candidate(&self, lane: LaneIndex, wire: WireBytes, now: Instant) -> Candidate {
        let leaf = &self.lanes[lane];
        let due = |gate: &Option<Gate>| gate.as_ref().map_or(leaf.due, |gate| gate.due(wire));
        let due = leaf.due.max(due(&self.ceiling)).max(due(&self.link));
        let tag = leaf.tag.max(self.served.saturating_sub(LANE_LAG));
        Candidate { lane, wire, at: due.max(now), tag, due }
    }

    /// Charges the train of the selected lane, and returns the permit.
    fn permit(&mut self, candidate: &Candidate) -> Permit {
        let Candidate { lane, wire, at, tag, due } = *candidate;
        let leaf = &mut self.lanes[lane];
        let mut forfeited = Duration::ZERO;
        if let Some(gate) = &mut leaf.bucket {
            forfeited = at.since(gate.bucket.due(Bytes::ZERO)).saturating_sub(gate.bucket.tolerance());
            gate.spend(wire, at, Instant::ZERO);
        }
        self.served = self.served.max(tag);
        leaf.tag = tag + wire.line.count();
        // Time before the first lane is due counts as idle for ceiling and link, and is not caught
        // up.
        let first = self.due.min(at);
        for gate in self.ceiling.iter_mut().chain(&mut self.link) {
            gate.spend(wire, at, first);
        }
        let late = leaf.held.then(|| at.since(due));
        Permit { lane, at, late, forfeited }
    }
}

impl Candidate {
    /// Returns what decides between lanes, compared from the left; the lowest goes first.
    fn rank(&self) -> (Instant, u64, Instant) {
        (self.at, self.tag, self.due)
    }
}

impl Gate {
    fn new(pace: &Pace) -> Self {
        Self { bucket: EdtBucket::new(pace.rate, pace.burst), measure: pace.measure }
    }

    fn due(&self, wire: WireBytes) -> Instant {
        self.bucket.due(wire.by(self.measure))
    }

    /// Returns the time by which a train may be delayed so that it shares a wake-up with other
    /// lanes.
    fn slack(&self, train: WireBytes) -> Duration {
        let on_the_line = train.by(self.measure) / self.bucket.rate();
        on_the_line.min(self.bucket.tolerance().saturating_sub(on_the_line)) / 2
    }

    /// Charges bytes that depart at `at`. The time before `first`, when the queue was empty, is not
    /// caught up.
    fn spend(&mut self, wire: WireBytes, at: Instant, first: Instant) {
        self.bucket.wake(first);
        self.bucket.spend(wire.by(self.measure), at);
    }
}
