//! [`PacedSource`]: a source whose departures are spaced.

use core::{ops::Range, time::Duration};

use bytes::BytesMut;
use evb_core::{
    id::{BuilderId, Incarnation},
    index::{ClassIndex, LaneIndex},
    lane::{Request, Taken},
    source::SourceCore,
    time::{Instant, earlier},
    units::Bytes,
    wire::{
        control::{Control, MalformedMessage, Message, Report, RoleReport, TrainReport},
        datagram::DATAGRAM_HEADER,
    },
};

use crate::{
    cost::{PacketCost, WireBytes},
    lateness::Lateness,
    pace::Pace,
    pacing::Pacing,
    tree::ClassTree,
};

/// Lane bytes that depart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Departure {
    /// Index of the lane.
    pub lane: LaneIndex,
    /// Lane offsets.
    pub range: Range<u64>,
    /// 0 if these bytes depart for the first time, else the number of the builder's request.
    pub request: Request,
    /// Time of departure: now, or up to [`Pacing::lead`] later.
    pub at: Instant,
}

/// Counters of a source's adherence to its paces.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PacingCounters {
    /// Trains.
    pub departures: u64,
    /// Lateness of the departures that had to wait for their time.
    pub lateness: Lateness,
    /// Lateness beyond the allowance of the burst, over all lanes: that much time of a lane's rate
    /// is lost.
    pub forfeited: Duration,
    /// Bytes that departed, records' headers and announcements included.
    pub wire: WireBytes,
}

/// [`SourceCore`] with the lanes served in turn and, if configured, paced; both production and
/// simulator drive it.
///
/// All bytes of a lane are paid for at its pace: a train's record header, the packet that it does
/// not fill, and its announcements, which are never held back, with the packets that they need.
#[derive(Debug)]
pub struct PacedSource {
    core: SourceCore,
    pacing: Pacing,
    tree: ClassTree,
    lanes: Vec<Lane>,
    counters: PacingCounters,
    /// Time at which the earliest lane that was held back may go, and those that go with it.
    held_until: Option<Instant>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Lane {
    /// The most lane bytes of one train; `None`: unpaced.
    train: Option<u64>,
    /// Stream bytes of announcements that are not paid for yet.
    announced: u64,
}

impl PacedSource {
    /// Spaces what departs from `core`.
    pub fn new(core: SourceCore, pacing: Pacing) -> Self {
        let pace = |lane| pacing.lanes.get(lane).copied().flatten();
        let count = core.lane_count();
        let lanes =
            (0..count).map(|lane| Lane { train: pacing.train(pace(lane).as_ref()), announced: 0 }).collect();
        let tree = ClassTree::new(&pacing.link, (0..count).map(|lane| (DATA, pace(lane))));
        Self { core, pacing, tree, lanes, counters: PacingCounters::default(), held_until: None }
    }

    /// The next bytes to depart; `None` when there are none, or all are held back.
    pub fn poll_departure(&mut self, now: Instant) -> Option<Departure> {
        let (core, lanes, cost) = (&self.core, &self.lanes, &self.pacing.cost);
        let demand = |lane: LaneIndex| {
            let length = lanes[lane].next(lane.get(), core, cost);
            (length > 0).then(|| lanes[lane].wire(length, cost))
        };
        let permit = match self.tree.poll(now, self.pacing.lead, demand) {
            Ok(permit) => permit,
            Err(until) => {
                self.held_until = until.map(|until| self.tree.joined(until, self.pacing.join()));
                self.charge_announcements(now);
                return None;
            }
        };
        self.held_until = None;
        let lane = &mut self.lanes[permit.lane];
        let length = lane.next(permit.lane.get(), &self.core, &self.pacing.cost);
        let Taken { range, request } = self.core.take(permit.lane, length)?;
        self.counters.count(lane.wire(length, &self.pacing.cost));
        lane.announced = 0;
        self.counters.departures += 1;
        self.counters.forfeited += permit.forfeited;
        if let Some(late) = permit.late {
            self.counters.lateness.record(late);
        }
        Some(Departure { lane: permit.lane, range, request, at: permit.at })
    }

    /// Appends announcements to a lane's stream: [`SourceCore::announce`], paid for by the lane.
    pub fn announce(&mut self, lane: LaneIndex, now: Instant, into: &mut BytesMut) {
        let before = into.len();
        self.core.announce(lane, now, into);
        self.lanes[lane].announced += (into.len() - before) as u64;
    }

    /// Appends one datagram of records of a lane, as [`SourceCore::write_datagram`] does; the lane
    /// pays for it.
    pub fn write_datagram(&mut self, lane: LaneIndex, now: Instant, into: &mut BytesMut) {
        let before = into.len();
        self.core.write_datagram(lane, now, into);
        self.lanes[lane].announced += ((into.len() - before) as u64).saturating_sub(DATAGRAM_HEADER as u64);
    }

    /// Charges another class of the link for that many bytes that leave now, in one write to a TCP
    /// connection; see [`Pacing::link`].
    pub fn charge(&mut self, class: ClassIndex, stream: Bytes, now: Instant) {
        self.tree.charge(class, self.pacing.cost.over_tcp().wire(stream), now);
    }

    /// Takes a roster, as [`SourceCore::handle_roster`] does; `pace` returns that of the lane of a
    /// new builder.
    ///
    /// # Errors
    /// The roster cannot be.
    pub fn handle_roster(
        &mut self,
        builders: &[(BuilderId, Incarnation)],
        pace: impl Fn(BuilderId) -> Option<Pace>,
    ) -> Result<(), MalformedMessage> {
        self.core.handle_roster(builders)?;
        // Those that are new stand in the roster's order.
        for (builder, _) in builders {
            if self.core.lane_index(*builder) == Some(LaneIndex::new(self.lanes.len())) {
                let pace = pace(*builder);
                self.lanes.push(Lane { train: self.pacing.train(pace.as_ref()), announced: 0 });
                self.tree.add_lane(DATA, pace);
            }
        }
        Ok(())
    }

    /// Gives a lane another pace; `None` frees it.
    pub fn set_pace(&mut self, lane: LaneIndex, pace: Option<Pace>, now: Instant) {
        let Some(of_lane) = self.lanes.get_mut(lane.get()) else { return };
        of_lane.train = self.pacing.train(pace.as_ref());
        self.tree.set_pace(lane, pace, now);
    }

    /// Returns the time of the next action that needs no further input.
    pub fn next_timeout(&self) -> Option<Instant> {
        earlier(self.core.next_timeout(), self.held_until)
    }

    /// The final counters, for the supervisor: the machine's, and how well paces were kept.
    pub fn report(&self, tcp_retransmits: u64, trains: Option<TrainReport>) -> Control {
        let mut control = self.core.report(tcp_retransmits, trains);
        if let Some(Message::Report(Report { report: Some(RoleReport::Source(own)), .. })) =
            &mut control.message
        {
            let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
            let late = &self.counters.lateness;
            own.departures = self.counters.departures;
            own.late_p50_ns = nanos(late.quantile(0.5));
            own.late_p99_ns = nanos(late.quantile(0.99));
            own.late_max_ns = nanos(late.max());
            own.forfeited_ns = nanos(self.counters.forfeited);
        }
        control
    }

    /// The machine behind the paces, for those who look.
    pub fn core(&self) -> &SourceCore {
        &self.core
    }

    /// Returns the machine behind the paces, for its inputs, and for lane bytes that departed.
    /// Departures come from [`Self::poll_departure`], announcements from [`Self::announce`] and
    /// [`Self::write_datagram`].
    pub fn core_mut(&mut self) -> &mut SourceCore {
        &mut self.core
    }

    /// Returns the counters so far.
    pub fn counters(&self) -> &PacingCounters {
        &self.counters
    }

    /// Returns the settings by which departures are spaced.
    pub fn pacing(&self) -> &Pacing {
        &self.pacing
    }

    /// Announcements that go without data, in packets of their own, now that no more data goes.
    fn charge_announcements(&mut self, now: Instant) {
        for (index, lane) in self.lanes.iter_mut().enumerate().filter(|(_, lane)| lane.announced > 0) {
            let wire = self.pacing.cost.wire(Bytes::new(core::mem::take(&mut lane.announced)));
            self.tree.charge_lane(LaneIndex::new(index), wire, now);
            self.counters.count(wire);
        }
    }
}

/// The class of the lanes: the link's first.
const DATA: ClassIndex = ClassIndex::new(0);

/// Lane bytes that an unpaced lane is handed at a time, approximately, before the next lane has its
/// turn.
const TURN: u64 = 1 << 20;

impl Lane {
    /// Returns the lane bytes of its next train, of those that it may send; `index` is that lane of
    /// `core`. Announcements go in front, in a stream in the same packets.
    fn next(&self, index: usize, core: &SourceCore, cost: &PacketCost) -> u64 {
        let Some(train) = self.train else { return core.sendable_whole(LaneIndex::new(index), TURN) };
        let in_front = if cost.announcements_join() { self.announced } else { 0 };
        let rest = train.checked_sub(in_front).filter(|rest| *rest > 0);
        core.sendable(LaneIndex::new(index)).min(rest.unwrap_or(train))
    }

    /// Returns the wire size of a train of that many lane bytes, with its announcements.
    fn wire(&self, length: u64, cost: &PacketCost) -> WireBytes {
        cost.train_wire(Bytes::new(self.announced), Bytes::new(length))
    }
}

impl PacingCounters {
    fn count(&mut self, wire: WireBytes) {
        self.wire = self.wire + wire;
    }
}

#[cfg(test)]
mod tests;
