//! The builder's end of lanes over datagrams.

use bytes::BytesMut;
use evb_core::{
    index::LaneIndex,
    lane::RecoveryCounters,
    time::Instant,
    wire::{
        datagram::{DATAGRAM_HEADER, DatagramHeader, DatagramKind},
        record::{ANNOUNCEMENT, Announcement, RecordHeader, next_record},
    },
};

use super::{BuilderHost, check_grant};
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
            if header.kind == DatagramKind::Records {
                self.note_announced(lane, body)?;
            }
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
    ) -> Result<(), String> {
        let mut datagram = BytesMut::new();
        self.core.write_datagram(lane, now, &mut datagram);
        if datagram.len() < DATAGRAM_HEADER {
            return Err("a datagram without a header".to_owned());
        }
        check_grant(&datagram[DATAGRAM_HEADER..], self.lanes[lane].announced)?;
        network.send(socket, datagram.freeze());
        Ok(())
    }

    /// Counts announced bytes, unless earlier announcements are missing.
    fn note_announced(&mut self, lane: LaneIndex, mut body: &[u8]) -> Result<(), String> {
        let announced = &mut self.lanes[lane].announced;
        while let Some((record, items)) = next_record(&mut body).map_err(|error| error.to_string())? {
            if let RecordHeader::Announce { offset, .. } = record
                && offset <= *announced
            {
                let (items, _) = items.as_chunks::<ANNOUNCEMENT>();
                let length: u64 = items.iter().map(|item| Announcement::decode(item).lane_length()).sum();
                *announced = (*announced).max(offset + length);
            }
        }
        Ok(())
    }
}
