//! Carries out the outputs of a source's role.

use evb_core::{
    index::LaneIndex,
    session::{ReportFacts, Target},
    source::Train,
    units::Bytes,
    wire::control::{Control, Message, RoleReport},
};
use evb_shaper::{Departure, role::SourceOutput};

use super::{
    Running,
    lanes::{SourceLane, Up},
};
use crate::system::{
    failure::{Check, Failure},
    host::{Exit, Surroundings, joining::exit},
    network::{Address, EndId, FULL_AGAIN},
};

impl Running {
    /// Carries out all outputs of the role, and sends all lane bytes that may depart.
    pub(super) fn drain(&mut self, around: &mut Surroundings<'_>) -> Result<Option<Exit>, Failure> {
        let now = around.now();
        self.full_until.take_if(|until| *until <= now);
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
                        check_counter(&message)?;
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
            match self.lanes[lane].up() {
                Some(Up { end, sockets: None }) => self.flush(lane, end, around)?,
                Some(Up { sockets: Some(sockets), .. }) => self.flush_datagrams(lane, sockets, around),
                None => {}
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
            Some(sockets) => {
                self.role.announce_in_datagram(lane, now, &mut self.datagrams[lane]);
                self.flush_datagrams(lane, sockets, around);
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
            Some(sockets) => {
                self.check_departure(departure, around)?;
                self.datagrams[departure.lane].send(departure.range.clone(), departure.request, departure.at);
                self.flush_datagrams(departure.lane, sockets, around);
                Ok(())
            }
        }
    }

    /// Writes all that waits for a lane's stream.
    fn flush(&mut self, lane: LaneIndex, end: EndId, around: &mut Surroundings<'_>) -> Result<(), Failure> {
        let written = self.streams[lane].write(self.role.core(), lane, around.network.outgoing(end));
        written.map_err(|what| Failure::new(Check::Invariant, what))?;
        around.network.flush(end);
        Ok(())
    }

    /// Sends the datagrams that wait on a lane, as far as its socket takes them.
    fn flush_datagrams(
        &mut self,
        lane: LaneIndex,
        (own, theirs): (Address, Address),
        around: &mut Surroundings<'_>,
    ) {
        if self.full_until.is_some() {
            return;
        }
        let mut transmit = |train: Train<'_>| {
            let mut sent = 0;
            for datagram in train.datagrams() {
                if around.network.is_full() {
                    self.full_until = Some(around.now() + FULL_AGAIN);
                    return if sent > 0 { Ok(sent) } else { Err(()) };
                }
                sent += datagram.len();
                around.network.send(own, theirs, datagram.into());
            }
            Ok(sent)
        };
        while let Ok(Some(_)) = self.datagrams[lane].send_train(self.role.records(), lane, &mut transmit) {}
    }

    /// Checks lane bytes that are about to be sent, or sent again.
    fn check_departure(&mut self, departure: &Departure, around: &Surroundings<'_>) -> Result<(), Failure> {
        let Departure { lane, ref range, request, .. } = *departure;
        self.sent[lane].note(range, request, around)?;
        let covered = self.role.core().pieces(lane, range.clone(), usize::MAX, |_| ());
        if request == 0 && covered < range.end - range.start {
            let what = format!("lane {lane} has no bytes at {}, to be sent", range.start + covered);
            return Err(Failure::new(Check::Invariant, what));
        }
        Ok(())
    }
}

/// Checks that each value of a trigger counter got an event: simulated boards are not reset in a
/// run.
fn check_counter(message: &Control) -> Result<(), Failure> {
    if let Some(Message::Report(report)) = &message.message
        && let Some(RoleReport::Source(own)) = &report.report
        && own.unplaced + own.lost_wraps + own.counter_invalid > 0
    {
        return Err(Failure::protocol(format!("fragments with a trigger counter got no event: {own:?}")));
    }
    Ok(())
}
