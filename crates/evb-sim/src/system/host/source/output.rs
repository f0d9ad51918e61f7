//! Carries out the outputs of a source's role.

use std::io::IoSlice;

use bytes::BytesMut;
use evb_core::{
    index::LaneIndex,
    session::{ReportFacts, Target},
    units::Bytes,
    wire::{control::Control, datagram::DATAGRAM_HEADER},
};
use evb_shaper::{Departure, role::SourceOutput};

use super::{Running, lanes::SourceLane};
use crate::system::{
    failure::{Check, Failure},
    host::{Exit, Surroundings, joining::exit},
    network::{Address, EndId},
};

impl Running {
    /// Carries out all outputs of the role, and sends all lane bytes that may depart.
    pub(super) fn drain(&mut self, around: &mut Surroundings<'_>) -> Result<Option<Exit>, Failure> {
        let now = around.now();
        loop {
            while let Some(output) = self.role.poll(now) {
                match output {
                    SourceOutput::Dial(dial) => match dial.target {
                        Target::Supervisor => self.line.dial(dial, around),
                        Target::Lane(lane) => self.dial_lane(lane, dial, around),
                    },
                    SourceOutput::Close(Target::Supervisor) => self.line.close(around),
                    SourceOutput::Close(Target::Lane(lane)) => {
                        if let Some(lane) = self.lanes.get_mut(lane.get()) {
                            lane.close(around);
                        }
                    }
                    SourceOutput::Send(message) => self.send(&message, around),
                    SourceOutput::Report(mut message) => {
                        self.role.complete(&mut message, ReportFacts::default());
                        self.send(&message, around);
                    }
                    SourceOutput::Announce(lane) => self.announce(lane, around),
                    SourceOutput::Begin => self.role.handle_read_out(),
                    SourceOutput::Ended(ended) => {
                        self.line.close(around);
                        return exit(*ended).map(Some);
                    }
                }
            }
            while let Some(event) = self.role.take_wanted() {
                self.want(event, around);
            }
            if let Some(departure) = self.role.poll_departure(now) {
                self.depart(&departure, around)?;
            } else if self.readout.first().is_some_and(|(at, _)| *at <= now) {
                self.push_due(around)?;
            } else {
                break;
            }
        }
        // Announcements that did not share packets with data are sent here.
        for lane in LaneIndex::all(self.lanes.len()) {
            if let Some(up) = self.lanes[lane].up().filter(|up| up.sockets.is_none()) {
                self.flush(lane, up.end, around)?;
            }
        }
        Ok(None)
    }

    fn send(&mut self, message: &Control, around: &mut Surroundings<'_>) {
        let written = self.line.send(message, around);
        self.role.handle_control_sent(Bytes::new(written), around.now());
    }

    fn announce(&mut self, lane: LaneIndex, around: &mut Surroundings<'_>) {
        let now = around.now();
        let Some(up) = self.lanes.get(lane.get()).and_then(SourceLane::up) else { return };
        around.say(|| format!("announces on lane {lane}"));
        match up.sockets {
            None => self.role.announce(lane, now, &mut self.streams[lane].writer.announcements),
            Some((own, theirs)) => {
                let mut datagram = BytesMut::new();
                self.role.write_datagram(lane, now, &mut datagram);
                if !datagram.is_empty() {
                    around.network.send(own, theirs, datagram.freeze());
                }
            }
        }
    }

    fn depart(&mut self, departure: &Departure, around: &mut Surroundings<'_>) -> Result<(), Failure> {
        let Some(up) = self.lanes.get(departure.lane.get()).and_then(SourceLane::up) else { return Ok(()) };
        around.say(|| format!("{departure:?}"));
        match up.sockets {
            None => {
                self.streams[departure.lane].writer.send(departure.range.clone());
                self.flush(departure.lane, up.end, around)
            }
            Some(sockets) => self.depart_in_segments(departure, sockets, around),
        }
    }

    /// Writes all that waits for a lane's stream.
    fn flush(&mut self, lane: LaneIndex, end: EndId, around: &mut Surroundings<'_>) -> Result<(), Failure> {
        let written = self.streams[lane].write(self.role.core(), lane, around.network.outgoing(end));
        written.map_err(|what| Failure::new(Check::Invariant, what))?;
        around.network.flush(end);
        Ok(())
    }

    fn depart_in_segments(
        &mut self,
        departure: &Departure,
        (own, theirs): (Address, Address),
        around: &mut Surroundings<'_>,
    ) -> Result<(), Failure> {
        let Departure { lane, ref range, request, .. } = *departure;
        self.sent[lane].note(range, request, around)?;
        let segment = around.scenario.cost().packet_payload().count();
        let Some(sealing) = self.role.records().sealing(lane, request) else {
            return Err(Failure::new(Check::Invariant, "a train without an association"));
        };
        let (mut start, mut sent) = (range.start, 0);
        while start < range.end {
            let end = range.end.min(start + segment);
            let mut slices = Vec::<IoSlice<'_>>::with_capacity(2 * segment as usize);
            let covered = self.role.core().gather(lane, start..end, &mut slices);
            if covered < end - start && request == 0 {
                let what = format!("lane {lane} has no bytes at {}, to be sent", start + covered);
                return Err(Failure::new(Check::Invariant, what));
            }
            if covered > 0 {
                let header = sealing.header(sent, start).seal(slices.iter().map(|slice| &**slice));
                let mut datagram = BytesMut::with_capacity(DATAGRAM_HEADER + segment as usize);
                datagram.extend_from_slice(&header);
                slices.iter().for_each(|slice| datagram.extend_from_slice(slice));
                around.network.send(own, theirs, datagram.freeze());
                sent += 1;
            }
            start = end;
        }
        self.role.records().handle_sent(lane, sent);
        Ok(())
    }
}
