use core::time::Duration;

use super::*;
use crate::{
    id::{BuilderId, Epoch, EventId, RunNumber},
    supervisor::RunPlan,
    wire::{control::Completions, journal::Blame},
};

const NOW: Instant = Instant::from_nanos(3_000_000);

fn at(builder: usize) -> BuilderIndex {
    BuilderIndex::new(builder)
}

/// Returns the books of a run with one source and two builders. Each builder has two events, and
/// three triggers were inhibited.
fn books() -> Books {
    let mut books = Books::new(1, 2);
    books.start(NOW);
    for builder in [0, 1, 0, 1] {
        books.note_trigger(NOW);
        books.assign(at(builder));
    }
    books.inhibit(3, dead_time::Cause::Busy, None);
    books
}

/// Enters the events in `complete` as complete and `event` with `outcome`, all of them for builder
/// 1. The builder counts as having every event up to 100.
fn account(books: &mut Books, complete: &[u64], event: u64, outcome: Outcome, now: Instant) {
    let (missing, missing_causes) = (vec![5, 9], vec![2, 1]);
    let exception = Exception { event, outcome, missing, cause: "full disk\n".to_owned(), missing_causes };
    let mut completions = Completions { exceptions: vec![exception], ..Completions::default() };
    let mut last = EventId::default();
    complete.iter().for_each(|event| completions.add(&mut last, EventId::new(*event)));
    let source = |id: SourceId| (id.number() == 5).then(|| SourceIndex::new(0));
    books.account((at(0), &|| "builder 1".to_owned()), &completions, source, |event| event <= 100, now);
    books.invariants();
}

#[test]
fn completions_are_counted_for_the_builder_and_for_the_run() {
    let mut books = books();
    account(&mut books, &[1], 3, Outcome::Incomplete, NOW + Duration::from_secs(1));
    assert_eq!(
        (books.outstanding(at(0)), books.outstanding(at(1)), books.missing(SourceIndex::new(0))),
        (0, 2, 1)
    );
    let counts = books.counts();
    assert_eq!((counts.triggered, counts.inhibited, counts.assigned), (7, 3, 4));
    assert_eq!((counts.complete, counts.incomplete, counts.open()), (1, 1, Some(2)));
    assert_eq!(books.times().last_completion, Some(NOW + Duration::from_secs(1)));
    assert_eq!(books.missing_by_cause(SourceIndex::new(0)), &BTreeMap::from([(Cause::Silent, 1)]));
}

#[test]
fn completions_of_events_that_it_does_not_have_count_against_the_builder_alone() {
    let mut books = books();
    account(&mut books, &[101, 102], 103, Outcome::Lost, NOW);
    assert_eq!((books.present(at(0)).faults, books.outstanding(at(0)), books.counts().lost), (3, 2, 0));
    assert_eq!(books.times().last_completion, None);
}

#[test]
fn completions_that_are_known_are_skipped_and_missing_ones_are_a_gap() {
    let mut books = books();
    account(&mut books, &[1], 3, Outcome::Rejected, NOW);
    let from = |before| Completions { before, ..Completions::default() };
    assert_eq!(books.known(at(0), &from(0)), Ok(2));
    assert_eq!(books.known(at(0), &from(2)), Ok(0));
    assert_eq!(books.known(at(0), &from(3)), Err(Gap { before: 3, accounted: 2 }));
    assert!(!books.owes_answers());
    books.owe_answer(at(0));
    assert_eq!(books.take_unanswered(), [at(0)].into_iter().collect());
    assert_eq!((books.owes_answers(), books.accounted(at(0))), (false, 2));
}

#[test]
fn a_lost_event_has_a_cause() {
    let mut books = books();
    account(&mut books, &[], 1, Outcome::Lost, NOW);
    books.take_away(at(0), 1);
    books.lose([None, Some(at(1))].into_iter(), "no builder came".to_owned());
    books.invariants();
    assert_eq!((books.counts().lost, books.total(at(1)).all_lost(), books.outstanding(at(1))), (3, 1, 1));
    let sentences = books.findings().sentences();
    assert_eq!(
        sentences,
        [
            "1 event lost: builder 1: full disk; check the disk or program to which its sink writes, and its log, which names the events",
            "2 events lost: no builder came"
        ]
    );
}

#[test]
fn the_totals_of_a_builder_span_its_incarnations() {
    let mut books = books();
    account(&mut books, &[1], 3, Outcome::Incomplete, NOW);
    books.begin_incarnation(at(0));
    books.take_over(at(0), 1);
    books.take_away(at(1), 1);
    books.invariants();
    assert_eq!(books.present(at(0)).assigned, 1, "the new incarnation took one event over");
    assert_eq!(books.total(at(0)).assigned, 3, "all incarnations together");
    assert_eq!(books.past_written(at(0)), 2, "the earlier incarnation wrote the others");
    // A report of the new incarnation begins at zero.
    assert_eq!(books.known(at(0), &Completions { before: 0, ..Completions::default() }), Ok(0));
}

#[test]
fn findings_are_written_down_and_causes_of_dead_time_with_the_next_decision() {
    let (sources, builders) = (vec![SourceId::new(5)], vec![BuilderId::new(1)]);
    let plan = RunPlan::new(RunNumber::new(1), Epoch::new(1), sources, builders);
    let mut outbox = Outbox::new(&RunPlan { journal: true, ..plan });
    let mut books = books();
    books.remark("it was slow".to_owned(), &mut outbox, NOW);
    books.inhibit(2, dead_time::Cause::Paused, outbox.blames());
    let blames = outbox.blames().map(|blames| blames.messages());
    assert_eq!(blames, Some(vec![Blame { cause: 1, id: 0, inhibited: 2 }]));
    assert!(outbox.pop().is_some() && outbox.pop().is_none());
    let causes = books.dead_time().causes(&[]);
    let seen: Vec<_> = causes.iter().map(|cause| (cause.cause.as_str(), cause.inhibited)).collect();
    assert_eq!(seen, [("builders are busy", 3), ("paused", 2)]);
}
