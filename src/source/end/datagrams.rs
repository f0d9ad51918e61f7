//! The source's end of a lane over datagrams.

use std::task::{Context, Poll};

use evb_core::{index::LaneIndex, time::Instant, wire::control::TrainReport};
use evb_net::lane::{LaneEnd, Progress, ReadBuffers, datagrams::SourceDatagrams};
use evb_shaper::{Departure, role::SourceRole};

use super::End;

impl End for SourceDatagrams {
    fn poll_input(
        &mut self,
        cx: &mut Context<'_>,
        role: &mut SourceRole,
        lane: LaneIndex,
        now: Instant,
        _: &mut ReadBuffers,
    ) -> Result<Progress, LaneEnd> {
        self.poll_recv(cx, role.records(), lane, now)
    }

    fn poll_flush(
        &mut self,
        cx: &mut Context<'_>,
        role: &mut SourceRole,
        lane: LaneIndex,
    ) -> Poll<Result<(), LaneEnd>> {
        self.poll_flush(cx, role.records(), lane)
    }

    fn announce(&mut self, role: &mut SourceRole, lane: LaneIndex, now: Instant) -> bool {
        role.announce_in_datagram(lane, now, &mut self.lane);
        // Only one datagram of announcements is queued at a time.
        true
    }

    fn send(&mut self, departure: Departure) {
        self.lane.send(departure.range, departure.request, departure.at);
    }

    fn next_timeout(&self) -> Option<Instant> {
        self.next_timeout()
    }

    fn sent(&mut self) -> (u64, TrainReport) {
        (0, self.trains())
    }
}
