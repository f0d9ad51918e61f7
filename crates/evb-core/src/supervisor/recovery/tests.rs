//! Tests of the recovery of a run by another supervisor.

use core::time::Duration;

use super::{
    super::{
        Recipients, RunPlan, RunState,
        journal::sums,
        tests::{EVERYBODY, Stage, plan, recovered, source},
    },
    RecoverError, unfinished,
};
use crate::{
    id::{RunNumber, SourceId},
    ledger::Annotation,
    time::Instant,
    trigger::TriggerKind,
    units::Frequency,
    wire::{
        control::{Message, Stop},
        journal::{Entry, Started, What},
    },
};

fn hertz(rate: f64) -> Frequency {
    Frequency::from_hertz(rate).unwrap()
}

fn journaled(trigger: TriggerKind) -> RunPlan {
    RunPlan { journal: true, slots: 10_000, ..plan(trigger) }
}

fn register_all(stage: &mut Stage) {
    for peer in EVERYBODY {
        stage.register(peer);
    }
}

/// Returns the number of triggers within the next second.
fn speed(stage: &mut Stage) -> u64 {
    let before = stage.core.progress().events.triggered;
    stage.pass(Duration::from_secs(1), &EVERYBODY);
    stage.core.progress().events.triggered - before
}

#[test]
fn what_is_of_no_run_or_of_one_that_is_over_is_told_apart() {
    let plan = plan(TriggerKind::External);
    let now = Instant::from_nanos(9_000_000);
    let fault = |journal: &[Entry]| recovered(&plan, journal, now).unwrap_err();
    let tells = |journal: &[Entry]| unfinished(journal.iter().cloned().map(Ok::<_, ()>)).unwrap();
    let (journal, run) = (Stage::running(journaled(TriggerKind::External)).journal, RunNumber::new(7));
    assert_eq!((fault(&[]), tells(&[])), (RecoverError::Empty, None));
    assert_eq!((fault(&journal[1..]), tells(&journal[1..])), (RecoverError::NoBeginning, None));
    assert_eq!(tells(&journal), Some(run));
    let others = RunPlan { sources: vec![SourceId::new(3)], ..plan.clone() };
    assert_eq!(recovered(&others, &journal, now).unwrap_err(), RecoverError::OtherSources(run));

    let entry = |what| Entry { at_ns: 2_000_000, what: Some(what) };
    let over =
        [journal.clone(), vec![entry(What::Started(Started::default())), entry(What::Ended(0))]].concat();
    assert_eq!((fault(&over), tells(&over)), (RecoverError::Over(run), None));
    // The error is the same even if the sources differ and an entry is invalid, because the run has
    // ended.
    assert_eq!(recovered(&others, &over, now).unwrap_err(), RecoverError::Over(run));
    assert_eq!(unfinished([Ok(journal[0].clone()), Err("the disk")]), Err("the disk"));
}

#[test]
fn the_rate_that_people_have_set_stays() {
    let slow = || journaled(TriggerKind::Periodic { rate: hertz(100.0) });
    let mut first = Stage::running(slow());
    first.pass(Duration::from_secs(1), &EVERYBODY);
    assert_eq!(first.core.progress().events.triggered, 100);
    first.core.set_rate(hertz(1000.0), first.now).unwrap();
    first.poll();

    let mut second = first.followed_by(&slow(), first.journal.clone()).with_everybody();
    assert_eq!((second.core.progress().state, speed(&mut second)), (RunState::Running, 1000));
    // A snapshot keeps the rate as well, also over two recoveries.
    let mut third = second.followed_by(&slow(), second.core.snapshot(second.now)).with_everybody();
    assert_eq!(speed(&mut third), 1000);
    let mut fourth = third.followed_by(&slow(), third.core.snapshot(third.now)).with_everybody();
    assert_eq!(speed(&mut fourth), 1000);
    // The kind of trigger comes from the configuration.
    let external = journaled(TriggerKind::External);
    let mut changed = first.followed_by(&external, first.journal.clone()).with_everybody();
    assert_eq!(speed(&mut changed), 0);
    changed.trigger(1);
}

#[test]
fn without_that_the_rate_is_the_configurations() {
    let first = Stage::running(journaled(TriggerKind::Periodic { rate: hertz(100.0) }));
    let other = journaled(TriggerKind::Periodic { rate: hertz(500.0) });
    let mut second = first.followed_by(&other, first.journal.clone()).with_everybody();
    assert_eq!(speed(&mut second), 500);
    let mut third = second.followed_by(&other, second.core.snapshot(second.now)).with_everybody();
    assert_eq!(speed(&mut third), 500);
}

#[test]
fn a_rate_that_was_set_before_the_run_begins_stays_too() {
    let held = || RunPlan { hold: true, ..journaled(TriggerKind::Poisson { rate: hertz(1.0) }) };
    let mut first = Stage::new(held());
    first.core.set_rate(hertz(1e4), first.now).unwrap();
    first.poll();
    let mut second = first.followed_by(&held(), first.journal.clone());
    register_all(&mut second);
    let mut second = second.with_everybody();
    assert_eq!((second.core.progress().state, speed(&mut second)), (RunState::Configured, 0));
    second.core.begin(&Annotation::default(), second.now).unwrap();
    second.poll();
    assert!((9000..11_000).contains(&speed(&mut second)));
}

#[test]
fn a_run_that_was_paused_is_paused_until_it_is_resumed() {
    let fast = || journaled(TriggerKind::Periodic { rate: hertz(100.0) });
    let mut first = Stage::running(fast());
    first.core.pause(first.now).unwrap();
    first.poll();
    for journal in [first.journal.clone(), first.core.snapshot(first.now)] {
        let mut second = first.followed_by(&fast(), journal).with_everybody();
        assert_eq!((second.core.progress().state, speed(&mut second)), (RunState::Paused, 0));
        second.core.resume(second.now).unwrap();
        assert_eq!(speed(&mut second), 100);
    }
}

/// The timer of the run's own clock must not be due while the run is paused or waits for its peers;
/// otherwise the driver would not sleep.
#[test]
fn a_clock_that_is_not_heeded_wakes_nobody() {
    let plan = journaled(TriggerKind::Periodic { rate: hertz(100.0) });
    for pause in [true, false] {
        let mut stage = Stage::running(plan.clone());
        stage.pass(Duration::from_secs(1), &EVERYBODY);
        if pause {
            stage.core.pause(stage.now).unwrap();
            stage.poll();
        }
        let mut next = stage.followed_by(&plan, stage.journal.clone());
        if !pause {
            next.core.stop("test", next.now);
        }
        assert_eq!(next.core.progress().state, RunState::Recovering);
        next.now += Duration::from_millis(600);
        next.core.handle_timeout(next.now);
        next.poll();
        assert!(next.core.next_timeout().unwrap() > next.now, "paused: {pause}");
    }
}

/// A run is held before it begins, and not again after a recovery.
#[test]
fn a_run_that_has_begun_is_ended_by_the_stop_of_a_peer() {
    let held = || RunPlan { hold: true, ..journaled(TriggerKind::External) };
    let mut first = Stage::new(held());
    register_all(&mut first);
    let mut first = first.with_everybody();
    first.core.begin(&Annotation::default(), first.now).unwrap();
    first.poll();
    first.poll();
    let mut second = first.followed_by(&held(), first.journal.clone()).with_everybody();
    assert_eq!(second.core.progress().state, RunState::Running);
    second.says(source(3), Message::Stop(Stop { cause: "enough".to_owned() }));
    assert_eq!(second.core.progress().state, RunState::Stopping);
    let left = |(to, message): &(Recipients, Message)| {
        matches!((to, message), (Recipients::Source(_), Message::RunEnd(_)))
    };
    assert!(!second.sent.iter().any(left));
}

fn on(boot_id: &str) -> RunPlan {
    RunPlan { boot_id: boot_id.to_owned(), ..journaled(TriggerKind::External) }
}

/// Each boot begins a new clock. Recovery from a journal with entries of several boots must neither
/// lose nor add time.
#[test]
fn times_go_on_over_boots_and_supervisors() {
    let mut first = Stage::new(on("one"));
    first.now = Instant::from_nanos(1_000_000_000_000);
    register_all(&mut first);
    let mut first = first.with_everybody();
    let mut running = vec![first.core.survey(first.now).running_s];
    first.trigger(1);
    first.pass(Duration::from_secs(10), &EVERYBODY);
    first.trigger(1);
    running.push(first.core.survey(first.now).running_s);
    // The clock of the second boot is behind that of the first boot, and the clock of the third
    // boot is ahead of both. Each row has a boot, its clock, and the seconds for which it runs.
    let mut stage = first;
    for (boot, clock, more) in [("two", 50, 5), ("two", 55, 2), ("three", 9000, 1), ("three", 9001, 1)] {
        stage.now = Instant::from_nanos(clock * 1_000_000_000);
        stage = stage.followed_by(&on(boot), stage.journal.clone()).with_everybody();
        stage.pass(Duration::from_secs(more), &EVERYBODY);
        stage.trigger(1);
        running.push(stage.core.survey(stage.now).running_s);
    }
    assert_eq!(running, [0.0, 10.0, 15.0, 17.0, 18.0, 19.0]);
    // Events with their ages, without the time in which there was no supervisor.
    assert_eq!(ages(&stage), [(1, 19), (2, 9), (3, 4), (4, 2), (5, 1), (6, 0)]);
}

/// Returns the outstanding events, each with the seconds since its trigger.
fn ages(stage: &Stage) -> Vec<(u64, u64)> {
    let held = stage.core.assigner.held();
    let places = held.iter().flat_map(|held| sums(&held.events).zip(sums(&held.triggered_ns)));
    let ages = places.map(|(event, nanos)| (event, stage.now.since(Instant::from_nanos(nanos)).as_secs()));
    let mut ages: Vec<_> = ages.collect();
    ages.sort_unstable();
    ages
}

/// After the recovery, the start of the run and the trigger of its first event are before the zero
/// of the present clock. Durations and ages stay as they are, and so does the UTC of each event.
#[test]
fn a_run_that_is_older_than_the_boot_goes_on() {
    let mut first = Stage::new(on("one"));
    first.now = Instant::from_nanos(1_000_000_000_000);
    register_all(&mut first);
    let mut first = first.with_everybody();
    for _ in 0..2 {
        first.pass(Duration::from_secs(10), &EVERYBODY);
        first.trigger(1);
    }
    first.now = Instant::from_nanos(3_000_000_000);
    let second = first.followed_by(&on("two"), first.journal.clone()).with_everybody();
    assert_eq!(second.core.progress().state, RunState::Running);
    for journal in [second.core.snapshot(second.now), second.journal.clone()] {
        let third = second.followed_by(&on("two"), journal).with_everybody();
        assert_eq!(third.core.progress().state, RunState::Running);
        assert_eq!((ages(&third), third.core.survey(third.now).running_s), (vec![(1, 10), (2, 0)], 20.0));
    }
}
