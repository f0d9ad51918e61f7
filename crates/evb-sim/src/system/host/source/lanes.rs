//! The source's ends of its lanes.

use bytes::BufMut as _;
use evb_core::{
    index::LaneIndex,
    session::{Dial, OPENING},
    source::DatagramEnd,
    time::Instant,
    wire::control::Welcome,
};
use evb_shaper::role::LanePath;

use super::{Running, Sent};
use crate::{
    stream::SourceStream,
    system::{
        failure::Failure,
        host::{
            Surroundings,
            line::{Answer, Greeted},
        },
        network::{Address, ConnectionKind, EndId},
        scenario,
    },
};

/// The state of the connection of a lane at its source.
#[derive(Debug, Default)]
pub(super) enum SourceLane {
    #[default]
    None,
    Greeted(Box<Greeted>),
    Up(Up),
}

/// The open connection of a lane.
#[derive(Clone, Copy, Debug)]
pub(super) struct Up {
    pub(super) end: EndId,
    /// Addresses of the source's and of the builder's datagram socket, if the lane uses datagrams.
    pub(super) sockets: Option<(Address, Address)>,
}

impl SourceLane {
    pub(super) fn up(&self) -> Option<Up> {
        match self {
            Self::Up(up) => Some(*up),
            Self::None | Self::Greeted(_) => None,
        }
    }

    pub(super) fn close(&mut self, around: &mut Surroundings<'_>) {
        match core::mem::take(self) {
            Self::None => {}
            Self::Greeted(greeted) => around.network.close(greeted.end),
            Self::Up(up) => {
                around.network.close(up.end);
                if let Some((own, _)) = up.sockets {
                    around.network.close_socket(own);
                }
            }
        }
    }

    pub(super) fn next_timeout(&self) -> Option<Instant> {
        match self {
            Self::Greeted(greeted) => Some(greeted.next_timeout()),
            Self::None | Self::Up(_) => None,
        }
    }
}

impl Running {
    pub(super) fn dial_lane(&mut self, lane: LaneIndex, dial: Dial, around: &mut Surroundings<'_>) {
        if self.lanes.len() <= lane.get() {
            self.lanes.resize_with(lane.get() + 1, SourceLane::default);
            self.sent.resize_with(lane.get() + 1, Sent::default);
            self.streams.resize_with(lane.get() + 1, SourceStream::default);
            self.datagrams.resize_with(lane.get() + 1, || DatagramEnd::new(scenario::DATAGRAM, None));
        }
        self.sent[lane] = Sent::default();
        self.streams[lane] = SourceStream::default();
        self.datagrams[lane] = DatagramEnd::new(scenario::DATAGRAM, None);
        self.lanes[lane].close(around);
        let greeted = Greeted::dial(dial, ConnectionKind::Lane, OPENING, around);
        self.lanes[lane] = SourceLane::Greeted(Box::new(greeted));
    }

    pub(super) fn poll_lanes(&mut self, around: &mut Surroundings<'_>) -> Result<(), Failure> {
        for lane in LaneIndex::all(self.lanes.len()) {
            if let SourceLane::Greeted(greeted) = &self.lanes[lane]
                && let Some(answer) = greeted.poll(ConnectionKind::Lane, around)?
            {
                self.handle_answer(lane, answer, around)?;
            }
            let Some(up) = self.lanes[lane].up() else { continue };
            match up.sockets {
                None => self.read_lane(lane, up.end, around)?,
                Some((own, _)) => self.read_datagrams(lane, own, around)?,
            }
            let is_silent = up.sockets.is_some() && self.role.core().is_silent(lane, around.now());
            if is_silent {
                self.lane_is_down(lane, "no datagrams get through", around);
            } else if around.network.is_ended(up.end) {
                self.lane_is_down(lane, "it was closed", around);
            }
        }
        Ok(())
    }

    fn handle_answer(
        &mut self,
        lane: LaneIndex,
        answer: Answer,
        around: &mut Surroundings<'_>,
    ) -> Result<(), Failure> {
        match answer {
            Answer::Refusal(refusal) => self.lane_is_down(lane, &refusal.detail, around),
            Answer::Failed(words) => self.lane_is_down(lane, words, around),
            Answer::Welcome(welcome) => self.begin(lane, &welcome, around)?,
        }
        Ok(())
    }

    fn begin(
        &mut self,
        lane: LaneIndex,
        welcome: &Welcome,
        around: &mut Surroundings<'_>,
    ) -> Result<(), Failure> {
        let SourceLane::Greeted(greeted) = core::mem::take(&mut self.lanes[lane]) else { return Ok(()) };
        let (mut sockets, mut path) = (None, None);
        if around.scenario.is_udp() {
            let association = greeted.dial.association(welcome).map_err(Failure::protocol)?;
            let round_trip = around.scenario.round_trip();
            path = Some(LanePath { association, round_trip, datagram: scenario::DATAGRAM });
            let node = scenario::node_of_address(&greeted.dial.address).unwrap_or_default();
            sockets = Some((around.network.open_socket(around.node), Address::of_builder(node)));
        }
        self.lanes[lane] = SourceLane::Up(Up { end: greeted.end, sockets });
        self.role.handle_lane_up(lane, welcome, path, around.now());
        if !self.role.core().is_lane_connected(lane) {
            let what = format!("lane {lane} does not begin where its builder says: {:?}", welcome.lane);
            return Err(Failure::protocol(what));
        }
        around.records.counts.lanes += 1;
        around.say(|| format!("lane {lane} to {} is up, {:?}", greeted.dial.address, welcome.lane));
        Ok(())
    }

    fn lane_is_down(&mut self, lane: LaneIndex, why: &str, around: &mut Surroundings<'_>) {
        around.say(|| format!("lane {lane} is down: {why}"));
        self.lanes[lane].close(around);
        self.role.handle_lane_down(lane, &why, around.now());
    }

    fn read_lane(
        &mut self,
        lane: LaneIndex,
        end: EndId,
        around: &mut Surroundings<'_>,
    ) -> Result<(), Failure> {
        let (core, reader) = (self.role.records(), &mut self.streams[lane].reader);
        while let Some(arrived) = around.network.read(end) {
            reader.read_target().put(arrived);
            let filled = reader.filled(core, lane);
            filled.map_err(|fault| Failure::protocol(format!("lane {lane}: {fault}")))?;
        }
        Ok(())
    }

    fn read_datagrams(
        &mut self,
        lane: LaneIndex,
        own: Address,
        around: &mut Surroundings<'_>,
    ) -> Result<(), Failure> {
        let now = around.now();
        while let Some((_, datagram)) = around.network.receive(own) {
            // A damaged datagram is ignored, and is later retransmitted like a lost one.
            let received = self.datagrams[lane].receive(self.role.records(), lane, &datagram, now);
            received.map_err(|fault| Failure::protocol(format!("lane {lane}: {fault}")))?;
        }
        Ok(())
    }
}
