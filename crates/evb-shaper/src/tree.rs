//! [`ClassTree`]: link, classes, lanes; who may send next, and when.

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

/// Classes of lanes on a link, each with a guaranteed rate, a ceiling and a priority; each lane has
/// a bucket of its own.
///
/// Link sharing is CBQ's (Floyd & Jacobson, 1995) by HTB's rules (Devera): a class within its
/// guarantee precedes all that borrow; the rate that the guarantees leave is shared by priority,
/// among equals in the ratio of the guarantees; no class exceeds a ceiling. Where HTB counts
/// tokens, this counts departure times ([`EdtBucket`]): instead of "not yet", the answer is a time.
/// Within a class, lanes share by start-time fair queueing (Goyal, Vin & Cheng, 1996): lanes that a
/// bucket holds below the fair share get all that it permits, the others equal parts of the rest.
///
/// Nothing idles that could send, unless its own bucket, its class's ceiling or the link holds it.
#[derive(Debug)]
pub struct ClassTree {
    link: Option<Gate>,
    classes: Vec<Branch>,
    lanes: Vec<Leaf>,
    /// Virtual time of the shared excess, in ns of each class's guarantee.
    excess: u64,
}

/// A train that may depart: the answer of [`ClassTree::poll`], already charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permit {
    /// Lane that may send.
    pub lane: LaneIndex,
    /// Departure time of the train.
    pub at: Instant,
    /// Delay of that departure after its time, if it waited for it; `None` if its lane was empty
    /// before.
    pub late: Option<Duration>,
    /// Part of that delay beyond its lane's burst, which is forfeited.
    pub forfeited: Duration,
}

/// A bucket, and the bytes that it counts.
#[derive(Debug)]
struct Gate {
    bucket: EdtBucket,
    measure: ByteMeasure,
}

#[derive(Debug)]
struct Branch {
    priority: u8,
    /// Without a link's limit, there is nothing to guarantee.
    guarantee: Option<Gate>,
    ceiling: Option<Gate>,
    /// Start tag of its next share of the excess.
    tag: u64,
    /// Virtual time of the sharing among its lanes, in bytes.
    served: u64,
    backlogged: bool,
    /// Time at which the first of its lanes could have sent, without ceiling and link.
    due: Instant,
    /// Time until which it borrows.
    guaranteed: Instant,
}

#[derive(Debug)]
struct Leaf {
    class: ClassIndex,
    bucket: Option<Gate>,
    /// Start tag, in bytes.
    tag: u64,
    /// Wire size of its next train, while it has something to send.
    train: Option<WireBytes>,
    /// Time since which it has something to send.
    since: Instant,
    /// Time at which the train could have departed by the lane's own bucket.
    due: Instant,
    /// Its trains have to wait for their times.
    held: bool,
}

/// Advantage in bytes that a lane which was held back for long may have over the others.
const LANE_LAG: u64 = 1 << 18;
/// Advantage in the excess that a class may have, in ns of its guarantee.
const EXCESS_LAG: u64 = 10_000_000;
/// Advantage that a class which others kept waiting may have, as time of its guarantee: longer than
/// any train on any link.
const GUARANTEE_LAG: Duration = Duration::from_millis(100);

/// Rank of a lane that wants to send; the lowest goes first. The fields are compared from the left:
/// departure time, true if it exceeds its class's guarantee, priority, share of the class, share of
/// the lane, and the time at which it became due.
type Rank = (Instant, bool, u8, u64, u64, Instant);

struct Candidate {
    rank: Rank,
    lane: LaneIndex,
    wire: WireBytes,
    due: Instant,
    borrows: bool,
}

impl ClassTree {
    /// `lanes` says each lane's class, as an index into the plan, and its pace.
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
        let mut tree = Self { link: plan.link().map(Gate::new), classes, lanes: Vec::new(), excess: 0 };
        lanes.into_iter().for_each(|(class, pace)| tree.add_lane(class, pace));
        tree
    }

    /// One lane more, of that class and pace.
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

    /// Returns the next train that departs by `now + lead`, charged; or the time to ask again, if a
    /// bucket holds one. `demand` returns the wire size of a lane's next train, or `None` where it
    /// has nothing to send.
    ///
    /// # Errors
    /// When the first train that is held may be handed out; `None` if there is none.
    pub fn poll(
        &mut self,
        now: Instant,
        lead: Duration,
        demand: impl FnMut(LaneIndex) -> Option<WireBytes>,
    ) -> Result<Permit, Option<Instant>> {
        self.note_backlogs(now, demand);
        let mut best: Option<Candidate> = None;
        for (lane, leaf) in self.lanes.iter().enumerate() {
            let Some(wire) = leaf.train else { continue };
            if best.as_ref().is_none_or(|best| leaf.due.max(now) <= best.rank.0) {
                let candidate = self.candidate(LaneIndex::new(lane), wire, now);
                best = best.filter(|best| best.rank <= candidate.rank).or(Some(candidate));
            }
        }
        let Some(best) = best else { return Err(None) };
        let at = best.rank.0;
        if at > now + lead {
            self.lanes.iter_mut().for_each(|leaf| leaf.held = leaf.train.is_some());
            let until = at.as_nanos() - u64::try_from(lead.as_nanos()).unwrap_or(u64::MAX).min(at.as_nanos());
            return Err(Some(Instant::from_nanos(until)));
        }
        Ok(self.permit(&best, at))
    }

    /// Returns the time to ask again instead of at `until`, which [`poll`](Self::poll) returned, so
    /// that lanes whose times follow shortly share the same wake-up: the time of the last such
    /// lane. No train waits longer than `most`, nor longer than half its time on the line or half
    /// of the time that its burst pays for beside it, so no rate is lost. A lane alone is never
    /// late for this.
    pub fn joined(&self, until: Instant, most: Duration) -> Instant {
        let paced =
            || self.lanes.iter().filter_map(|leaf| Some((leaf.due, leaf.train?, leaf.bucket.as_ref()?)));
        // Where link or class hold the first train, the others wait for them as well.
        if paced().map(|(due, ..)| due).min() != Some(until) {
            return until;
        }
        let latest = |(due, train, gate): (Instant, WireBytes, &Gate)| due + gate.slack(train).min(most);
        let by = paced().map(latest).min().unwrap_or(until);
        paced().map(|(due, ..)| due).filter(|due| *due <= by).max().unwrap_or(until)
    }

    /// Charges a lane for bytes that go now without a permit: its announcements. The trains that
    /// follow pay for them.
    pub fn charge_lane(&mut self, lane: LaneIndex, wire: WireBytes, now: Instant) {
        let Some(leaf) = self.lanes.get_mut(lane.get()) else { return };
        if let Some(gate) = &mut leaf.bucket {
            gate.spend(wire, now, leaf.train.map_or(now, |_| leaf.since));
        }
        leaf.tag += wire.line.count();
        let class = leaf.class;
        self.charge(class, wire, now);
    }

    /// Charges bytes of a class that has no lanes here and asks no permit, such as control
    /// messages: link and class are charged, so that the others leave room.
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

    /// Gives a lane another rate; `None` frees it.
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

    /// Notes the lanes and classes that begin or end to have something to send, and the time at
    /// which each class could first send it.
    fn note_backlogs(&mut self, now: Instant, mut demand: impl FnMut(LaneIndex) -> Option<WireBytes>) {
        for class in &mut self.classes {
            class.due = Instant::FAR_FUTURE;
        }
        for (index, leaf) in self.lanes.iter_mut().enumerate() {
            let class = &mut self.classes[leaf.class];
            let train = demand(LaneIndex::new(index));
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
        }
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

    /// Charges what departs.
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
        // A parent that idles until its first child is due is not late.
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

    /// Returns the time that a train may wait beyond its own for the sake of others.
    fn slack(&self, train: WireBytes) -> Duration {
        let on_the_line = train.by(self.measure) / self.bucket.rate();
        on_the_line.min(self.bucket.tolerance().saturating_sub(on_the_line)) / 2
    }

    /// Those bytes depart at `at`; before `first` there was nothing to send.
    fn spend(&mut self, wire: WireBytes, at: Instant, first: Instant) {
        self.bucket.wake(first);
        self.bucket.spend(wire.by(self.measure), at);
    }
}

#[cfg(test)]
mod tests;
