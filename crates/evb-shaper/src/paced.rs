//! [`PacedSource`]: a source that sends its lane bytes at configured paces.

use core::{ops::Range, time::Duration};

use bytes::BytesMut;
use evb_core::{
    id::{BuilderId, Incarnation},
    index::LaneIndex,
    lane::{Request, Taken},
    source::{DatagramEnd, SourceCore},
    time::{Instant, earlier},
    units::Bytes,
    wire::control::{Control, MalformedMessage, Message, Report, RoleReport, TrainReport},
};

use crate::{
    cost::{PacketCost, WireBytes},
    lateness::Lateness,
    pace::Pace,
    pacing::Pacing,
    shared_link::SharedLink,
};

/// A range of lane bytes that may be sent, and its departure time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Departure {
    /// Index of the lane.
    pub lane: LaneIndex,
    /// Lane offsets of the bytes.
    pub range: Range<u64>,
    /// 0 if the bytes are sent for the first time, else the number of the builder's request for a
    /// retransmission.
    pub request: Request,
    /// Time at which the bytes are to leave: now, or up to [`Pacing::lead`] later.
    pub at: Instant,
}

/// Counters that tell how well a source has kept its paces.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PacingCounters {
    /// Number of packet trains sent.
    pub departures: u64,
    /// Lateness of the trains that had to wait for their departure time.
    pub lateness: Lateness,
    /// Sum over all lanes of the lateness that the burst could not make up for. The bytes that a
    /// lane could have sent in this time are lost to its rate.
    pub forfeited: Duration,
    /// Wire size of all bytes sent, including record headers and announcements.
    pub wire: WireBytes,
}

/// A [`SourceCore`] whose lanes are served in turn and, if configured, paced. Both production and
/// the simulator use this type.
///
/// The pace of a lane counts all bytes that the lane causes on the wire: record headers, packet
/// headers (also of packets that are not full), and announcements. Announcements are never held
/// back, but delay the data that follow.
#[derive(Debug)]
pub struct PacedSource {
    core: SourceCore,
    pacing: Pacing,
    link: SharedLink,
    lanes: Vec<Lane>,
    counters: PacingCounters,
    /// Time at which the earliest of the lanes that wait for their departure time may send; perhaps
    /// a little later, so that others can send at the same wake-up.
    held_until: Option<Instant>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Lane {
    /// The largest number of lane bytes in one train; `None` for an unpaced lane.
    train: Option<u64>,
    /// Stream bytes of announcements that were sent and are not charged to the pace yet.
    announced: u64,
}

impl PacedSource {
    /// Creates a source that sends the bytes of `core` at the paces of `pacing`.
    pub fn new(core: SourceCore, pacing: Pacing) -> Self {
        let pace = |lane| pacing.lanes.get(lane).copied().flatten();
        let count = core.lane_count();
        let lanes =
            (0..count).map(|lane| Lane { train: pacing.train(pace(lane).as_ref()), announced: 0 }).collect();
        let link = SharedLink::new(&pacing.link, (0..count).map(pace));
        Self { core, pacing, link, lanes, counters: PacingCounters::default(), held_until: None }
    }

    /// Returns the next bytes to send. Returns `None` if there are no bytes to send, or if all wait
    /// for their departure time.
    pub fn poll_departure(&mut self, now: Instant) -> Option<Departure> {
        while let Some(lane) = self.core.take_permitted() {
            self.link.note_news(lane);
        }
        let (core, lanes, cost) = (&self.core, &self.lanes, &self.pacing.cost);
        let demand = |lane: LaneIndex| {
            let length = lanes[lane].next(lane.get(), core, cost);
            (length > 0).then(|| lanes[lane].wire(length, cost))
        };
        let permit = match self.link.poll(now, self.pacing.lead, demand) {
            Ok(permit) => permit,
            Err(until) => {
                self.held_until = until.map(|until| self.link.joined(until, self.pacing.join()));
                self.charge_announcements(now);
                return None;
            }
        };
        self.held_until = None;
        let lane = &mut self.lanes[permit.lane];
        let length = lane.next(permit.lane.get(), &self.core, &self.pacing.cost);
        let Taken { range, request } = self.core.take(permit.lane, length)?;
        self.counters.count(lane.wire(length, &self.pacing.cost));
        // Announcements that waited leave with these bytes, and are charged with them.
        lane.announced = 0;
        self.counters.departures += 1;
        self.counters.forfeited += permit.forfeited;
        if let Some(late) = permit.late {
            self.counters.lateness.record(late);
        }
        Some(Departure { lane: permit.lane, range, request, at: permit.at })
    }

    /// Appends announcements to a lane's stream, as [`SourceCore::announce`] does, and charges them
    /// to the lane's pace.
    pub fn announce(&mut self, lane: LaneIndex, now: Instant, into: &mut BytesMut) {
        let before = into.len();
        self.core.announce(lane, now, into);
        self.lanes[lane].announced += (into.len() - before) as u64;
    }

    /// Queues one datagram of records of a lane, as [`DatagramEnd::announce`] does, and charges it
    /// to the lane's pace.
    pub fn announce_in_datagram(&mut self, lane: LaneIndex, now: Instant, end: &mut DatagramEnd) {
        self.lanes[lane].announced += end.announce(&mut self.core, lane, now) as u64;
    }

    /// Charges the link with bytes that leave now in one write to another TCP connection, such as
    /// that to the supervisor; see [`Pacing::link`].
    pub fn charge_link(&mut self, stream: Bytes, now: Instant) {
        self.link.charge_link(self.pacing.cost.over_tcp().wire(stream), now);
    }

    /// Handles a roster as [`SourceCore::handle_roster`] does; `pace` returns the pace of the lane
    /// to a new builder.
    ///
    /// # Errors
    /// Returns [`MalformedMessage`] if the roster is invalid.
    pub fn handle_roster(
        &mut self,
        builders: &[(BuilderId, Incarnation)],
        pace: impl Fn(BuilderId) -> Option<Pace>,
    ) -> Result<(), MalformedMessage> {
        self.core.handle_roster(builders)?;
        // The core adds the lanes of new builders in the order of the roster.
        for (builder, _) in builders {
            if self.core.lane_index(*builder) == Some(LaneIndex::new(self.lanes.len())) {
                let pace = pace(*builder);
                self.lanes.push(Lane { train: self.pacing.train(pace.as_ref()), announced: 0 });
                self.link.add_lane(pace);
            }
        }
        Ok(())
    }

    /// Gives a lane another pace; with `None`, the lane is not paced any more.
    pub fn set_pace(&mut self, lane: LaneIndex, pace: Option<Pace>, now: Instant) {
        let Some(of_lane) = self.lanes.get_mut(lane.get()) else { return };
        of_lane.train = self.pacing.train(pace.as_ref());
        self.link.set_pace(lane, pace, now);
    }

    /// Returns the time of the next action that needs no further input.
    pub fn next_timeout(&self) -> Option<Instant> {
        earlier(self.core.next_timeout(), self.held_until)
    }

    /// Returns the last report to the supervisor: the counters of the source, and of how well it
    /// kept its paces.
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

    /// Returns the source without the pacing, for observers.
    pub fn core(&self) -> &SourceCore {
        &self.core
    }

    /// Returns the source without the pacing, to hand in its inputs and to get the content of lane
    /// bytes to send. Do not take departures and announcements from it: call
    /// [`Self::poll_departure`], [`Self::announce`] and [`Self::announce_in_datagram`] instead.
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

    /// Charges announcements that leave without data, in packets of their own, to their lanes.
    fn charge_announcements(&mut self, now: Instant) {
        for (index, lane) in self.lanes.iter_mut().enumerate().filter(|(_, lane)| lane.announced > 0) {
            let wire = self.pacing.cost.wire(Bytes::new(core::mem::take(&mut lane.announced)));
            self.link.charge_lane(LaneIndex::new(index), wire, now);
            self.counters.count(wire);
        }
    }
}

/// Approximate number of lane bytes that an unpaced lane may send before the next lane has its
/// turn.
const TURN: u64 = 1 << 20;

impl Lane {
    /// Returns the number of lane bytes in the next train of this lane, which is the lane `index`
    /// of `core`. Over TCP, announcements go in front of the train in the same packets, and leave
    /// less room for lane bytes.
    fn next(&self, index: usize, core: &SourceCore, cost: &PacketCost) -> u64 {
        let Some(train) = self.train else { return core.sendable_whole(LaneIndex::new(index), TURN) };
        let in_front = if cost.announcements_join() { self.announced } else { 0 };
        let rest = train.checked_sub(in_front).filter(|rest| *rest > 0);
        core.sendable(LaneIndex::new(index)).min(rest.unwrap_or(train))
    }

    /// Returns the wire size of a train of `length` lane bytes, with the announcements in front of
    /// it.
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
