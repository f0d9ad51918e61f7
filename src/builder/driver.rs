//! The task that drives a builder's state machine: it supplies bytes, time and the results of the
//! sink.

use std::{
    io,
    task::{Context, Poll},
};

use evb_core::{
    index::LaneIndex,
    live::HostFacts,
    session::{ReportFacts, RoleFault, Target},
    time::Instant,
};
use evb_net::{clock, timer::Timer};
use evb_shaper::role::{BuilderOutput, BuilderRole};
use tokio::sync::mpsc;

use super::{BuilderConfig, lanes::BuilderLanes};
use crate::{
    role::{self, BusyPoll, RoleError, RunOutcome, SupervisorLink},
    sink::{
        RunFacts,
        stage::{Fate, Stage},
    },
    tap::Tap,
};

/// A builder's state machine and its connections, sink and timer.
pub(super) struct Driver {
    role: BuilderRole,
    link: SupervisorLink,
    lanes: BuilderLanes,
    stage: Stage,
    timer: Timer,
    busy_poll: BusyPoll,
    stop: mpsc::Receiver<String>,
    tap: Option<Tap>,
    outcome: Option<Result<RunOutcome, RoleFault>>,
}

impl Driver {
    /// Creates the driver of a role that has joined a run.
    pub(super) fn new(
        config: &BuilderConfig,
        role: BuilderRole,
        link: SupervisorLink,
        lanes: BuilderLanes,
        stage: Stage,
        stop: mpsc::Receiver<String>,
        now: Instant,
    ) -> io::Result<Self> {
        Ok(Self {
            role,
            link,
            lanes,
            stage,
            timer: Timer::new()?,
            busy_poll: BusyPoll::new(config.busy_poll, now),
            stop,
            tap: config.tap.clone(),
            outcome: None,
        })
    }

    /// Processes all input that is available now; returns ready when the builder's part in the run
    /// is over.
    pub(super) fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<Result<RunOutcome, RoleError>> {
        loop {
            let now = clock::now();
            let mut more = self.poll_control(cx, now);
            self.lanes.poll_entrance(cx, &mut self.role, now);
            let mut unread = self.lanes.poll_read(cx, &mut self.role, now)?;
            more |= unread;
            self.poll_begun(cx);
            self.poll_fates(cx, now);
            if !unread && self.role.wants_reading(now) {
                unread = self.lanes.read(&mut self.role, now)?;
            }
            self.role.handle_timeout(unread, now);
            more |= self.drain(now);
            more |= self.lanes.poll_flush(cx, &mut self.role, now);
            self.link.poll_flush(cx);
            if let Some(outcome) = self.outcome.take() {
                return Poll::Ready(outcome.map_err(|fault| self.link.error(fault)));
            }
            if !more && self.sleep(cx, now).is_pending() {
                return Poll::Pending;
            }
        }
    }

    /// Processes the supervisor's messages and the requests to end the run. Returns true if more
    /// messages may be waiting.
    fn poll_control(&mut self, cx: &mut Context<'_>, now: Instant) -> bool {
        if let Poll::Ready(Some(cause)) = self.stop.poll_recv(cx) {
            self.role.request_run_end(cause);
        }
        for _ in 0..role::MESSAGES {
            let Poll::Ready(heard) = self.link.poll(cx) else { return false };
            self.role.handle_supervisor(heard, now);
        }
        true
    }

    /// Takes the results of the sink's beginning.
    fn poll_begun(&mut self, cx: &mut Context<'_>) {
        while let Poll::Ready(Some((result, highest))) = self.stage.poll_begun(cx) {
            self.role.handle_begun(result, highest);
        }
    }

    /// Takes back the events that the sink has finished with.
    fn poll_fates(&mut self, cx: &mut Context<'_>, now: Instant) {
        while let Poll::Ready(fate) = self.stage.poll_fate(cx) {
            match fate {
                Some((event, Fate::Written)) => self.role.handle_written(event, now),
                Some((event, Fate::Rejected)) => self.role.handle_rejected(event, now),
                Some((event, Fate::Failed(cause))) => self.role.handle_failed(event, &cause, now),
                None => {
                    self.role.handle_sink_gone();
                    break;
                }
            }
        }
    }

    /// Carries out the outputs of the state machine. Returns true if the outputs may have caused
    /// new input.
    fn drain(&mut self, now: Instant) -> bool {
        let mut more = false;
        while let Some(output) = self.role.poll(now) {
            match output {
                BuilderOutput::Dial(dial) => {
                    self.link.dial(dial);
                    more = true;
                }
                BuilderOutput::Close(Target::Supervisor) => self.link.close(),
                BuilderOutput::Close(Target::Lane(lane)) => self.lanes.close(lane),
                BuilderOutput::Send(message) => self.link.send(&message),
                BuilderOutput::Report(mut message) => {
                    let facts = self.facts();
                    self.role.complete(&mut message, facts);
                    self.link.send(&message);
                }
                BuilderOutput::Event(event) => {
                    // If submitting fails, the sink is gone: `poll_fates` is about to end this
                    // role.
                    let _ = self.stage.submit(event);
                }
                BuilderOutput::Lane(lane) => self.lanes.write(lane, &mut self.role, now),
                BuilderOutput::Begin(begin) => {
                    self.stage.begin(RunFacts::of(&begin, self.role.core().config()));
                    more = true;
                }
                BuilderOutput::Episodes(told) => self.stage.note_episodes(told),
                BuilderOutput::Changes(told) => self.stage.note_changes(told),
                BuilderOutput::ExpectEnd => self.stage.expect_end(),
                BuilderOutput::Ended(outcome) => self.outcome = Some(*outcome),
            }
        }
        more
    }

    /// Returns the facts for a report that the role's state machine does not know.
    fn facts(&mut self) -> ReportFacts {
        let disk = self.stage.space().map(|space| (space.free.count(), space.size.count()));
        ReportFacts {
            host: HostFacts { disk, ..role::facts::of_process() },
            datagrams: self.lanes.report(),
            refusals: Some(self.lanes.refusals()),
            gone: self.stage.gone(),
            tap: self.tap.as_ref().map(Tap::report),
            filter: self.stage.filter_report(),
            files: self.stage.files(),
            ..ReportFacts::default()
        }
    }

    /// Arms the timer for the next timeout of the state machine; returns ready if the timer has
    /// expired already.
    fn sleep(&mut self, cx: &mut Context<'_>, now: Instant) -> Poll<()> {
        self.timer.arm_by(self.role.next_timeout());
        if self.timer.poll_expired(cx).is_ready() {
            return Poll::Ready(());
        }
        let core = self.role.core();
        let granted = || LaneIndex::all(core.config().sources.len()).map(|lane| core.granted(lane)).sum();
        self.busy_poll.stay_awake(cx, granted, now);
        Poll::Pending
    }

    /// Ends the driver, and returns what remains to be closed.
    pub(super) fn into_parts(self) -> (Stage, SupervisorLink) {
        (self.stage, self.link)
    }
}
