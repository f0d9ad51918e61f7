//! The source's ends of its lanes: bytes and records between sockets and the machine.

use std::{
    ops::Range,
    task::{Context, Poll},
    time::Duration,
};

use evb_core::{session::Dial, time::Instant, units::Rate, wire::control::TrainReport};
use evb_net::lane::{FromBuilder, LaneEnd, Progress, SourceEnd, datagrams::SourceDatagrams};
use evb_shaper::{Departure, role::SourceRole};

use super::dialing::{Connecting, Dialing};

/// When a lane whose socket is full is asked again for what it has to say.
const LATER: Duration = Duration::from_millis(1);

/// The connection to one builder.
pub(super) struct Lane {
    index: usize,
    /// What its socket is asked to keep to, if the kernel paces sockets.
    rate: Option<Rate>,
    state: State,
    /// Of connections that are gone: segments that the kernel had to send again, and what became of trains.
    past: (u64, TrainReport),
}

enum State {
    Down,
    Connecting(Connecting),
    Up(Box<End>),
}

/// The source's end of a connection.
#[expect(clippy::large_enum_variant, reason = "it is boxed as a whole")]
pub(super) enum End {
    Stream(SourceEnd),
    Datagrams(Box<SourceDatagrams>),
}

impl Lane {
    pub(super) fn new(index: usize, rate: Option<Rate>) -> Self {
        Self { index, rate, state: State::Down, past: Default::default() }
    }

    pub(super) fn dial(&mut self, dial: Dial, dialing: &Dialing) {
        self.state = State::Connecting(dialing.dial(dial, self.rate));
    }

    pub(super) fn close(&mut self) {
        self.past = self.sent();
        self.state = State::Down;
    }

    /// Takes in what the builder says, or what came of connecting to it; whether there may be more.
    pub(super) fn poll_input(
        &mut self,
        cx: &mut Context<'_>,
        role: &mut SourceRole,
        now: Instant,
        ranges: &mut Vec<Range<u64>>,
    ) -> bool {
        let cause: &dyn std::fmt::Display = match &mut self.state {
            State::Down => return false,
            State::Connecting(connecting) => match connecting.as_mut().poll(cx) {
                Poll::Pending => return false,
                Poll::Ready(Ok((end, welcome, path))) => {
                    self.state = State::Up(Box::new(end));
                    role.handle_lane_up(self.index, &welcome, path, now);
                    return true;
                }
                Poll::Ready(Err(error)) => &{ error },
            },
            State::Up(end) => match end.poll_input(cx, role, self.index, now, ranges) {
                Ok(progress) => return progress == Progress::More,
                Err(error) => &{ error },
            },
        };
        self.close();
        role.handle_lane_down(self.index, cause, now);
        true
    }

    /// Has the lane's announcements written.
    pub(super) fn announce(&mut self, cx: &mut Context<'_>, role: &mut SourceRole, now: Instant) {
        let State::Up(end) = &mut self.state else { return };
        match &mut **end {
            // They wait for data to share packets with.
            End::Stream(end) => return role.announce(self.index, now, &mut end.announcements),
            // What waits says the same, or will be followed.
            End::Datagrams(end) if !end.records.is_empty() => {
                role.records().put_off(self.index, now + LATER);
            }
            End::Datagrams(end) => {
                role.records().set_answering(self.index, end.is_answering());
                role.write_datagram(self.index, now, &mut end.records);
            }
        }
        // One datagram at a time.
        self.poll_flush(cx, role, now);
    }

    /// Queues what departs, if the lane is up.
    pub(super) fn send(&mut self, departure: Departure) {
        let Departure { range, request, at, .. } = departure;
        if let State::Up(end) = &mut self.state {
            match &mut **end {
                End::Stream(end) => end.send(range),
                End::Datagrams(end) => end.send(range, request, at),
            }
        }
    }

    /// Writes what is queued.
    pub(super) fn poll_flush(&mut self, cx: &mut Context<'_>, role: &mut SourceRole, now: Instant) {
        if let State::Up(end) = &mut self.state
            && let Poll::Ready(Err(error)) = end.poll_flush(cx, role, self.index)
        {
            self.close();
            role.handle_lane_down(self.index, &error, now);
        }
    }

    /// When the kernel behind the lane wants to be asked again.
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        let State::Up(end) = &self.state else { return None };
        match &**end {
            End::Stream(_) => None,
            End::Datagrams(end) => end.next_timeout(),
        }
    }

    /// Over all connections of this lane: segments that the kernel had to send again, and what became of trains.
    pub(super) fn sent(&mut self) -> (u64, TrainReport) {
        let State::Up(end) = &mut self.state else { return self.past };
        let (retransmits, trains) = match &mut **end {
            End::Stream(end) => (end.retransmits(), TrainReport::default()),
            End::Datagrams(end) => (0, end.trains()),
        };
        (self.past.0 + retransmits, sum(self.past.1, trains))
    }
}

impl End {
    fn poll_input(
        &mut self,
        cx: &mut Context<'_>,
        role: &mut SourceRole,
        lane: usize,
        now: Instant,
        ranges: &mut Vec<Range<u64>>,
    ) -> Result<Progress, LaneEnd> {
        let core = role.records();
        let end = match self {
            Self::Datagrams(end) => return end.poll_recv(cx, core, lane, now),
            Self::Stream(end) => end,
        };
        loop {
            match end.poll_recv(cx, ranges) {
                Poll::Pending => return Ok(Progress::Drained),
                Poll::Ready(Ok(FromBuilder::Grant { end: to })) => {
                    let waited = end.note_grant(core.granted(lane));
                    waited.into_iter().for_each(|waited| core.record_grant_wake(waited));
                    core.handle_grant(lane, to)?;
                }
                Poll::Ready(Ok(FromBuilder::Commit { offset })) => {
                    core.handle_commit(lane, offset, ranges)?;
                }
                Poll::Ready(Err(error)) => return Err(error),
            }
        }
    }

    fn poll_flush(
        &mut self,
        cx: &mut Context<'_>,
        role: &mut SourceRole,
        lane: usize,
    ) -> Poll<Result<(), LaneEnd>> {
        let core = role.records();
        match self {
            Self::Stream(end) => {
                let flushed = end.poll_flush(cx, core, lane);
                end.take_answer_sample().into_iter().for_each(|took| core.record_grant_answer(took));
                flushed
            }
            Self::Datagrams(end) => end.poll_flush(cx, core, lane),
        }
    }
}

/// Over all lanes: segments that the kernel had to send again, and what became of trains.
pub(super) fn sent(lanes: &mut [Lane]) -> (u64, TrainReport) {
    let each = lanes.iter_mut().map(Lane::sent);
    each.fold(Default::default(), |(again, all), one| (again + one.0, sum(all, one.1)))
}

/// What became of two lots of trains.
fn sum(one: TrainReport, other: TrainReport) -> TrainReport {
    TrainReport {
        send_drops: one.send_drops + other.send_drops,
        segmentation_refused: one.segmentation_refused + other.segmentation_refused,
        uncut: one.uncut + other.uncut,
    }
}
