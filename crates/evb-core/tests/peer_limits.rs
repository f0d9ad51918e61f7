//! Tests of the limits on numbers from peers. A wrong number must not cost memory, time or the run.
#![allow(clippy::unwrap_used)] // an error here is a failed test

use std::time::Duration;

use bytes::Bytes as Payload;
use evb_core::{
    builder::{BuilderCore, BuilderCoreConfig, Output},
    event::Event,
    fragment::{Fragment, Timestamp},
    grant::{Fate, Grant, GrantCounters, GrantPolicy, LaneDemand},
    id::{BuilderId, Epoch, EventId, RunId, RunNumber, SourceId},
    index::LaneIndex,
    lane::Request,
    set::SourceSet,
    source::{PushError, SourceCore, SourceCoreConfig},
    supervisor::{ChangeError, PlanError, RunPlan, SupervisorCore},
    time::Instant,
    units::Bytes,
    wire::control::{
        Assignments, Decisions, LaneState, MAX_BATCH, MAX_BUILDERS, MAX_CAUSE, MAX_EXCEPTIONS, MAX_MESSAGE,
        MAX_SLOTS, Message, RunParameters, Welcome,
    },
    wire::encoding::Encoding as _,
};

#[test]
fn a_welcome_is_checked_before_anything_is_set_up() {
    let parameters =
        RunParameters { slots: 16, heartbeat_ns: 250_000_000, decided: 5, ..RunParameters::default() };
    let with =
        |parameters| Welcome { epoch: 9, run: 1, run_id: RunId::new(3), parameters, ..Welcome::default() };
    assert_eq!(with(Some(parameters)).checked_parameters(), Ok(parameters));
    assert!(with(None).checked_parameters().is_err());
    assert!(Welcome { epoch: 0, ..with(Some(parameters)) }.checked_parameters().is_err());
    assert!(Welcome { run_id: RunId::UNKNOWN, ..with(Some(parameters)) }.checked_parameters().is_err());
    let wrong = [
        RunParameters { slots: 0, ..parameters },
        RunParameters { slots: MAX_SLOTS + 1, ..parameters },
        RunParameters { heartbeat_ns: 0, ..parameters },
        RunParameters { decided: u64::MAX, ..parameters },
    ];
    for wrong in wrong {
        assert!(with(Some(wrong)).checked_parameters().is_err(), "{wrong:?}");
    }
}

#[test]
fn a_lane_begins_in_its_own_run() {
    let held = LaneState { received: 1, announced: 2, committed: 0 };
    let welcome = Welcome { run_id: RunId::new(9), lane: Some(held), ..Welcome::default() };
    assert_eq!(welcome.checked_lane(RunId::new(9)), Ok(held));
    assert!(welcome.checked_lane(RunId::new(8)).is_err());
    let without = Welcome { lane: None, ..welcome };
    assert!(without.checked_lane(RunId::new(9)).is_err());
}

#[test]
fn runs_of_no_events_are_malformed() {
    assert!(Decisions { first: 1, runs: vec![1, 0, 0, 1] }.verdicts().is_err());
    let most = MAX_BATCH as u32;
    assert!(Decisions { first: 1, runs: vec![most, 0] }.verdicts().is_ok());
    assert!(Decisions { first: 1, runs: vec![most, 0, 1, 1] }.verdicts().is_err());
    assert!(Decisions { first: u64::MAX, runs: vec![1, 0] }.verdicts().is_err());
}

#[test]
fn a_plan_keeps_to_what_peers_accept() {
    let plan = |builders: usize| {
        let builders = (1..=builders as u16).map(BuilderId::new).collect();
        RunPlan::new(RunNumber::new(1), Epoch::new(1), vec![SourceId::new(1)], builders)
    };
    assert_eq!(plan(MAX_BUILDERS).check(), Ok(()));
    assert_eq!(plan(MAX_BUILDERS + 1).check(), Err(PlanError::TooManyBuilders { count: MAX_BUILDERS + 1 }));
    let slots = MAX_SLOTS + 1;
    assert_eq!(RunPlan { slots, ..plan(1) }.check(), Err(PlanError::TooManySlots { slots }));
    // One message tells a source of all outstanding events, so their number has a limit.
    assert_eq!(RunPlan { slots: MAX_SLOTS, ..plan(16) }.check(), Ok(()));
    let too_many = PlanError::TooManyOutstanding { slots: MAX_SLOTS, builders: 17 };
    assert_eq!(RunPlan { slots: MAX_SLOTS, ..plan(17) }.check(), Err(too_many));
    let full = RunPlan { slots: MAX_SLOTS, ..plan(16) };
    let mut core = SupervisorCore::new(full, 1, Instant::ZERO).unwrap();
    let added = core.add_builder(BuilderId::new(17), Instant::ZERO);
    assert_eq!(added, Err(ChangeError::TooManyOutstanding(MAX_SLOTS)));
}

#[test]
fn no_source_agrees_to_more_than_an_announcement_can_say() {
    let config = SourceCoreConfig {
        id: SourceId::new(1),
        max_fragment: Bytes::MAX,
        orphan_timeout: Duration::from_secs(1),
        heartbeat: Duration::from_secs(1),
        builders: vec![BuilderId::new(1)],
        on_demand: false,
        decided: EventId::default(),
        deadline: Duration::MAX,
        queue_delay: Duration::ZERO,
        report_period: Duration::ZERO,
    };
    let mut core = SourceCore::new(config, Instant::ZERO);
    assert_eq!(core.config().max_fragment, Bytes::new(u32::MAX.into()));
    let fragment = Fragment::new(EventId::new(0), Timestamp::default(), Payload::new());
    assert_eq!(core.push(fragment, Instant::ZERO), Err(PushError::EventZero));
}

struct Never(GrantCounters);

impl GrantPolicy for Never {
    fn poll(&mut self, _: &[LaneDemand], _: Instant) -> Option<Grant> {
        None
    }
    fn handle_received(&mut self, _: LaneIndex, _: u64, _: Instant) {}
    fn handle_accounted(&mut self, _: LaneIndex, _: core::ops::Range<u64>, _: Request, _: Fate, _: Instant) {}
    fn handle_reset(&mut self, _: LaneIndex, _: u64, _: Instant) {}
    fn handle_gone(&mut self, _: LaneIndex, _: Instant) {}
    fn handle_timeout(&mut self, _: Instant) {}
    fn next_timeout(&self) -> Option<Instant> {
        None
    }
    fn outstanding(&self) -> Bytes {
        Bytes::ZERO
    }
    fn counters(&self) -> &GrantCounters {
        &self.0
    }
}

/// A full disk may fail the events of thousands of slots at once, each with a long cause.
#[test]
fn failures_fit_the_message_whatever_their_number_and_words() {
    let slots = 5000;
    let config = BuilderCoreConfig {
        run_id: RunId::new(1),
        id: BuilderId::new(1),
        run: RunNumber::new(1),
        epoch: Epoch::new(1),
        slots,
        deadline: Duration::from_secs(1),
        heartbeat: Duration::from_secs(1),
        shared_clock: true,
        lease: Duration::ZERO,
        sources: vec![SourceId::new(1)],
        max_fragment: vec![Bytes::kib(1)],
        queue_delay: Duration::ZERO,
        report_period: Duration::ZERO,
    };
    let now = Instant::from_nanos(1);
    let mut core = BuilderCore::new(config, Never(GrantCounters::default()), now);
    core.handle_roster(1, SourceSet::first(1), SourceSet::default(), now);
    core.handle_roster(2, SourceSet::default(), SourceSet::default(), now);
    let (mut assignments, mut last) =
        (Assignments { roster_version: 2, ..Assignments::default() }, Default::default());
    for event in 1..=slots as u64 {
        assignments.add(&mut last, EventId::new(event), 1);
    }
    core.handle_assignments(&assignments, now).unwrap();
    let events: Vec<Event> = std::iter::from_fn(|| core.poll(now))
        .filter_map(|output| if let Output::Event(event) = output { Some(event) } else { None })
        .collect();
    assert_eq!(events.len(), slots);
    for event in events {
        core.handle_failed(event, &"π".repeat(10_000), now);
    }
    let mut exceptions = 0;
    while let Some(output) = core.poll(now) {
        let Output::Supervisor(control) = output else { continue };
        assert!(control.encoded_len() <= MAX_MESSAGE);
        if let Some(Message::Completions(completions)) = control.message {
            assert!(completions.exceptions.len() <= MAX_EXCEPTIONS);
            assert!(completions.exceptions.iter().all(|one| one.cause.chars().count() == MAX_CAUSE));
            exceptions += completions.exceptions.len();
        }
    }
    assert_eq!(exceptions, slots);
}
