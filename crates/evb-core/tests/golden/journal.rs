//! One entry of the journal of each kind, with a value of its own in each field.

use evb_core::{
    id::RunId,
    wire::{
        control::{Absence, Begin, Completions, Decisions, Episode, Exception, Exclusion, Outcome, Role},
        journal::{
            Accounted, Begun, Blame, BuilderCounts, BuilderTotals, CauseOfLoss, Change, Decided, Entry,
            Expectation, Finding, Held, Judged, Lost, Membership, Reassigned, Registered, Resumed,
            RosterChange, SourceTotals, Started, Totals, What,
        },
    },
};

const RUN_ID: RunId = RunId::new(0x5eed_cafe << 96 | 7);

/// Returns the entries with their names.
pub(crate) fn entries() -> Vec<(&'static str, Entry)> {
    changes()
        .into_iter()
        .zip(1..)
        .map(|((name, what), at_ns)| (name, Entry { at_ns, what: Some(what) }))
        .collect()
}

fn changes() -> Vec<(&'static str, What)> {
    let begun = Begun {
        run: 7,
        epoch: 1_763_731_564_000_000,
        seed: 3,
        sources: vec![1, 3, 4000],
        builders: vec![1, 2],
        boot_id: "boot".to_owned(),
        run_id: RUN_ID,
    };
    let registered = Registered {
        role: Role::Builder,
        id: 2,
        incarnation: 4,
        max_fragment: 1000,
        listen: "10.0.0.1:7001".to_owned(),
        highest_run: 7,
    };
    let decided = Decided {
        decisions: Some(Decisions { first: 41, runs: vec![1, 3, 2, 4, 3, 0, 1, 1] }),
        roster_version: 5,
        triggered_ns: vec![5_000_000, 500],
        blames: vec![blame()],
    };
    let exception = Exception {
        event: 44,
        outcome: Outcome::Lost,
        missing: vec![3],
        cause: "disk".to_owned(),
        missing_causes: vec![2],
    };
    let absence = Absence { events: 2, sources: vec![3], causes: vec![16] };
    let completions = Completions {
        complete: vec![86, 1],
        exceptions: vec![exception],
        before: 9,
        absences: vec![absence],
    };
    let finding = Finding { problem: "source 3 was down".to_owned(), failure: true, remark: true };
    let begin = Begin {
        run: 7,
        run_id: RUN_ID,
        begun_utc_ns: 1_763_731_570_000_000_000,
        begun_ns: 5_000_000,
        clock_state: 1,
        kind: "cosmics".to_owned(),
        comment: "new crate".to_owned(),
        ..Begin::default()
    };
    vec![
        ("begun", What::Begun(begun)),
        ("epoch", What::Epoch(1_763_731_564_000_001)),
        ("registered", What::Registered(registered)),
        ("started", What::Started(Started::default())),
        (
            "roster",
            What::Roster(RosterChange {
                version: 5,
                up: vec![0, 1],
                awaited: vec![2],
                quiet: vec![1],
                excluded: vec![3, 4],
                released: vec![3],
            }),
        ),
        ("decided", What::Decided(decided)),
        ("reassigned", What::Reassigned(Reassigned { builder: 2, events: vec![42, 1] })),
        ("accounted", What::Accounted(Accounted { builder: 2, completions: Some(completions) })),
        ("over", What::Over(2)),
        ("lost", What::Lost(Lost { events: vec![45, 1], cause: "builder 2".to_owned() })),
        ("membership", What::Membership(Membership { builder: 2, change: Change::Leaving })),
        ("finding", What::Finding(finding)),
        ("paused", What::Paused(true)),
        ("stopping", What::Stopping("enough".to_owned())),
        ("ended", What::Ended(1)),
        ("totals", What::Totals(totals())),
        ("rate", What::Rate(2.5)),
        ("resumed", What::Resumed(Resumed { boot_id: "another boot".to_owned() })),
        ("begin", What::Begin(begin)),
        (
            "judged",
            What::Judged(Judged {
                source: 3,
                is_misaligned: true,
                since: 41,
                sentence: "missed 1 trigger".to_owned(),
            }),
        ),
        (
            "exclusion",
            What::Exclusion(Exclusion {
                source: 3,
                is_excluded: true,
                from: 41,
                why: "no power".to_owned(),
                utc_ns: 5,
            }),
        ),
        ("episode", What::Episode(Episode { source: 3, since: 41, shift: 1, ..Episode::default() })),
    ]
}

fn blame() -> Blame {
    Blame { cause: 2, id: 3, inhibited: 4 }
}

fn totals() -> Totals {
    let counts = BuilderCounts {
        assigned: 1,
        complete: 2,
        incomplete: 3,
        rejected: 4,
        lost: 5,
        moved: 6,
        lost_with_it: 7,
        faults: 8,
    };
    let source = SourceTotals {
        incarnation: 1,
        max_fragment: 2,
        missing: 3,
        down_ns: 4,
        down: true,
        missing_by_cause: vec![1, 2],
        absent_by_cause: vec![16, 5],
    };
    let builder = BuilderTotals {
        id: 2,
        incarnation: 4,
        listen: "10.0.0.1:7001".to_owned(),
        accounted: 3,
        over: true,
        membership: Change::Added,
        present: Some(counts),
        past: Some(counts),
        past_written: 9,
        past_payload_bytes: 10,
        highest_run: 51,
    };
    Totals {
        triggered: 46,
        inhibited: 3,
        lost: 1,
        roster_version: 5,
        expectations: vec![Expectation { version: 5, sources: vec![0, 1], quiet: vec![], excluded: vec![3] }],
        sources: vec![source],
        builders: vec![builder],
        held: vec![Held { builder: 1, version: 5, events: vec![42, 1], triggered_ns: vec![5_000_000, 500] }],
        blames: vec![blame()],
        losses: vec![CauseOfLoss { cause: "builder 2".to_owned(), events: 6 }],
        first_trigger_ns: 11,
        started_ns: 12,
        last_completion_ns: 13,
        up: vec![0, 1],
        awaited: vec![2],
        excluded: vec![3, 4],
        released: vec![3],
    }
}
