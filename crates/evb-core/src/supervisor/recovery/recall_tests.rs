//! Tests of journal entries with valid checksums and impossible contents.

use super::super::{
    RecoverError, RunPlan,
    journal::What,
    nonsense::{BEYOND_ALL_RUNS, text},
    tests::{Stage, builder, plan, recovered},
};
use crate::{
    index::BuilderIndex,
    time::Instant,
    trigger::TriggerKind,
    wire::{
        control::{Completions, Decisions, MAX_BUILDERS, Role},
        journal::{
            Accounted, Begun, Blame, Change, Decided, Entry, Finding, Lost, Membership, Reassigned,
            Registered, RosterChange, Started, Totals,
        },
    },
};

const FAR: u64 = u64::MAX;
const NOW: Instant = Instant::from_nanos(5_000_000_000);

/// Returns the journal of a run with events 1 to 7: builder 1 has built 1 and 3, builder 2 has 2
/// and 4, and three were inhibited.
fn half_way() -> Vec<Entry> {
    let mut stage = Stage::running(RunPlan { journal: true, ..plan(TriggerKind::External) });
    stage.trigger(7);
    stage.completes(builder(1), &[1, 3]);
    stage.journal
}

/// Returns the error for `entry` behind `journal`, which must be valid without the entry.
fn said_to(journal: &[Entry], entry: Entry) -> String {
    let plan = plan(TriggerKind::External);
    recovered(&plan, journal, NOW).unwrap();
    let mut all = journal.to_vec();
    all.push(entry);
    match recovered(&plan, &all, NOW) {
        Err(RecoverError::Senseless { number, problem }) if number == all.len() => problem,
        other => panic!("{:?}: {:?}", all.last(), other.map(|core| core.progress())),
    }
}

fn are_refused(journal: &[Entry], cases: impl IntoIterator<Item = (What, &'static str)>) {
    for (what, problem) in cases {
        let shown = format!("{what:?}");
        let said = said_to(journal, Entry { at_ns: 2_000_000, what: Some(what) });
        assert!(said.contains(problem), "{shown}: {said:?}");
    }
}

#[test]
fn an_entry_says_something_at_some_time() {
    let journal = half_way();
    assert!(said_to(&journal, Entry::default()).contains("is empty"));
    let late = Entry { at_ns: FAR, what: Some(What::Paused(true)) };
    assert!(said_to(&journal, late).contains("later than any possible"));
}

#[test]
fn a_run_begins_once_and_with_what_can_be() {
    are_refused(
        &half_way(),
        [
            (What::Begun(Begun::default()), "begins a second time"),
            (What::Started(Started::default()), "starts a second time"),
            (What::Totals(Totals::default()), "at the beginning of a journal"),
            (What::Epoch(FAR), "epoch is larger than any possible"),
            (What::Rate(f64::NAN), "NaN Hz"),
            (What::Rate(f64::INFINITY), "inf Hz"),
            (What::Rate(0.0), "0 Hz"),
            (What::Rate(-1.0), "-1 Hz"),
        ],
    );
    let plan = plan(TriggerKind::External);
    let Some(What::Begun(begun)) = half_way()[0].what.clone() else { panic!("no `Begun`") };
    for begun in [Begun { epoch: FAR, ..begun.clone() }, Begun { builders: vec![1, 65_537], ..begun.clone() }]
    {
        let first = Entry { at_ns: 1, what: Some(What::Begun(begun)) };
        let fault = recovered(&plan, &[first], NOW).unwrap_err();
        assert!(matches!(fault, RecoverError::Senseless { number: 1, .. }), "{fault}");
    }
    let nobody = Entry { at_ns: 1, what: Some(What::Begun(Begun { builders: vec![], ..begun })) };
    assert!(matches!(recovered(&plan, &[nobody], NOW), Err(RecoverError::Plan(_))));
}

#[test]
fn peers_are_known_and_come_one_life_after_the_other() {
    let registered = |role, id, incarnation| Registered { role, id, incarnation, ..Registered::default() };
    let endless = Registered { listen: "x".repeat(301), ..registered(Role::Builder, 1, 1) };
    let roster = |version, up: &[u32], awaited: &[u32]| {
        What::Roster(RosterChange {
            version,
            up: up.to_vec(),
            awaited: awaited.to_vec(),
            ..RosterChange::default()
        })
    };
    let journal = half_way();
    are_refused(
        &journal,
        [
            (What::Registered(registered(Role::Source, 4, 1)), "no such source"),
            (What::Registered(registered(Role::Source, 65_539, 1)), "above 65535"),
            (What::Registered(registered(Role::Source, 3, u32::MAX)), "larger than any possible"),
            (What::Registered(registered(Role::Builder, 9, 1)), "no such builder"),
            (What::Registered(registered(Role::Builder, 1, u32::MAX)), "larger than any possible"),
            (What::Registered(registered(Role::Builder, 1, 0)), "earlier incarnation"),
            (What::Registered(registered(Role::Builder, 2, 2)), "still has events"),
            (What::Registered(registered(Role::Supervisor, 0, 1)), "unknown role"),
            (What::Registered(endless), "not host:port"),
            (roster(1, &[], &[]), "not higher than the last"),
            (roster(u32::MAX, &[], &[]), "larger than any possible"),
            (roster(3, &[2], &[]), "no such source"),
            (roster(3, &[], &[u32::MAX]), "no such source"),
            (What::Over(3), "no such builder"),
            (What::Over(65_537), "above 65535"),
            (
                What::Membership(Membership { builder: 1, change: Change::Unspecified }),
                "membership is unknown",
            ),
            (What::Membership(Membership { builder: 9, change: Change::Gone }), "no such builder"),
            (What::Membership(Membership { builder: 65_537, change: Change::Added }), "above 65535"),
        ],
    );
    let added = Entry {
        at_ns: 2_000_000,
        what: Some(What::Membership(Membership { builder: 9, change: Change::Added })),
    };
    let unborn = What::Registered(registered(Role::Builder, 9, 0));
    are_refused(&[&journal[..], &[added]].concat(), [(unborn, "earlier incarnation")]);
    let over = || Entry { at_ns: 2_000_000, what: Some(What::Over(1)) };
    let journal = [journal, vec![over()]].concat();
    assert!(said_to(&journal, over()).contains("takes no part"));
}

#[test]
fn there_are_no_more_builders_than_are_possible() {
    let added = |builder| What::Membership(Membership { builder, change: Change::Added });
    let mut journal = half_way();
    journal.extend((3..=MAX_BUILDERS as u32).map(|id| Entry { at_ns: 2_000_000, what: Some(added(id)) }));
    are_refused(&journal, [(added(MAX_BUILDERS as u32 + 1), "more builders")]);
}

/// Returns a valid decision for that run: event 8 is assigned to builder 1.
fn next() -> Decided {
    Decided {
        decisions: Some(Decisions { first: 8, runs: vec![1, 3] }),
        roster_version: 1,
        triggered_ns: vec![5],
        blames: vec![],
    }
}

#[test]
fn decisions_follow_each_other_and_are_of_known_events() {
    let journal = half_way();
    let plan = plan(TriggerKind::External);
    let good = Entry { at_ns: 2_000_000, what: Some(What::Decided(next())) };
    let core = recovered(&plan, &[journal.clone(), vec![good]].concat(), NOW).unwrap();
    assert_eq!((core.decided().number(), core.progress().outstanding), (8, 3));

    let runs = |first, runs: &[u32]| {
        let decisions = Some(Decisions { first, runs: runs.to_vec() });
        What::Decided(Decided { decisions, ..next() })
    };
    let blames = |inhibited: &[u64]| {
        let blame = |inhibited: &u64| Blame { cause: 1, id: 0, inhibited: *inhibited };
        let decisions = Some(Decisions { first: 8, runs: vec![2, 0] });
        let blames = inhibited.iter().map(blame).collect();
        What::Decided(Decided { decisions, triggered_ns: vec![], blames, ..next() })
    };
    let with = |change: fn(&mut Decided)| {
        let mut decided = next();
        change(&mut decided);
        What::Decided(decided)
    };
    are_refused(
        &journal,
        [
            (with(|decided| decided.decisions = None), "decisions are missing"),
            (runs(9, &[1, 3]), "do not continue"),
            (runs(0, &[1, 3]), "do not continue"),
            (runs(FAR, &[1, 3]), "do not continue"),
            (runs(8, &[1]), "odd number"),
            (runs(8, &[u32::MAX, 3]), "more events"),
            (runs(8, &[0, 3]), "covers no events"),
            (runs(8, &[1, u32::MAX - 1]), "verdict is unknown"),
            (runs(8, &[1, 1]), "closes its event"),
            (runs(8, &[1, 9]), "no such builder"),
            (runs(8, &[2, 3]), "has no trigger time"),
            (with(|decided| decided.triggered_ns.push(3)), "more trigger times"),
            (with(|decided| decided.roster_version = 7), "unknown roster version"),
            (blames(&[3]), "more than were inhibited"),
            (blames(&[FAR]), "larger than any possible"),
            (blames(&[1 << 49, 1 << 49, 1 << 49]), "larger than any possible"),
        ],
    );
    let over = Entry { at_ns: 2_000_000, what: Some(What::Over(1)) };
    are_refused(&[journal, vec![over]].concat(), [(What::Decided(next()), "takes no part")]);
}

#[test]
fn no_decision_comes_before_the_first_trigger_could() {
    let journal = half_way();
    let is_start = |entry: &Entry| matches!(entry.what, Some(What::Started(_)));
    let started = journal.iter().position(is_start).unwrap();
    let decided = Decided { decisions: Some(Decisions { first: 1, runs: vec![1, 3] }), ..next() };
    are_refused(&journal[..started], [(What::Decided(decided), "before the start")]);
}

#[test]
fn a_builder_has_no_more_events_than_slots_are_possible() {
    let times = vec![0; 1 << 16];
    let first = Decisions { first: 8, runs: vec![1 << 16, 3] };
    let full = Decided { decisions: Some(first), triggered_ns: times, ..next() };
    let mut journal = half_way();
    journal.push(Entry { at_ns: 2_000_000, what: Some(What::Decided(full)) });
    let more = Decided { decisions: Some(Decisions { first: 8 + (1 << 16), runs: vec![1, 3] }), ..next() };
    are_refused(&journal, [(What::Decided(more), "than it can have slots")]);
}

#[test]
fn events_are_settled_by_whom_they_were_given_to() {
    let reassigned =
        |builder, events: &[u64]| What::Reassigned(Reassigned { builder, events: events.to_vec() });
    let accounted = |builder, before| {
        let completions = Some(Completions { before, ..Completions::default() });
        What::Accounted(Accounted { builder, completions })
    };
    let lost = |events: &[u64]| What::Lost(Lost { events: events.to_vec(), cause: String::new() });
    let journal = half_way();
    are_refused(
        &journal,
        [
            (reassigned(1, &[2]), "has a builder"),
            (reassigned(7, &[]), "no such builder"),
            (accounted(1, 3), "do not continue"),
            (accounted(1, FAR), "do not continue"),
            (accounted(8, 0), "no such builder"),
            (What::Accounted(Accounted { builder: 1, completions: None }), "completions are missing"),
            (lost(&[1]), "not outstanding"),
            (lost(&[2, 0]), "not outstanding"),
            (lost(&[FAR, 3]), "not outstanding"),
        ],
    );
    // Unassigned events may be reassigned once, and only to a present builder.
    let journal = [journal, vec![Entry { at_ns: 2_000_000, what: Some(What::Over(2)) }]].concat();
    recovered(&plan(TriggerKind::External), &journal, NOW).unwrap();
    are_refused(
        &journal,
        [(reassigned(1, &[2, 0]), "has a builder"), (reassigned(2, &[2]), "takes no part")],
    );
}

#[test]
fn completions_of_what_a_builder_does_not_have_count_against_it_alone() {
    let mut journal = half_way();
    let completions = Completions { complete: vec![FAR, FAR, 3], before: 2, ..Completions::default() };
    let accounted = Accounted { builder: 1, completions: Some(completions) };
    journal.push(Entry { at_ns: 2_000_000, what: Some(What::Accounted(accounted)) });
    let core = recovered(&plan(TriggerKind::External), &journal, NOW).unwrap();
    let first = BuilderIndex::new(0);
    assert_eq!((core.books.present(first).faults, core.books.accounted(first)), (3, 5));
    assert_eq!((core.progress().events.complete, core.progress().outstanding), (2, 2));
}

#[test]
fn a_text_is_read_as_far_as_a_report_bears_it() {
    let mut journal = half_way();
    let problem = "ä".repeat(1 << 20);
    journal.push(Entry {
        at_ns: 2_000_000,
        what: Some(What::Finding(Finding { problem, failure: true, ..Finding::default() })),
    });
    let core = recovered(&plan(TriggerKind::External), &journal, NOW).unwrap();
    assert!(core.books.findings().failure().unwrap().len() <= 1 << 14);
    assert_eq!(text("ä"), "ä");
}

#[test]
fn counts_below_the_limit_can_be_added_up() {
    // The sum covers all outcomes of all builders, in present and earlier incarnations.
    assert!((BEYOND_ALL_RUNS - 1).checked_mul(2 * MAX_BUILDERS as u64 * 7).is_some());
}
