//! The builder's end of lanes over datagrams.

use core::time::Duration;

use bytes::BytesMut;
use evb_core::{
    builder::Noted,
    index::LaneIndex,
    lane::{RecoveryCounters, Unbelieved},
    time::Instant,
    units::Bytes,
    wire::datagram::Association,
};

use super::BuilderHost;
use crate::network::{Network, SocketIndex};

impl BuilderHost {
    /// Begins the association of a lane.
    pub(crate) fn associate(
        &mut self,
        lane: LaneIndex,
        association: Association,
        estimate: Option<Duration>,
        reassembly: Bytes,
    ) {
        self.core.associate(lane, association, estimate, reassembly, Instant::ZERO);
        self.datagrams.open(lane, None);
    }

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
        socket: SocketIndex,
        network: &mut Network,
        now: Instant,
    ) -> Result<(), String> {
        while let Some(datagram) = network.receive(socket) {
            let mut outcome = Ok(());
            self.datagrams.receive(&mut self.core, socket, [&datagram[..]], now, |noted| match noted {
                Noted::Ignored(Unbelieved::Datagram(_)) => network.datagram_counters().refused += 1,
                Noted::Ignored(other) => outcome = Err(format!("a datagram is ignored: {other}")),
                Noted::Ended(_, fault) => outcome = Err(fault.to_string()),
            });
            outcome?;
        }
        Ok(())
    }

    pub(super) fn send_records(&mut self, lane: LaneIndex, network: &mut Network, now: Instant) {
        let mut datagram = BytesMut::new();
        if let Some(socket) = self.datagrams.write(&mut self.core, lane, now, &mut datagram) {
            network.send(socket, datagram.freeze());
        }
    }
}
