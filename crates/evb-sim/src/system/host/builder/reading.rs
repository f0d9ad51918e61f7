//! The builder's ends of its lanes: reading from them and writing to them.

use bytes::BytesMut;
use evb_core::{
    builder::{Noted, StreamReader},
    index::LaneIndex,
    lane::StreamFault,
};

use super::Running;
use crate::system::{
    failure::Failure,
    host::Surroundings,
    network::{Address, EndId},
};

/// A builder's end of a lane.
#[derive(Debug, Default)]
pub(super) struct BuilderLane {
    end: Option<EndId>,
    reader: StreamReader,
}

impl BuilderLane {
    pub(super) fn is_open(&self) -> bool {
        self.end.is_some()
    }

    fn close(&mut self, around: &mut Surroundings<'_>) {
        if let Some(end) = self.end.take() {
            around.network.abort(end);
        }
        *self = Self::default();
    }
}

impl Running {
    pub(super) fn open_lane(&mut self, lane: LaneIndex, end: EndId, around: &mut Surroundings<'_>) {
        self.lanes[lane].close(around);
        self.lanes[lane] = BuilderLane { end: Some(end), ..BuilderLane::default() };
        self.datagrams.open(lane, None);
    }

    pub(super) fn close_lane(&mut self, lane: LaneIndex, around: &mut Surroundings<'_>) {
        self.lanes[lane].close(around);
        self.datagrams.close(lane);
    }

    pub(super) fn read_lanes(&mut self, around: &mut Surroundings<'_>) -> Result<(), Failure> {
        if around.scenario.is_udp() {
            self.read_datagrams(around)?;
        }
        for lane in LaneIndex::all(self.lanes.len()) {
            let Some(end) = self.lanes[lane].end else { continue };
            if !around.scenario.is_udp() {
                let read = self.read_stream(lane, end, around);
                read.map_err(|what| Failure::protocol(format!("lane {lane} at a builder: {what}")))?;
            }
            if around.network.is_ended(end) {
                around.say(|| format!("lane {lane} was closed"));
                self.close_lane(lane, around);
                self.role.handle_lane_down(lane, &"it was closed", around.now());
            }
        }
        Ok(())
    }

    fn read_stream(
        &mut self,
        lane: LaneIndex,
        end: EndId,
        around: &mut Surroundings<'_>,
    ) -> Result<(), StreamFault> {
        let now = around.now();
        let (reader, core) = (&mut self.lanes[lane].reader, self.role.records());
        while let Some(mut arrived) = around.network.read(end) {
            let filled = reader.read_target(core, lane).read_from(&mut arrived);
            reader.filled(core, lane, filled, now)?;
        }
        Ok(())
    }

    fn read_datagrams(&mut self, around: &mut Surroundings<'_>) -> Result<(), Failure> {
        let now = around.now();
        let own = Address::of_builder(around.node);
        while let Some((from, datagram)) = around.network.receive(own) {
            let mut broken = Ok(());
            self.datagrams.receive(self.role.records(), from, [&datagram[..]], now, |noted| {
                if let Noted::Ended(lane, fault) = noted {
                    broken = Err(Failure::protocol(format!("lane {lane} at a builder: {fault}")));
                }
            });
            broken?;
        }
        Ok(())
    }

    /// Sends the pending records of a lane to its source.
    pub(super) fn write_lane(&mut self, lane: LaneIndex, around: &mut Surroundings<'_>) {
        if around.scenario.is_udp() {
            let mut datagram = BytesMut::new();
            if let Some(peer) = self.datagrams.write(self.role.records(), lane, around.now(), &mut datagram) {
                around.network.send(Address::of_builder(around.node), peer, datagram.freeze());
            }
        } else if let Some(end) = self.lanes[lane].end {
            self.role.records().write_records(lane, around.network.outgoing(end));
            around.network.flush(end);
        }
    }
}
