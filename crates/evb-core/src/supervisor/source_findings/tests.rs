use std::collections::BTreeMap;

use super::*;
use crate::{
    ledger::{IGNORED_TRIGGERS, Rank},
    supervisor::announcements,
    trigger::numbers::AnnouncementCounts,
};

#[test]
fn the_worst_ten_sources_are_named_and_the_others_counted() {
    let source = |id: u16| SourceSummary {
        id,
        reported: !(5..=40).contains(&id),
        missing: u64::from(id),
        missing_by_cause: [(Cause::Down, u64::from(id) - 1), (Cause::Silent, 1)].into(),
        down_s: if id == 4 { 1.5 } else { 0.0 },
        crc_errors: u64::from(id == 2),
        ..SourceSummary::default()
    };
    let few: Vec<_> = (1..=4).map(source).collect();
    let expected = [
        "source 1 is missing in 1 event (0 down, 1 silent until the deadline); look at its readout, its host and its network, then at its log",
        "source 2 is missing in 2 events (1 down, 1 silent until the deadline); look at its readout, its host and its network, then at its log",
        "1 fragment of source 2 was damaged on the way (wrong checksum), now lost: check the network and the memory of its host",
        "source 3 is missing in 3 events (2 down, 1 silent until the deadline); look at its readout, its host and its network, then at its log",
        "source 4 is missing in 4 events (3 down, 1 silent until the deadline), and was down for 1.500 s; look at its readout, its host and its network, then at its log",
    ];
    assert_eq!(problems(&few, true), expected);
    let many: Vec<_> = (1..=1000).map(source).collect();
    let found = problems(&many, true);
    assert_eq!(found.len(), 10 + 1 + 2);
    assert_eq!(
        found[..2],
        [
            "1 fragment of source 2 was damaged on the way (wrong checksum), now lost: check the network and the memory of its host",
            "source 991 is missing in 991 events (990 down, 1 silent until the deadline); look at its readout, its host and its network, then at its log"
        ]
    );
    assert_eq!(
        found[11..],
        [
            "990 more sources (ids 1-990) are missing in up to 990 events each; look at their readouts, their hosts and the network, then at their logs",
            "36 sources gave no final report, so their own counts may be incomplete, but those of events are right: see whether they crashed, in the logs of sources 5-40"
        ]
    );
}

#[test]
fn a_source_that_lacks_only_the_last_events_may_have_missed_triggers() {
    let source = |missing: u64, missing_at_end: u64, cause| SourceSummary {
        id: 7,
        reported: true,
        fragments: 1000 - missing,
        missing,
        missing_at_end,
        missing_by_cause: [(cause, missing)].into(),
        ..SourceSummary::default()
    };
    let of_board = "its board may have missed";
    let what_to_do = "so that later fragments are in wrong events; look at its trigger input, and set `clock` in its `[[source]]`, so that evb can tell in later runs";
    let cases = [
        (
            source(1, 1, Cause::Silent),
            format!(
                "source 7 delivered 999 of 1000 fragments, none for the last event: {of_board} one before, {what_to_do}"
            ),
        ),
        (
            source(3, 3, Cause::Silent),
            format!(
                "source 7 delivered 997 of 1000 fragments, none for the last 3 events: {of_board} as many triggers before, {what_to_do}"
            ),
        ),
        (
            source(3, 2, Cause::Silent),
            "source 7 is missing in 3 events (3 silent until the deadline); look at its readout, its host and its network, then at its log".to_owned(),
        ),
        (source(3, 3, Cause::Down), "source 7 is missing in 3 events (3 down); look at its readout, its host and its network, then at its log".to_owned()),
        (
            source(400, 400, Cause::Silent),
            "source 7 is missing in 400 events (400 silent until the deadline); look at its readout, its host and its network, then at its log".to_owned(),
        ),
    ];
    for (source, expected) in cases {
        assert_eq!(problems(&[source], true), [expected]);
    }
}

/// Each count of unused data has a finding of its rank. A fragment that came too late is named by
/// the event that lacks it.
#[test]
fn what_is_not_used_is_found_by_its_rank() {
    let mut sources: BTreeMap<&str, fn(&mut SourceSummary)> = BTreeMap::new();
    sources.insert("sources[].inhibited", |source| source.inhibited = 3);
    sources.insert("sources[].uncommitted", |source| source.uncommitted = 3);
    sources.insert("sources[].duplicate", |source| source.duplicate = 3);
    sources.insert("sources[].discarded_before_start", |source| source.discarded_before_start = 3);
    sources.insert("sources[].pushed_while_excluded", |source| source.pushed_while_excluded = 3);
    sources.insert("sources[].of_other_runs", |source| source.of_other_runs = 3);
    sources.insert("sources[].malformed", |source| source.malformed = 3);
    sources.insert("sources[].garbage_bytes", |source| source.garbage_bytes = 3);
    sources.insert("sources[].unused_packets", |source| source.unused_packets = 3);
    sources.insert("sources[].repeats", |source| source.repeats = 3);
    sources.insert("sources[].repeats_not_compared", |source| source.repeats_not_compared = 3);
    sources.insert("sources[].unexpected", |source| source.unexpected = 3);
    sources.insert("sources[].closed", |source| (source.closed, source.missing) = (3, 3));
    sources.insert("sources[].contradictions", |source| source.contradictions = 3);
    sources.insert("sources[].refused", |source| source.refused = 3);
    sources.insert("sources[].unplaced", |source| source.unplaced = 3);
    sources.insert("sources[].lost_wraps", |source| source.lost_wraps = 3);
    sources.insert("sources[].counter_invalid", |source| source.counter_invalid = 3);
    sources.insert("sources[].late", |source| (source.late, source.missing) = (3, 3));
    sources.insert("sources[].crc_errors", |source| source.crc_errors = 3);
    let mut triggers: BTreeMap<&str, fn(&mut AnnouncementCounts)> = BTreeMap::new();
    triggers.insert("triggers.before_start", |counts| counts.before_start = 3);
    triggers.insert("triggers.repeated", |counts| counts.repeated = 3);
    triggers.insert("triggers.too_far_ahead", |counts| counts.too_far_ahead = 3);
    let of_sources =
        SourceSummary::COUNTERS.iter().map(|way| (format!("sources[].{}", way.name), way.unused));
    let of_triggers = IGNORED_TRIGGERS.iter().map(|way| (format!("triggers.{}", way.name), way.unused));
    for (counter, unused) in of_sources.chain(of_triggers) {
        let Some((rank, _)) = unused else { continue };
        let mut source = SourceSummary { id: 7, reported: true, ..SourceSummary::default() };
        let mut counts = AnnouncementCounts::default();
        match (sources.remove(counter.as_str()), triggers.remove(counter.as_str())) {
            (Some(set), None) => set(&mut source),
            (None, Some(set)) => set(&mut counts),
            _ => panic!("{} is not set by this test", counter),
        }
        let source = [source];
        let problems = [problems(&source, true), announcements::problems(&counts)].concat();
        let remarks = [remarks(&source), announcements::remarks(&counts)].concat();
        let expected = match rank {
            Rank::Nothing => (0, 0),
            Rank::Remark => (0, 1),
            Rank::Problem => (1, 0),
        };
        assert_eq!((problems.len(), remarks.len()), expected, "{}: {problems:?} {remarks:?}", counter);
        let found = [problems, remarks].concat();
        assert!(found.iter().all(|found| found.contains('3') && !found.contains('{')), "{found:?}");
    }
    assert!(sources.is_empty() && triggers.is_empty(), "not in the table: {sources:?} {triggers:?}");
}

#[test]
fn a_source_whose_fragments_do_not_state_their_run_says_so() {
    let said = |front_end_protocol| {
        let source =
            SourceSummary { id: 3, run_not_stated: 9, front_end_protocol, ..SourceSummary::default() };
        remarks(&[source])
    };
    assert_eq!(
        said(1),
        [
            "source 3: its front end speaks protocol 1, which does not state the run of its fragments; protocol 2 does: update the front end, else fragments of an earlier run may get into events"
        ]
    );
    assert_eq!(
        said(2),
        [
            "source 3: its front end did not state the run of 9 fragments, which may be of another run: let the front end state it, as protocol 2 can"
        ]
    );
}

#[test]
fn what_a_trigger_counter_shows_is_said() {
    let source = SourceSummary {
        id: 3,
        reported: true,
        counter_gaps: 2,
        counter_skipped: 9,
        counter_late: 1,
        counter_zero_skips: 1,
        counter_resets: 1,
        unplaced: 70,
        ..SourceSummary::default()
    };
    let found = [source];
    assert_eq!(
        remarks(&found),
        [
            "the trigger counter of source 3 left out 8 numbers in 2 gaps: its boards missed triggers, or fragments got lost; look at the boards and their links",
            "1 fragment of source 3 came after one with a later trigger counter, and was placed in the right events all the same; nothing needs to be done"
        ]
    );
    assert_eq!(
        problems(&found, true),
        [
            "70 fragments of source 3 were lost, because the trigger counter of its boards fell or leapt (1 reset): reset the boards before each run and never in a run, or correct `counter` in its `[[source]]`",
            "the trigger counter of source 3 left out 0 as it wrapped (1 time): its boards missed that trigger, or they never send 0, and then all later fragments are in wrong events; compare the timestamps (`evbd verify --align CONFIG`), and let the boards send 0 too"
        ]
    );
}

#[test]
fn a_sentence_about_one_fragment_is_in_the_singular() {
    let found = SourceSummary {
        id: 3,
        reported: true,
        lossy: 1,
        lost_packets: 2,
        unplaced: 1,
        counter_resets: 1,
        lost_wraps: 1,
        counter_invalid: 1,
        ..SourceSummary::default()
    };
    let found = problems(&[found], true);
    let begins = [
        "1 fragment of source 3 in complete events lacks packets (2 packets lost in all",
        "1 fragment of source 3 was lost, because the trigger counter of its boards fell",
        "1 fragment of source 3 was lost, because the trigger counter of its boards may",
        "1 fragment of source 3 was lost, because its trigger counter has more bits",
    ];
    assert_eq!(found.len(), begins.len());
    for (text, begin) in found.iter().zip(begins) {
        assert!(text.starts_with(begin), "{text}");
    }
}

#[test]
fn late_fragments_of_a_sporadic_source_are_remarked_and_no_problem() {
    let source = |sporadic| SourceSummary {
        id: 7,
        reported: true,
        fragments: 10,
        closed: 3,
        late: 1,
        sporadic,
        ..SourceSummary::default()
    };
    let said = "4 fragments of source 7, which is sporadic, came too late for their events, and were not used; nothing needs to be done, but a longer `wait` in `[[source]]` would keep more of them";
    assert_eq!(remarks(&[source(true)]), [said]);
    assert_eq!(problems(&[source(true)], true), [""; 0]);
    assert_eq!(remarks(&[source(false)]), [""; 0]);
}
