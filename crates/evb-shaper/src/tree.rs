//! [`ClassTree`]: decides which lane may send next and when, for lanes in traffic classes on one
//! link.

use core::time::Duration;

use evb_core::{
    index::{ClassIndex, LaneIndex},
    time::Instant,
    units::Bytes,
};

use crate::{
    bucket::EdtBucket,
    cost::{ByteMeasure, WireBytes},
    link::LinkPlan,
    pace::Pace,
};

/// A link with traffic classes and their lanes. Each class has a guaranteed rate, a ceiling and a
/// priority; each lane may have a bucket of its own.
///
/// Classes share the link as in CBQ (Floyd & Jacobson, 1995), by the rules of HTB (Devera): a class
/// within its guarantee precedes all classes that borrow; the rate that the guarantees leave is
/// shared by priority, and between equal priorities in the ratio of the guarantees; no class
/// exceeds its ceiling. HTB counts tokens and can only answer "not yet"; this tree computes
/// departure times ([`EdtBucket`]). Within a class, lanes share by start-time fair queueing (Goyal,
/// Vin & Cheng, 1996): lanes that their own bucket limits to less than the fair share get all that
/// the bucket permits, and the other lanes get equal parts of the rest.
///
/// A lane with something to send waits only for its own bucket, for the ceiling of its class, or
/// for the link.
#[derive(Debug)]
pub struct ClassTree {
    link: Option<Gate>,
    classes: Vec<Branch>,
    lanes: Vec<Leaf>,
    /// Lanes that had a train at the last poll or were noted since, ascending.
    busy: Vec<LaneIndex>,
    /// Virtual time of the fair queueing of the rate that the guarantees leave, in ns of each
    /// class's guaranteed rate.
    excess: u64,
}

/// Permission for a train to depart, as [`ClassTree::poll`] returns it. The train is already
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
struct Branch {
    priority: u8,
    /// Bucket of the guaranteed rate; `None` if the link has no rate limit, so that nothing needs a
    /// guarantee.
    guarantee: Option<Gate>,
    ceiling: Option<Gate>,
    /// Start tag of the class's next train in the fair queueing of the rate that the guarantees
    /// leave.
    tag: u64,
    /// Virtual time of the fair queueing among the lanes of the class, in bytes.
    served: u64,
    backlogged: bool,
    /// Earliest time at which a lane of the class could have sent, if ceiling and link did not
    /// limit it.
    due: Instant,
    /// Time before which a departure exceeds the guaranteed rate, so that the class borrows.
    guaranteed: Instant,
}

#[derive(Debug)]
struct Leaf {
    class: ClassIndex,
    bucket: Option<Gate>,
    /// Start tag of the lane's next train in the fair queueing of its class, in bytes.
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

/// Largest number of bytes by which a lane that was held back may catch up with the other lanes of
/// its class.
const LANE_LAG: u64 = 1 << 18;
/// Largest amount by which a class that was held back may catch up in sharing the rate that the
/// guarantees leave, in ns of its guaranteed rate.
const EXCESS_LAG: u64 = 10_000_000;
/// Largest amount by which a class that other classes kept waiting may catch up with its guaranteed
/// rate, as time at this rate. This time is longer than any train takes on any link.
const GUARANTEE_LAG: Duration = Duration::from_millis(100);

/// Rank of a lane that wants to send; the lowest goes first. The fields are compared from the left:
/// departure time, true if the train exceeds the guarantee of its class, priority, share that the
/// class has had, share that the lane has had, and the time at which the train became due.
type Rank = (Instant, bool, u8, u64, u64, Instant);

struct Candidate {
    rank: Rank,
    lane: LaneIndex,
    wire: WireBytes,
    due: Instant,
    borrows: bool,
}

impl ClassTree {
    /// Creates the tree for a link plan. `lanes` has the class of each lane, as an index into the
    /// plan, and its pace.
    pub fn new(plan: &LinkPlan, lanes: impl IntoIterator<Item = (ClassIndex, Option<Pace>)>) -> Self {
        let branch = |class: &crate::link::PlannedClass| {
            let own = |rate| plan.link().map(|link| Pace { rate, ..*link });
            let guarantee =
                own(class.guaranteed).map(|pace| Pace { burst: pace.rate * GUARANTEE_LAG, ..pace });
            Branch {
                priority: class.priority,
                guarantee: guarantee.as_ref().map(Gate::new),
                ceiling: class.ceiling.and_then(own).as_ref().map(Gate::new),
                tag: 0,
                served: 0,
                backlogged: false,
                due: Instant::ZERO,
                guaranteed: Instant::ZERO,
            }
        };
        let classes: Vec<_> = plan.classes().iter().map(branch).collect();
        let mut tree = Self {
            link: plan.link().map(Gate::new),
            classes,
            lanes: Vec::new(),
            busy: Vec::new(),
            excess: 0,
        };
        lanes.into_iter().for_each(|(class, pace)| tree.add_lane(class, pace));
        tree
    }

    /// Adds a lane with the given class and pace.
    pub fn add_lane(&mut self, class: ClassIndex, pace: Option<Pace>) {
        self.lanes.push(Leaf {
            class: class.min(ClassIndex::new(self.classes.len() - 1)),
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
            if best.as_ref().is_none_or(|best| leaf.due.max(now) <= best.rank.0) {
                let candidate = self.candidate(*lane, wire, now);
                best = best.filter(|best| best.rank <= candidate.rank).or(Some(candidate));
            }
        }
        let Some(best) = best else { return Err(None) };
        let at = best.rank.0;
        if at > now + lead {
            self.busy.iter().for_each(|lane| self.lanes[*lane].held = true);
            let until = at.as_nanos() - u64::try_from(lead.as_nanos()).unwrap_or(u64::MAX).min(at.as_nanos());
            return Err(Some(Instant::from_nanos(until)));
        }
        Ok(self.permit(&best, at))
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
        // If the first train waits for the link or its class, the trains of other lanes wait for
        // these too, so a delay would only cost rate.
        if paced().map(|(due, ..)| due).min() != Some(until) {
            return until;
        }
        let latest = |(due, train, gate): (Instant, WireBytes, &Gate)| due + gate.slack(train).min(most);
        let by = paced().map(latest).min().unwrap_or(until);
        paced().map(|(due, ..)| due).filter(|due| *due <= by).max().unwrap_or(until)
    }

    /// Charges a lane for bytes that leave now without a permit, such as announcements. The lane's
    /// next trains leave later accordingly.
    pub fn charge_lane(&mut self, lane: LaneIndex, wire: WireBytes, now: Instant) {
        let Some(leaf) = self.lanes.get_mut(lane.get()) else { return };
        // A train that waits has earned tokens since it became ready.
        if let Some(gate) = &mut leaf.bucket {
            gate.spend(wire, now, leaf.train.map_or(now, |_| leaf.since));
        }
        leaf.tag += wire.line.count();
        let class = leaf.class;
        self.charge(class, wire, now);
    }

    /// Charges the link and a class for bytes that leave without a permit, such as control
    /// messages, so that other classes leave room for them.
    pub fn charge(&mut self, class: ClassIndex, wire: WireBytes, now: Instant) {
        let busy = self.classes.iter().any(|class| class.backlogged);
        let Some(branch) = self.classes.get_mut(class.get()) else { return };
        let since = if branch.backlogged { Instant::ZERO } else { now };
        if let Some(gate) = &mut branch.ceiling {
            gate.spend(wire, now, since);
        }
        if let Some(gate) = &mut branch.guarantee {
            gate.spend(wire, now, since);
        }
        if let Some(gate) = &mut self.link {
            gate.spend(wire, now, if busy { Instant::ZERO } else { now });
        }
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

    /// Updates which lanes and classes have something to send, and the earliest time at which each
    /// class could send.
    fn note_backlogs(&mut self, now: Instant, mut demand: impl FnMut(LaneIndex) -> Option<WireBytes>) {
        for class in &mut self.classes {
            class.due = Instant::FAR_FUTURE;
        }
        self.busy.retain(|lane| {
            let leaf = &mut self.lanes[*lane];
            let class = &mut self.classes[leaf.class];
            let train = demand(*lane);
            if train.is_some() && leaf.train.is_none() {
                leaf.since = now;
                leaf.tag = leaf.tag.max(class.served);
                if let Some(gate) = &mut leaf.bucket {
                    gate.bucket.wake(now);
                }
            }
            leaf.train = train;
            leaf.held &= train.is_some();
            if let Some(wire) = train {
                leaf.due = leaf.bucket.as_ref().map_or(leaf.since, |gate| gate.due(wire));
                class.due = class.due.min(leaf.due);
            }
            train.is_some()
        });
        debug_assert!(
            LaneIndex::all(self.lanes.len())
                .all(|lane| self.busy.binary_search(&lane).is_ok() || demand(lane).is_none()),
            "a lane has something to send that was not noted"
        );
        for class in &mut self.classes {
            let is = class.due < Instant::FAR_FUTURE;
            if is && !class.backlogged {
                class.tag = class.tag.max(self.excess);
                for gate in class.guarantee.iter_mut().chain(&mut class.ceiling) {
                    gate.bucket.wake(now);
                }
            }
            class.backlogged = is;
            class.guaranteed =
                class.guarantee.as_ref().map_or(Instant::ZERO, |gate| gate.bucket.due(Bytes::ZERO));
        }
    }

    fn candidate(&self, lane: LaneIndex, wire: WireBytes, now: Instant) -> Candidate {
        let leaf = &self.lanes[lane];
        let class = &self.classes[leaf.class];
        let due = |gate: &Option<Gate>| gate.as_ref().map_or(leaf.due, |gate| gate.due(wire));
        let due = leaf.due.max(due(&class.ceiling)).max(due(&self.link));
        let at = due.max(now);
        let borrows = class.guaranteed > at;
        let share = if borrows {
            class.tag.max(self.excess.saturating_sub(EXCESS_LAG))
        } else {
            class.guaranteed.as_nanos()
        };
        let tag = leaf.tag.max(class.served.saturating_sub(LANE_LAG));
        Candidate { rank: (at, borrows, class.priority, share, tag, due), lane, wire, due, borrows }
    }

    /// Charges the train of the selected lane, which departs at `at`, and returns the permit.
    fn permit(&mut self, candidate: &Candidate, at: Instant) -> Permit {
        let Candidate { lane, wire, due, borrows, .. } = *candidate;
        let first_due = self.classes.iter().map(|class| class.due).min().unwrap_or(at).min(at);
        let leaf = &mut self.lanes[lane];
        let class = &mut self.classes[leaf.class];
        let class_due = class.due.min(at);
        let mut forfeited = Duration::ZERO;
        if let Some(gate) = &mut leaf.bucket {
            forfeited = at.since(gate.bucket.due(Bytes::ZERO)).saturating_sub(gate.bucket.tolerance());
            gate.spend(wire, at, Instant::ZERO);
        }
        leaf.tag = leaf.tag.max(class.served.saturating_sub(LANE_LAG));
        class.served = class.served.max(leaf.tag);
        leaf.tag += wire.line.count();
        // Time before the first lane is due counts as idle for class and link, and is not caught
        // up.
        if let Some(gate) = &mut class.ceiling {
            gate.spend(wire, at, class_due);
        }
        if let Some(gate) = &mut self.link {
            gate.spend(wire, at, first_due);
        }
        if let Some(gate) = &mut class.guarantee {
            if borrows {
                class.tag = class.tag.max(self.excess.saturating_sub(EXCESS_LAG));
                self.excess = self.excess.max(class.tag);
                let share = wire.by(gate.measure) / gate.bucket.rate();
                class.tag = class.tag.saturating_add(u64::try_from(share.as_nanos()).unwrap_or(u64::MAX));
            } else {
                gate.spend(wire, at, class_due);
            }
        }
        let late = leaf.held.then(|| at.since(due));
        Permit { lane, at, late, forfeited }
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

#[cfg(test)]
mod tests;
