//! The source's ends of its lanes: they carry bytes and records between sockets and the state
//! machine.

use std::task::{Context, Poll};

use evb_core::{index::LaneIndex, session::Dial, time::Instant, units::Rate, wire::control::TrainReport};
use evb_net::{
    control::ConnectError,
    lane::{Progress, ReadBuffers},
};
use evb_shaper::{Departure, role::SourceRole};

use super::{
    dialing::{Connecting, Dialing},
    end::End,
};

/// The lane to one builder.
pub(super) struct Lane {
    index: LaneIndex,
    /// Rate that the kernel enforces on the lane's socket, if the kernel paces sockets.
    rate: Option<Rate>,
    state: LaneStage,
    /// Sums over closed connections: segments that the kernel had to send again, and the report on
    /// trains.
    past: (u64, TrainReport),
}

enum LaneStage {
    Down,
    Connecting(Connecting),
    Up(Box<dyn End>),
}

impl Lane {
    pub(super) fn new(index: LaneIndex, rate: Option<Rate>) -> Self {
        Self { index, rate, state: LaneStage::Down, past: Default::default() }
    }

    pub(super) fn dial(&mut self, dial: Dial, dialing: &Dialing) {
        self.state = LaneStage::Connecting(dialing.dial(dial, self.rate));
    }

    pub(super) fn close(&mut self) {
        self.past = self.sent();
        self.state = LaneStage::Down;
    }

    /// Processes the records that the builder sends, or the result of connecting to it. Returns
    /// true if more input may be waiting.
    pub(super) fn poll_input(
        &mut self,
        cx: &mut Context<'_>,
        role: &mut SourceRole,
        now: Instant,
        buffers: &mut ReadBuffers,
    ) -> bool {
        let cause: &dyn std::fmt::Display = match &mut self.state {
            LaneStage::Down => return false,
            LaneStage::Connecting(connecting) => match connecting.as_mut().poll(cx) {
                Poll::Pending => return false,
                Poll::Ready(Ok((end, welcome, path))) => {
                    self.state = LaneStage::Up(end);
                    role.handle_lane_up(self.index, &welcome, path, now);
                    return true;
                }
                Poll::Ready(Err(error)) => &{ in_words(&error) },
            },
            LaneStage::Up(end) => match end.poll_input(cx, role, self.index, now, buffers) {
                Ok(progress) => return progress == Progress::More,
                Err(error) => &{ error },
            },
        };
        self.close();
        role.handle_lane_down(self.index, cause, now);
        true
    }

    /// Writes the lane's announcements.
    pub(super) fn announce(&mut self, cx: &mut Context<'_>, role: &mut SourceRole, now: Instant) {
        let LaneStage::Up(end) = &mut self.state else { return };
        if end.announce(role, self.index, now) {
            self.poll_flush(cx, role, now);
        }
    }

    /// Queues the data of a departure, if the lane is up.
    pub(super) fn send(&mut self, departure: Departure) {
        if let LaneStage::Up(end) = &mut self.state {
            end.send(departure);
        }
    }

    /// Writes queued data and records.
    pub(super) fn poll_flush(&mut self, cx: &mut Context<'_>, role: &mut SourceRole, now: Instant) {
        if let LaneStage::Up(end) = &mut self.state
            && let Poll::Ready(Err(error)) = end.poll_flush(cx, role, self.index)
        {
            self.close();
            role.handle_lane_down(self.index, &error, now);
        }
    }

    /// Returns the time at which the lane's connection must be polled again.
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        if let LaneStage::Up(end) = &self.state { end.next_timeout() } else { None }
    }

    /// Returns the sums over all connections of this lane: segments that the kernel had to send
    /// again, and the report on trains.
    pub(super) fn sent(&mut self) -> (u64, TrainReport) {
        let LaneStage::Up(end) = &mut self.state else { return self.past };
        let (retransmits, trains) = end.sent();
        let (past_retransmits, past_trains) = self.past;
        (past_retransmits + retransmits, sum(past_trains, trains))
    }
}

/// Returns why a builder could not be connected to. The line of the log names the builder and its
/// address, and says what to do.
fn in_words(error: &ConnectError) -> String {
    match error {
        ConnectError::Unreachable { reason, .. } if reason.get_ref().is_some() => reason.to_string(),
        ConnectError::Unreachable { reason, .. } => format!("it cannot be reached: {reason}"),
        error => error.to_string(),
    }
}

/// Returns the number of segments that the kernel retransmitted on each lane, and the report on
/// the trains of all lanes.
pub(super) fn sent(lanes: &mut [Lane]) -> (Vec<u64>, TrainReport) {
    let mut trains = TrainReport::default();
    let each = lanes.iter_mut().map(|lane| {
        let (retransmits, of_lane) = lane.sent();
        trains = sum(trains, of_lane);
        retransmits
    });
    (each.collect(), trains)
}

/// Adds two train reports.
fn sum(one: TrainReport, other: TrainReport) -> TrainReport {
    TrainReport {
        send_drops: one.send_drops + other.send_drops,
        segmentation_refused: one.segmentation_refused + other.segmentation_refused,
        uncut: one.uncut + other.uncut,
    }
}
