//! [`Stage`]: the supervisor's state machine and the messages of its peers.

use std::{collections::BTreeMap, time::Duration};

use evb::role::RunOutcome;
use evb_core::{
    event::Cause,
    id::{BuilderId, Epoch, EventId, Peer, RunNumber, SourceId},
    ledger::RunReport,
    supervisor::{Recipients, RunPlan, SupervisorCore, SupervisorOutput, SupervisorRole},
    time::{ClockState, Instant, Utc, WallClock},
    trigger::{
        TriggerKind,
        announcement::{Announcement, Asked},
    },
    wire::{
        control::{
            Begun, Completions, Control, Exception, Heartbeat, Hello, Live, Load, Message, Outcome,
            ReadoutState, ReadoutStatus, Ready, Report, RoleReport,
        },
        encoding::Encoding,
    },
};

use super::Recorded;

/// Beginning of each run.
const BEGIN: WallClock =
    WallClock { utc: Utc::from_nanos(1_763_731_564_000_000_000), state: ClockState::Synchronised };

pub(super) const fn source(id: u16) -> Peer {
    Peer::Source(SourceId::new(id))
}

pub(super) const fn builder(id: u16) -> Peer {
    Peer::Builder(BuilderId::new(id))
}

/// Returns a plan of sources and builders that count from 1, with an external trigger. Source 1 and
/// builder 1 have names.
pub(super) fn plan(run: u32, sources: u16, builders: u16) -> RunPlan {
    RunPlan {
        trigger: TriggerKind::External,
        boot_id: "here".to_owned(),
        source_names: [(SourceId::new(1), "TPC crate 1".to_owned())].into(),
        builder_names: [(BuilderId::new(1), "left rack".to_owned())].into(),
        ..RunPlan::new(
            RunNumber::new(run),
            Epoch::new(90 + u64::from(run)),
            (1..=sources).map(SourceId::new).collect(),
            (1..=builders).map(BuilderId::new).collect(),
        )
    }
}

/// Returns a message in which every number has the value `first` plus the number of its field.
/// Parts and texts are left out, and lists of numbers are cleared by the caller.
pub(super) fn numbered<M: Encoding>(first: u64) -> M {
    let mut bytes = Vec::new();
    for field in 1..=60_u64 {
        let before = bytes.len();
        varint(field << 3, &mut bytes);
        varint(first + field, &mut bytes);
        if M::decode(&bytes).is_err() {
            bytes.truncate(before);
        }
    }
    M::decode(&bytes).expect("every field was tried")
}

/// Appends a number as Protobuf encodes it.
fn varint(mut number: u64, bytes: &mut Vec<u8>) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// The supervisor with peers that do what a script says.
pub(super) struct Stage {
    role: SupervisorRole,
    now: Instant,
    /// Events of each builder that are not settled, in the order of their assignment.
    assigned: BTreeMap<BuilderId, Vec<EventId>>,
    /// Number of completions of each builder.
    completed: BTreeMap<BuilderId, u64>,
    triggered: u64,
    recorded: Option<Recorded>,
    outcomes: Vec<(Peer, Report)>,
}

impl Stage {
    /// Returns a supervisor whose peers have registered.
    pub(super) fn registered(plan: RunPlan) -> Self {
        let now = Instant::from_nanos(1_000_000_000);
        let core = SupervisorCore::new(plan, 1, now).expect("a good plan");
        let peers = core.peers();
        let mut stage = Self {
            role: SupervisorRole::new(core, None),
            now,
            assigned: BTreeMap::new(),
            completed: BTreeMap::new(),
            triggered: 0,
            recorded: None,
            outcomes: Vec::new(),
        };
        stage.role.run_mut().handle_wall_clock(BEGIN, now);
        peers.into_iter().for_each(|peer| stage.register(peer));
        stage
    }

    /// Returns the supervisor of a run that has begun.
    pub(super) fn running(plan: RunPlan) -> Self {
        let mut stage = Self::registered(plan);
        let peers = stage.role.core().peers();
        for peer in peers.iter().filter(|peer| matches!(peer, Peer::Source(_))) {
            stage.hears(*peer, Message::Ready(Ready {}));
        }
        peers.into_iter().for_each(|peer| stage.hears(peer, Message::Begun(Begun::default())));
        assert!(stage.role.core().has_begun());
        stage
    }

    fn register(&mut self, peer: Peer) {
        let hello = Hello {
            listen: "192.0.2.100:47000".to_owned(),
            max_fragment: 100_000,
            boot_id: "here".to_owned(),
            highest_run: 1,
            ..Hello::new(peer, Peer::Supervisor)
        };
        self.role.register(&hello, self.now).expect("the peer belongs to the run");
        self.poll();
    }

    pub(super) fn hears(&mut self, peer: Peer, message: Message) {
        self.role.handle_message(peer, Control { message: Some(message) }, self.now);
        self.poll();
    }

    pub(super) fn loses(&mut self, peer: Peer, reason: &str) {
        self.role.handle_disconnect(peer, reason, self.now);
        self.poll();
    }

    pub(super) fn wait(&mut self, milliseconds: u64) {
        self.now += Duration::from_millis(milliseconds);
        self.role.handle_timeout(self.now);
        self.poll();
    }

    pub(super) fn pause(&mut self) {
        self.role.run_mut().pause(self.now).expect("the run is under way");
        self.poll();
    }

    /// Announces that many new triggers, each for itself.
    pub(super) fn trigger(&mut self, count: u64) {
        for _ in 0..count {
            self.triggered += 1;
            self.announce(self.triggered);
        }
        self.wait(50);
    }

    /// Announces a trigger with that number.
    pub(super) fn announce(&mut self, number: u64) {
        let announcement = Announcement { number, sent_ns: self.now.as_nanos() };
        self.triggered = number.min(1 << 20).max(self.triggered);
        self.role.handle_trigger(Asked::Announced(announcement), self.now);
        self.now += Duration::from_millis(1);
        self.poll();
    }

    /// Lets a builder complete its oldest events.
    pub(super) fn complete(&mut self, id: u16, events: usize) {
        let mut last = EventId::default();
        let mut completions = Completions::default();
        self.settled(id, events).into_iter().for_each(|event| completions.add(&mut last, event));
        self.completes(id, completions);
    }

    /// Lets a builder complete all its events.
    pub(super) fn complete_all(&mut self, id: u16) {
        let events = self.assigned.get(&BuilderId::new(id)).map_or(0, Vec::len);
        self.complete(id, events);
    }

    /// Lets a builder settle its oldest event without all its fragments, or without building it.
    pub(super) fn except(&mut self, id: u16, outcome: Outcome, missing: &[(u32, Cause)], cause: &str) {
        let event = self.settled(id, 1)[0].number();
        let (missing, missing_causes) =
            missing.iter().map(|(source, cause)| (*source, u32::from(cause.code()))).unzip();
        let exception = Exception { event, outcome, missing, missing_causes, cause: cause.to_owned() };
        self.completes(id, Completions { exceptions: vec![exception], ..Completions::default() });
    }

    fn settled(&mut self, id: u16, events: usize) -> Vec<EventId> {
        let assigned = self.assigned.entry(BuilderId::new(id)).or_default();
        assert!(assigned.len() >= events, "builder {id} has {} events, not {events}", assigned.len());
        assigned.drain(..events).collect()
    }

    fn completes(&mut self, id: u16, completions: Completions) {
        let before = self.completed.entry(BuilderId::new(id)).or_default();
        let completions = Completions { before: *before, ..completions };
        *before += completions.count() as u64;
        self.hears(builder(id), Message::Completions(completions));
    }

    /// Sends a builder's heartbeat with its load.
    pub(super) fn beat(&mut self, id: u16, load: Load) {
        let beat = Heartbeat { sent_ns: self.now.as_nanos(), load: Some(load), ..Heartbeat::default() };
        self.hears(builder(id), Message::Heartbeat(beat));
    }

    pub(super) fn readout(&mut self, id: u16, state: ReadoutState, expected: u32, connected: u32) {
        let status = ReadoutStatus { state, expected, connected, ..ReadoutStatus::default() };
        self.hears(source(id), Message::Readout(status));
    }

    /// Sends a peer's interim report.
    pub(super) fn interim(&mut self, peer: Peer, report: RoleReport, live: Live) {
        self.hears(peer, Message::Report(Report { report: Some(report), live: Some(live) }));
    }

    /// Records the state of the run.
    pub(super) fn record(&mut self, name: &'static str) {
        let core = self.role.core();
        self.recorded = Some(Recorded {
            name,
            survey: core.survey(self.now),
            state: core.progress().state,
            report: RunReport::default(),
            outcomes: Vec::new(),
        });
    }

    /// Stops the run.
    pub(super) fn stop(&mut self) {
        self.role.run_mut().stop("the operator", self.now);
        self.poll();
        for _ in 0..3 {
            self.wait(10);
        }
    }

    /// Ends the run with these final reports.
    pub(super) fn end(mut self, reports: Vec<(Peer, RoleReport)>) -> Recorded {
        self.stop();
        for (peer, report) in reports {
            let report = Report { report: Some(report), live: None };
            self.hears(peer, Message::Report(report.clone()));
            self.outcomes.push((peer, report));
        }
        for _ in 0..20 {
            self.wait(1000);
        }
        let mut recorded = self.recorded.expect("the state of the run was recorded");
        assert!(recorded.report.run > 0, "the ledger of {} is closed", recorded.name);
        let outcomes = self.outcomes.into_iter();
        recorded.outcomes =
            outcomes.map(|(peer, report)| (peer, outcome(&recorded.report, report))).collect();
        recorded
    }

    fn poll(&mut self) {
        while let Some(output) = self.role.poll(self.now) {
            match output {
                SupervisorOutput::Send { to: Recipients::Builder(id), message } => {
                    let Some(Message::Assignments(batch)) = message.message else { continue };
                    let events =
                        batch.events().expect("good assignments").into_iter().map(|(event, _)| event);
                    self.assigned.entry(id).or_default().extend(events);
                }
                SupervisorOutput::Ended(report) => {
                    self.recorded.as_mut().expect("the state of the run was recorded").report = *report;
                }
                // A peer that is silent or leaves is dropped, too.
                SupervisorOutput::Drop { peer, reason } => {
                    assert!(!reason.starts_with("it sent"), "{peer} was dropped: {reason}");
                }
                _ => {}
            }
        }
    }
}

/// Returns what a source or builder knows about its run at the end.
fn outcome(closed: &RunReport, own: Report) -> RunOutcome {
    RunOutcome {
        run_id: closed.run_id,
        run: RunNumber::new(closed.run),
        epoch: Epoch::new(closed.epoch),
        exit_code: closed.exit_code,
        verdict: closed.verdict.clone(),
        report: Some(own),
        took_part: Some(Duration::from_secs(2)),
    }
}
