//! The builder's ends of its lanes: reading from them and writing to them.

use bytes::BytesMut;
use evb_core::{
    builder::StreamReader,
    index::LaneIndex,
    lane::{DatagramFault, StreamFault},
    wire::datagram::DatagramHeader,
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
    /// Address from which the datagrams of the lane come.
    peer: Option<Address>,
}

impl BuilderLane {
    pub(super) fn open(end: EndId) -> Self {
        Self { end: Some(end), ..Self::default() }
    }

    pub(super) fn is_open(&self) -> bool {
        self.end.is_some()
    }

    pub(super) fn close(&mut self, around: &mut Surroundings<'_>) {
        if let Some(end) = self.end.take() {
            around.network.abort(end);
        }
        *self = Self::default();
    }
}

impl Running {
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
                self.lanes[lane].close(around);
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
            let Ok((header, body)) = DatagramHeader::open(&datagram) else { continue };
            let sources = &self.role.core().config().sources;
            let known = sources.binary_search(&header.association.source).ok();
            let known = known.filter(|lane| {
                self.role.core().association(LaneIndex::new(*lane)) == Some(header.association)
            });
            let Some(lane) = known.filter(|lane| self.lanes[*lane].is_open()) else { continue };
            self.lanes[lane].peer.get_or_insert(from);
            match self.role.records().handle_datagram(LaneIndex::new(lane), &header, body, now) {
                Ok(()) | Err(DatagramFault::Stale) => {}
                Err(fault) => {
                    return Err(Failure::protocol(format!("lane {lane} at a builder: {fault}")));
                }
            }
        }
        Ok(())
    }

    /// Sends the pending records of a lane to its source.
    pub(super) fn write_lane(&mut self, lane: LaneIndex, around: &mut Surroundings<'_>) {
        let BuilderLane { end, peer, .. } = &self.lanes[lane];
        if around.scenario.is_udp() {
            let mut datagram = BytesMut::new();
            self.role.records().write_datagram(lane, around.now(), &mut datagram);
            if let (Some(peer), false) = (*peer, datagram.is_empty()) {
                let own = Address::of_builder(around.node);
                around.network.send(own, peer, datagram.freeze());
            }
        } else if let Some(end) = *end {
            self.role.records().write_records(lane, around.network.outgoing(end));
            around.network.flush(end);
        }
    }
}
