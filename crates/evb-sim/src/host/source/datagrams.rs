//! The source's end of lanes over datagrams.

use core::time::Duration;

use evb_core::{
    index::LaneIndex, lane::Unbelieved, source::DatagramEnd, time::Instant, wire::datagram::Association,
};
use evb_shaper::Departure;

use super::SourceHost;
use crate::network::{Network, SocketIndex};

impl SourceHost {
    /// Begins the association of a lane, with datagrams of at most `datagram` bytes.
    pub(crate) fn associate(
        &mut self,
        lane: LaneIndex,
        association: Association,
        estimate: Option<Duration>,
        datagram: usize,
    ) {
        self.core.core_mut().associate(lane, association, estimate, datagram);
        self.datagrams.resize_with(self.lanes.len(), || DatagramEnd::new(datagram, None));
    }

    pub(super) fn read_datagrams(
        &mut self,
        lane: LaneIndex,
        socket: SocketIndex,
        network: &mut Network,
        now: Instant,
    ) -> Result<(), String> {
        while let Some(datagram) = network.receive(socket) {
            match self.datagrams[lane].receive(self.core.core_mut(), lane, &datagram, now) {
                Ok(None) => {}
                Ok(Some(Unbelieved::Datagram(_))) => network.datagram_counters().refused += 1,
                Ok(Some(other)) => return Err(format!("lane {lane}: a datagram is ignored: {other}")),
                Err(fault) => return Err(format!("lane {lane}: {fault}")),
            }
        }
        Ok(())
    }

    pub(super) fn send_records(
        &mut self,
        lane: LaneIndex,
        socket: SocketIndex,
        network: &mut Network,
        now: Instant,
    ) {
        self.core.announce_in_datagram(lane, now, &mut self.datagrams[lane]);
        self.flush_datagrams(lane, socket, network);
    }

    /// Sends a train of segments, each in its own datagram.
    pub(super) fn depart_in_segments(
        &mut self,
        departure: &Departure,
        socket: SocketIndex,
        network: &mut Network,
    ) -> Result<(), String> {
        let Departure { lane, ref range, request, at } = *departure;
        let covered = self.core.core().pieces(lane, range.clone(), usize::MAX, |_| ());
        if request == 0 && covered < range.end - range.start {
            return Err(format!("lane {lane} has no bytes at {}, to be sent", range.start + covered));
        }
        self.datagrams[lane].send(range.clone(), request, at);
        self.flush_datagrams(lane, socket, network);
        Ok(())
    }

    fn flush_datagrams(&mut self, lane: LaneIndex, socket: SocketIndex, network: &mut Network) {
        for datagram in self.datagrams[lane].send_all(self.core.core_mut(), lane) {
            network.send(socket, datagram.into());
        }
    }
}
