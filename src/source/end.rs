//! [`End`]: the source's end of a lane's connection, over a stream or datagrams.

use std::{
    ops::Range,
    task::{Context, Poll},
    time::Duration,
};

use evb_core::{index::LaneIndex, time::Instant, wire::control::TrainReport};
use evb_net::lane::{FromBuilder, LaneEnd, Progress, SourceEnd, datagrams::SourceDatagrams};
use evb_shaper::{Departure, role::SourceRole};

/// Time after which announcing on a lane whose socket was full is tried again.
const LATER: Duration = Duration::from_millis(1);

/// The source's end of a connection.
#[expect(clippy::large_enum_variant, reason = "it is boxed as a whole")]
pub(super) enum End {
    Stream(SourceEnd),
    Datagrams(Box<SourceDatagrams>),
}

impl End {
    /// Processes the records that the builder sends.
    pub(super) fn poll_input(
        &mut self,
        cx: &mut Context<'_>,
        role: &mut SourceRole,
        lane: LaneIndex,
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

    /// Writes queued data and records.
    pub(super) fn poll_flush(
        &mut self,
        cx: &mut Context<'_>,
        role: &mut SourceRole,
        lane: LaneIndex,
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

    /// Writes the lane's announcements. Returns true if the announcements are to be flushed at
    /// once.
    pub(super) fn announce(&mut self, role: &mut SourceRole, lane: LaneIndex, now: Instant) -> bool {
        match self {
            // Over a stream, announcements wait for data so that both share packets.
            Self::Stream(end) => {
                role.announce(lane, now, &mut end.announcements);
                return false;
            }
            // The queued records contain these announcements, or the next datagram will.
            Self::Datagrams(end) if !end.records.is_empty() => role.records().put_off(lane, now + LATER),
            Self::Datagrams(end) => {
                role.records().set_answering(lane, end.is_answering());
                role.write_datagram(lane, now, &mut end.records);
            }
        }
        // Only one datagram of announcements is queued at a time.
        true
    }

    /// Queues the data of a departure.
    pub(super) fn send(&mut self, departure: Departure) {
        let Departure { range, request, at, .. } = departure;
        match self {
            Self::Stream(end) => end.send(range),
            Self::Datagrams(end) => end.send(range, request, at),
        }
    }

    /// Returns the time at which the connection must be polled again; `None` over a stream.
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        match self {
            Self::Stream(_) => None,
            Self::Datagrams(end) => end.next_timeout(),
        }
    }

    /// Returns the number of segments that the kernel had to send again, and the report on trains.
    pub(super) fn sent(&mut self) -> (u64, TrainReport) {
        match self {
            Self::Stream(end) => (end.retransmits(), TrainReport::default()),
            Self::Datagrams(end) => (0, end.trains()),
        }
    }
}
