//! The source's end of a lane over datagrams.

use std::{
    task::{Context, Poll},
    time::Duration,
};

use evb_core::{index::LaneIndex, time::Instant, wire::control::TrainReport};
use evb_net::lane::{LaneEnd, Progress, ReadBuffers, datagrams::SourceDatagrams};
use evb_shaper::{Departure, role::SourceRole};

use super::End;

/// Time after which announcing on a lane whose socket was full is tried again.
const LATER: Duration = Duration::from_millis(1);

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
        // The queued records contain these announcements, or the next datagram will.
        if !self.records.is_empty() {
            role.records().put_off(lane, now + LATER);
        } else {
            role.records().set_answering(lane, self.is_answering());
            role.write_datagram(lane, now, &mut self.records);
        }
        // Only one datagram of announcements is queued at a time.
        true
    }

    fn send(&mut self, departure: Departure) {
        self.send(departure.range, departure.request, departure.at);
    }

    fn next_timeout(&self) -> Option<Instant> {
        self.next_timeout()
    }

    fn sent(&mut self) -> (u64, TrainReport) {
        (0, self.trains())
    }
}
