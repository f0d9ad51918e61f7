//! [`BuilderLanes`]: a builder's lanes, from the listener to the bytes that arrive.

use std::{io, task::Context, task::Poll};

use evb_core::{
    index::LaneIndex,
    time::Instant,
    wire::control::{DatagramReport, RefusalReport},
};
use evb_net::lane::LaneEnd;
use evb_shaper::role::{Admitted, BuilderRole};
use tokio::net::TcpListener;

use super::{
    BuilderConfig,
    accept::{Entrance, LaneRequest},
    ends::{BuilderEnds, Ended},
};

/// A builder's lanes, from the listener to the bytes that arrive.
pub(super) struct BuilderLanes {
    entrance: Entrance,
    ends: Box<dyn BuilderEnds>,
    /// Lanes that have ended and are not dropped yet.
    ended: Vec<Ended>,
}

impl BuilderLanes {
    pub(super) fn new(
        listener: TcpListener,
        sources: usize,
        config: &BuilderConfig,
        ends: Box<dyn BuilderEnds>,
    ) -> Self {
        Self { entrance: Entrance::new(listener, sources, config), ends, ended: Vec::new() }
    }

    /// Passes new connections to the state machine, which admits or refuses them.
    pub(super) fn poll_entrance(&mut self, cx: &mut Context<'_>, role: &mut BuilderRole, now: Instant) {
        while let Poll::Ready(request) = self.entrance.poll(cx, now) {
            match request {
                LaneRequest::Asks(hello, channel, peer) => {
                    match role.handle_hello(&hello, self.ends.greeting(&channel), now) {
                        Ok(Admitted { lane, welcome }) => {
                            self.ends.close(lane);
                            self.entrance.welcome(lane, channel, welcome, &role.named(lane));
                        }
                        Err(refusal) => self.entrance.refuse(channel, peer, refusal),
                    }
                }
                LaneRequest::Opened(lane, channel) => {
                    self.ends.open(lane, channel);
                    role.handle_lane_up(lane);
                }
                LaneRequest::Failed(lane) => role.handle_lane_down(
                    lane,
                    &"the source closed the connection before the builder answered",
                    now,
                ),
            }
        }
    }

    /// Processes the bytes that the sources send. Returns true if more input may be waiting.
    ///
    /// # Errors
    /// The operating system's error on the socket that all lanes share.
    pub(super) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        role: &mut BuilderRole,
        now: Instant,
    ) -> io::Result<bool> {
        let more = self.ends.poll_read(cx, role.records(), now, &mut self.ended)?;
        self.drop_ended(role, now);
        Ok(more)
    }

    /// Reads all that has arrived by now, if the lanes' timers are evb's own. Returns true if more
    /// input may be waiting.
    ///
    /// # Errors
    /// The same errors as [`Self::poll_read`].
    pub(super) fn read(&mut self, role: &mut BuilderRole, now: Instant) -> io::Result<bool> {
        let more = self.ends.read(role.records(), now, &mut self.ended)?;
        self.drop_ended(role, now);
        Ok(more)
    }

    /// Writes queued records. Returns true if a lane has ended, so that its grants are free for all
    /// other lanes.
    pub(super) fn poll_flush(&mut self, cx: &mut Context<'_>, role: &mut BuilderRole, now: Instant) -> bool {
        self.ends.poll_flush(cx, role.records(), &mut self.ended);
        let any = !self.ended.is_empty();
        self.drop_ended(role, now);
        any
    }

    /// Queues the state machine's records for a lane's source.
    pub(super) fn write(&mut self, lane: LaneIndex, role: &mut BuilderRole, now: Instant) {
        self.ends.write(lane, role.records(), now);
    }

    /// Drops a lane's connection, or the answer that is being sent on it.
    pub(super) fn close(&mut self, lane: LaneIndex) {
        self.ends.close(lane);
        self.entrance.forget(lane);
    }

    /// Returns the counters of the datagram socket that all lanes share, if there is one.
    pub(super) fn report(&mut self) -> Option<DatagramReport> {
        self.ends.report()
    }

    /// Returns the counts of connections that were refused.
    pub(super) fn refusals(&self) -> RefusalReport {
        self.entrance.refusals()
    }

    /// Closes the lanes whose connections have ended, and tells the role.
    fn drop_ended(&mut self, role: &mut BuilderRole, now: Instant) {
        while let Some((lane, end)) = self.ended.pop() {
            if matches!(end, LaneEnd::Forged(_)) {
                self.entrance.count_forged();
            }
            if self.ends.is_open(lane) {
                self.ends.close(lane);
                role.handle_lane_down(lane, &end, now);
            }
        }
    }
}
