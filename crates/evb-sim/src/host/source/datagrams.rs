//! The source's end of lanes over datagrams.

use std::io::IoSlice;

use bytes::BytesMut;
use evb_core::{
    index::LaneIndex,
    time::Instant,
    wire::datagram::{DATAGRAM_HEADER, DatagramHeader},
};
use evb_shaper::Departure;

use super::SourceHost;
use crate::network::{Network, SocketIndex};

impl SourceHost {
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
            let outcome = self.core.core_mut().handle_datagram(lane, &header, body, now);
            outcome.map_err(|fault| format!("lane {lane}: {fault}"))?;
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
        if !datagram.is_empty() {
            network.send(socket, datagram.freeze());
        }
    }

    /// Sends a train of segments, each in its own datagram.
    pub(super) fn depart_in_segments(
        &mut self,
        departure: &Departure,
        socket: SocketIndex,
        network: &mut Network,
    ) -> Result<(), String> {
        let Departure { lane, ref range, request, .. } = *departure;
        let segment = self.core.pacing().cost.packet_payload().count();
        let sealing = self.core.core_mut().sealing(lane, request).ok_or("a train without an association")?;
        let (mut start, mut sent) = (range.start, 0);
        while start < range.end {
            let end = range.end.min(start + segment);
            let mut slices = Vec::<IoSlice<'_>>::with_capacity(2 * segment as usize);
            let covered = self.core.core().gather(lane, start..end, &mut slices);
            if covered < end - start && request == 0 {
                return Err(format!("lane {lane} has no bytes at {}, to be sent", start + covered));
            }
            if covered > 0 {
                let header = sealing.header(sent, start).seal(slices.iter().map(|slice| &**slice));
                let mut datagram = BytesMut::with_capacity(DATAGRAM_HEADER + segment as usize);
                datagram.extend_from_slice(&header);
                slices.iter().for_each(|slice| datagram.extend_from_slice(slice));
                network.send(socket, datagram.freeze());
                sent += 1;
            } else {
                network.datagram_counters().void += 1;
            }
            start = end;
        }
        self.core.core_mut().handle_sent(lane, sent);
        Ok(())
    }
}
