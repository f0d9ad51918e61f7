//! [`End`]: the source's end of a lane's connection. A stream and datagrams implement it.

mod stream;
#[cfg(feature = "udp")]
mod datagrams;

use std::task::{Context, Poll};

use evb_core::{index::LaneIndex, time::Instant, wire::control::TrainReport};
use evb_net::lane::{LaneEnd, Progress, ReadBuffers};
use evb_shaper::{Departure, role::SourceRole};

/// The source's end of a lane's connection.
pub(super) trait End {
    /// Processes the records that the builder sends. All lanes of a source use `buffers` in turn.
    fn poll_input(
        &mut self,
        cx: &mut Context<'_>,
        role: &mut SourceRole,
        lane: LaneIndex,
        now: Instant,
        buffers: &mut ReadBuffers,
    ) -> Result<Progress, LaneEnd>;

    /// Writes queued data and records.
    fn poll_flush(
        &mut self,
        cx: &mut Context<'_>,
        role: &mut SourceRole,
        lane: LaneIndex,
    ) -> Poll<Result<(), LaneEnd>>;

    /// Queues the lane's announcements. Returns true if the announcements are to be flushed at
    /// once.
    fn announce(&mut self, role: &mut SourceRole, lane: LaneIndex, now: Instant) -> bool;

    /// Queues the data of a departure.
    fn send(&mut self, departure: Departure);

    /// Returns the time at which the connection must be polled again although no input arrived.
    fn next_timeout(&self) -> Option<Instant>;

    /// Returns the number of segments that the kernel had to send again, and the report on trains.
    fn sent(&mut self) -> (u64, TrainReport);
}
