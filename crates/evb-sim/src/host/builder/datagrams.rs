//! The builder's end of lanes over datagrams.

use bytes::BytesMut;
use evb_core::{index::LaneIndex, lane::RecoveryCounters, time::Instant, wire::datagram::DatagramHeader};

use super::BuilderHost;
use crate::network::{Network, SocketIndex};

impl BuilderHost {
    /// Returns the sum of the recovery counters of all lanes.
    pub(crate) fn recovery(&mut self) -> RecoveryCounters {
        let mut sum = RecoveryCounters::default();
        for lane in LaneIndex::all(self.lanes.len()) {
            sum += self.core.datagram_counters(lane).recovery;
        }
        sum
    }

    pub(super) fn read_datagrams(
        &mut self,
        lane: LaneIndex,
        socket: SocketIndex,
        network: &mut Network,
        now: Instant,
    ) -> Result<(), String> {
        while let Some(datagram) = network.receive(socket) {
            let Ok((header, body)) = DatagramHeader::open(&datagram) else {
                network.datagram_counters().refused += 1;
                continue;
            };
            let outcome = self.core.handle_datagram(lane, &header, body, now);
            outcome.map_err(|fault| fault.to_string())?;
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
        let mut datagram = BytesMut::new();
        self.core.write_datagram(lane, now, &mut datagram);
        network.send(socket, datagram.freeze());
    }
}
