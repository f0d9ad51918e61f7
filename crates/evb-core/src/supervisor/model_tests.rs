//! A model test: after any sequence of inputs from peers and operators, valid or not, no builder
//! has more events than slots, every event has one verdict, the ledger closes, and the journal
//! leads to the same state.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::{
    AssignmentPolicy, Output, Phase, Recipients, RunPlan, RunState, SupervisorCore,
    journal::What,
    tests::{EVERYBODY, control, hello, plan, recovered},
};
use crate::{
    id::{EventId, Peer},
    index::BuilderIndex,
    ledger::{LEDGER_OPEN, RunReport},
    time::Instant,
    trigger::TriggerKind,
    units::Frequency,
    wire::{
        control::{
            Begun, BuilderReport, Completions, Control, Exception, Heartbeat, Message, Outcome, Ready,
            Report, RoleReport, SourceReport, Stop, Triggers, Verdict,
        },
        journal::Entry,
    },
};

#[derive(Clone, Debug)]
enum Step {
    Register(usize),
    Disconnect(usize),
    Ready(usize),
    Heartbeat(usize),
    Trigger(u64),
    Settle { builder: usize, count: usize, outcome: Outcome },
    Invent { builder: usize, event: u64 },
    Nonsense(usize),
    Report(usize),
    Pass(u64),
    Stop,
    Steer(u8),
}

fn outcome() -> impl Strategy<Value = Outcome> {
    prop::sample::select(vec![Outcome::Unspecified, Outcome::Incomplete, Outcome::Rejected, Outcome::Lost])
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0usize..4).prop_map(Step::Register),
        1 => (0usize..4).prop_map(Step::Disconnect),
        6 => (0usize..2).prop_map(Step::Ready),
        8 => (0usize..4).prop_map(Step::Heartbeat),
        8 => prop_oneof![40 => 0u64..10, 1 => Just(70_000u64)].prop_map(Step::Trigger),
        20 => (0usize..2, 1usize..5, outcome()).prop_map(|(builder, count, outcome)| Step::Settle { builder, count, outcome }),
        1 => (0usize..2, 0u64..200).prop_map(|(builder, event)| Step::Invent { builder, event }),
        1 => (0usize..4).prop_map(Step::Nonsense),
        4 => (0usize..4).prop_map(Step::Report),
        10 => prop_oneof![0u64..20_000_000, 200_000_000u64..3_000_000_000].prop_map(Step::Pass),
        1 => Just(Step::Stop),
        4 => (0u8..5).prop_map(Step::Steer),
    ]
}

fn peer(index: usize) -> Peer {
    EVERYBODY[index]
}

/// The state that the peers know, computed from the outputs alone.
#[derive(Default)]
struct World {
    decided: u64,
    verdicts: BTreeMap<u64, Verdict>,
    held: [BTreeSet<u64>; 2],
    roster: u32,
    journal: Vec<Entry>,
    ended: Option<Box<RunReport>>,
}

impl World {
    fn take(&mut self, output: Output, slots: usize) -> Result<(), TestCaseError> {
        prop_assert!(self.ended.is_none(), "an output follows the end");
        let (to, message) = match output {
            Output::Send { to, message } => (to, message.message),
            Output::Journal(entry) => {
                self.journal.push(*entry);
                return Ok(());
            }
            Output::Drop { .. } | Output::Begun(_) => return Ok(()),
            Output::Ended(report) => {
                self.ended = Some(report);
                return Ok(());
            }
        };
        match message {
            Some(Message::Roster(roster)) => {
                prop_assert_eq!(roster.version, self.roster + 1);
                self.roster = roster.version;
            }
            Some(Message::Decisions(decisions)) => {
                for (first, count, verdict) in decisions.verdicts().unwrap() {
                    if matches!(to, Recipients::Source(_)) {
                        prop_assert_eq!(verdict, Verdict::Closed);
                        continue;
                    }
                    for event in first.number()..first.number() + u64::from(count) {
                        prop_assert!(event > self.decided, "event {} is decided twice", event);
                        self.decided = event;
                        self.verdicts.insert(event, verdict);
                    }
                }
            }
            Some(Message::Assignments(batch)) => {
                let again = batch.roster_version == 0;
                prop_assert!(again || batch.roster_version == self.roster);
                let index = usize::from(to != Recipients::Builder(crate::id::BuilderId::new(1)));
                for (event, _) in batch.events().unwrap() {
                    prop_assert!(self.held[index].insert(event.number()) || again);
                }
                prop_assert!(
                    self.held[index].len() <= slots,
                    "builder {} has more than its slots",
                    index + 1
                );
            }
            _ => {}
        }
        Ok(())
    }
}

fn settle(world: &mut World, before: u64, builder: usize, count: usize, outcome: Outcome) -> Message {
    let events: Vec<u64> = world.held[builder].iter().copied().take(count).collect();
    let mut completions = Completions { before, ..Completions::default() };
    let mut last = EventId::default();
    for event in events {
        world.held[builder].remove(&event);
        if outcome == Outcome::Unspecified {
            completions.add(&mut last, EventId::new(event));
        } else {
            let missing = if outcome == Outcome::Incomplete { vec![3] } else { vec![] };
            let missing_causes = vec![2; missing.len()];
            let cause = "model".to_owned();
            completions.exceptions.push(Exception { event, outcome, missing, cause, missing_causes });
        }
    }
    Message::Completions(completions)
}

/// Returns the answer of a peer that has prepared for the run.
fn begun() -> Control {
    Control { message: Some(Message::Begun(Begun::default())) }
}

fn apply(core: &mut SupervisorCore, world: &mut World, step: Step, now: &mut Instant) {
    let message = match step {
        Step::Register(index) => {
            let _ = core.register(&hello(peer(index)), *now);
            return core.handle_message(peer(index), begun(), *now);
        }
        Step::Disconnect(index) => {
            if index >= 2 {
                world.held[index - 2].clear();
            }
            return core.handle_disconnect(peer(index), "the model", *now);
        }
        Step::Pass(nanos) => {
            *now += Duration::from_nanos(nanos);
            return core.handle_timeout(*now);
        }
        Step::Steer(what) => return steer(core, what, *now),
        Step::Ready(index) => {
            core.handle_message(peer(index), Control { message: Some(Message::Ready(Ready {})) }, *now);
            return (0..4).for_each(|index| core.handle_message(peer(index), begun(), *now));
        }
        Step::Heartbeat(index) => {
            (index, Message::Heartbeat(Heartbeat { sent_ns: 5, ..Heartbeat::default() }))
        }
        Step::Trigger(count) => (0, Message::Triggers(Triggers { count })),
        Step::Settle { builder, count, outcome } => (
            builder + 2,
            settle(world, core.books.accounted(BuilderIndex::new(builder)), builder, count, outcome),
        ),
        Step::Invent { builder, event } if !world.held[builder].contains(&event) => {
            let before = core.books.accounted(BuilderIndex::new(builder));
            let mut completions = Completions { before, ..Completions::default() };
            completions.add(&mut EventId::default(), EventId::new(event));
            (builder + 2, Message::Completions(completions))
        }
        Step::Invent { .. } => return,
        Step::Nonsense(index) => (index, Message::Roster(crate::wire::control::Roster::default())),
        Step::Stop => (1, Message::Stop(Stop { cause: "the model".to_owned() })),
        Step::Report(index) => {
            if core.progress().state != RunState::Stopping || core.progress().outstanding > 0 {
                return;
            }
            let report = if index < 2 {
                RoleReport::Source(SourceReport::default())
            } else {
                RoleReport::Builder(BuilderReport {
                    payload_bytes: u64::MAX,
                    written: u64::MAX,
                    ..BuilderReport::default()
                })
            };
            (index, Message::Report(Report { report: Some(report), live: None }))
        }
    };
    core.handle_message(peer(message.0), control(message.1), *now);
}

fn steer(core: &mut SupervisorCore, what: u8, now: Instant) {
    let builder = crate::id::BuilderId::new;
    // The change may be refused; the state machine decides that.
    let _ = match what {
        0 => core.pause(now),
        1 => core.resume(now),
        2 => core.set_rate(Frequency::from_hertz(500.0).unwrap(), now),
        3 => core.remove_builder(builder(2), now),
        _ => core.add_builder(builder(9), now).and_then(|()| core.remove_builder(builder(9), now)),
    };
}

/// Checks that both the entries of the journal and a snapshot lead to the same state.
fn check_journal(
    core: &SupervisorCore,
    plan: &RunPlan,
    world: &World,
    now: Instant,
) -> Result<(), TestCaseError> {
    // While peers report and after the end of the run, the journal no longer records peers that
    // leave.
    if matches!(core.phase, Phase::Reporting { .. } | Phase::Ended) {
        return Ok(());
    }
    let later = now + Duration::from_secs(1);
    let by_entries = recovered(plan, &world.journal, later);
    let by_totals = recovered(plan, &core.snapshot(now), later);
    let state = |next: SupervisorCore| {
        let mut entries = next.snapshot(later);
        // The journal's entries record when the first decision was made, its totals when the
        // first trigger came; so these two times are not compared.
        for entry in &mut entries {
            if let Some(What::Totals(totals)) = &mut entry.what {
                totals.first_trigger_ns = 0;
            }
        }
        entries
    };
    let states = [by_entries, by_totals].map(|next| next.map(state));
    prop_assert!(states[0].is_ok(), "{:?} {:?}", states[0], world.journal);
    prop_assert_eq!(&states[0], &states[1]);
    let next = recovered(plan, &world.journal, later).map(|next| next.progress());
    let (next, here) = (next.unwrap(), core.progress());
    prop_assert_eq!((next.events, next.outstanding), (here.events, here.outstanding));
    Ok(())
}

fn poll_all(
    core: &mut SupervisorCore,
    world: &mut World,
    now: Instant,
    slots: u32,
) -> Result<(), TestCaseError> {
    while let Some(output) = core.poll(now) {
        if let Output::Drop { peer: Peer::Builder(id), .. } = &output {
            world.held[usize::from(id.number() - 1)].clear();
        }
        world.take(output, slots as usize)?;
    }
    let counts = core.progress().events;
    prop_assert_eq!(counts.open(), Some(core.progress().outstanding), "{:?}", counts);
    prop_assert_eq!(counts.triggered, core.decided().number());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn the_ledger_closes_whatever_happens(
        kind in 0..3,
        slots in 1u32..5,
        run_length in 1u32..4,
        least in any::<bool>(),
        events in prop::option::of(1u64..50),
        steps in prop::collection::vec(step(), 1..100),
    ) {
        let trigger = match kind {
            0 => TriggerKind::External,
            1 => TriggerKind::AsFastAsPossible,
            _ => TriggerKind::Poisson { rate: Frequency::from_hertz(1000.0).unwrap() },
        };
        let policy = if least { AssignmentPolicy::LeastLoaded } else { AssignmentPolicy::RoundRobin };
        let plan = RunPlan { slots, run_length, policy, events, journal: true, ..plan(trigger) };
        let mut now = Instant::from_nanos(5);
        let mut core = SupervisorCore::new(plan.clone(), 3, now).unwrap();
        let mut world = World::default();
        // The sequences begin with a running run, so that most of them reach interesting states.
        let opening = (0..4).map(Step::Register).chain((0..2).map(Step::Ready));
        for step in opening.chain(steps) {
            apply(&mut core, &mut world, step, &mut now);
            core.invariants();
            poll_all(&mut core, &mut world, now, slots)?;
        }
        check_journal(&core, &plan, &world, now)?;
        core.stop("the model", now);
        for _ in 0..2000 {
            poll_all(&mut core, &mut world, now, slots)?;
            let Some(next) = core.next_timeout() else { break };
            now = next.max(now);
            core.handle_timeout(now);
        }
        let report = world.ended.as_ref();
        prop_assert!(report.is_some(), "the run did not end");
        let report = report.unwrap();
        prop_assert_eq!(report.events.open(), Some(0));
        prop_assert!(!report.problems.iter().any(|problem| problem.contains(LEDGER_OPEN)));
        prop_assert_eq!(report.exit_code == 0, report.problems.is_empty() && report.events.incomplete == 0);
        prop_assert!(events.is_none_or(|events| report.events.assigned <= events));
        let known = world.verdicts.values().filter(|verdict| **verdict == Verdict::Inhibited).count() as u64;
        prop_assert!(known <= report.events.inhibited);
    }
}
