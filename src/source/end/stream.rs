//! The source's end of a lane over a stream.

use std::task::{Context, Poll};

use evb_core::{index::LaneIndex, time::Instant, wire::control::TrainReport};
use evb_net::lane::{LaneEnd, Progress, ReadBuffers, SourceEnd};
use evb_shaper::{Departure, role::SourceRole};

use super::End;

impl End for SourceEnd {
    fn poll_input(
        &mut self,
        cx: &mut Context<'_>,
        role: &mut SourceRole,
        lane: LaneIndex,
        _now: Instant,
        buffers: &mut ReadBuffers,
    ) -> Result<Progress, LaneEnd> {
        self.borrow_buffer(buffers);
        self.poll_recv(cx, role.records(), lane)?;
        self.return_buffer(buffers);
        Ok(Progress::Drained)
    }

    fn poll_flush(
        &mut self,
        cx: &mut Context<'_>,
        role: &mut SourceRole,
        lane: LaneIndex,
    ) -> Poll<Result<(), LaneEnd>> {
        let core = role.records();
        let flushed = self.poll_flush(cx, core, lane);
        self.take_answer_sample().into_iter().for_each(|took| core.record_grant_answer(took));
        flushed
    }

    fn announce(&mut self, role: &mut SourceRole, lane: LaneIndex, now: Instant) -> bool {
        role.announce(lane, now, &mut self.writer.announcements);
        // Announcements wait for data, so that both share packets.
        false
    }

    fn send(&mut self, departure: Departure) {
        self.writer.send(departure.range);
    }

    fn next_timeout(&self) -> Option<Instant> {
        None
    }

    fn sent(&mut self) -> (u64, TrainReport) {
        (self.retransmits(), TrainReport::default())
    }
}
