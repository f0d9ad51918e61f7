use std::path::Path;

use evb_core::{
    event::Cause,
    ledger::{Contradiction, EventCounts},
    supervisor::{BuilderLive, FilterSurvey, FrontEndSurvey, GroupSurvey, SourceLive},
};

use super::*;

fn source(id: u16, presence: Presence) -> SourceSurvey {
    SourceSurvey {
        parting: String::new(),
        front_ends: None,
        id,
        name: String::new(),
        presence,
        incarnation: 1,
        missing: 3,
        missing_by_cause: [(Cause::Down, 3)].into(),
        absent: 0,
        expendable: false,
        sporadic: false,
        exclusion: None,
        last: 0,
        last_by_us: 0.0,
        alignment: None,
        live: None,
    }
}

fn builder(id: u16, presence: Presence, live: Option<BuilderLive>) -> BuilderSurvey {
    BuilderSurvey {
        parting: String::new(),
        id,
        name: String::new(),
        presence,
        incarnation: 1,
        listen: String::new(),
        tap: String::new(),
        slots: 16,
        outstanding: 4,
        at_sink: 4,
        complete: 0,
        incomplete: 0,
        lost: 0,
        live,
    }
}

fn words(survey: &Survey) -> Vec<String> {
    let of = |problem: &Problem| format!("{}: {}", problem.subject, problem.text);
    problems(survey, None).iter().map(of).collect()
}

#[test]
fn a_source_without_readout_is_named_with_its_connections_and_its_last_fragment() {
    let live = Some(SourceLive { last_fragment_age_s: Some(7.3), ..SourceLive::default() });
    let of = |front_ends, live| SourceSurvey { front_ends, live, ..source(2, Presence::NoReadout) };
    let front_ends = |expected, connected| Some(FrontEndSurvey { expected, connected });
    let sources = vec![of(front_ends(1, 0), None), of(front_ends(4, 3), live.clone()), of(None, live)];
    assert_eq!(
        words(&Survey { running_s: 3.0, sources, ..Survey::default() }),
        [
            "source 2: no readout: no front end is connected, no fragment yet; 3 events built without it",
            "source 2: no readout: front ends connected: 3 of 4, last fragment 7 s ago; 3 events built without it",
            "source 2: no readout: last fragment 7 s ago; 3 events built without it",
        ]
    );
}

#[test]
fn culprits_are_named_the_worst_first() {
    let slow = BuilderLive {
        last_commit_age_s: Some(3.0),
        sink_free_bytes: Some(1_000_000_000),
        sink_size_bytes: Some(100_000_000_000),
        ..BuilderLive::default()
    };
    let survey = Survey {
        running_s: 3.0,
        events: EventCounts { incomplete: 2, ..EventCounts::default() },
        sources: vec![source(1, Presence::Up), source(2, Presence::Silent)],
        builders: vec![builder(7, Presence::Up, Some(slow))],
        ..Survey::default()
    };
    assert_eq!(
        words(&survey),
        [
            "source 2: silent, without any sign of life; 3 events built without it",
            "builder 7: its sink has accepted nothing for 3 s, with 4 events waiting",
            "builder 7: its sink has 1.00 GB left of 100 GB",
            "the run: 2 events built with sources missing",
        ]
    );
    assert!(words(&Survey { running_s: 0.0, ..survey }).is_empty(), "before a run they may be missing");
}

#[test]
fn much_dead_time_is_a_severe_problem_and_very_little_is_none() {
    let cause = |fraction| CauseFraction { cause: "source 3".to_owned(), fraction };
    let mut found = Vec::new();
    of_dead_time(&[0.5, 0.21, 0.19, 0.011, 0.009].map(cause), &mut found);
    let severities: Vec<_> = found.iter().map(|problem| problem.severity).collect();
    assert_eq!(severities, [Severity::Bad, Severity::Bad, Severity::Warning, Severity::Warning]);
}

#[test]
fn a_source_that_refuses_fragments_is_named() {
    let live = Some(SourceLive { refused: 4, ..SourceLive::default() });
    let source = SourceSurvey { live, ..source(3, Presence::Up) };
    let survey = Survey { running_s: 1.0, sources: vec![source], ..Survey::default() };
    assert_eq!(words(&survey), ["source 3: refused 4 fragments of its readout, now lost"]);
    let mut survey = survey;
    survey.sources[0].name = "TPC crate 1".to_owned();
    assert_eq!(words(&survey), ["source 3 (TPC crate 1): refused 4 fragments of its readout, now lost"]);
}

#[test]
fn a_source_with_two_different_fragments_of_an_event_is_named() {
    let first = Contradiction { event: 17, first_timestamp: 100, second_timestamp: 4000 };
    let live = SourceLive { contradictions: 2, contradiction: Some(first), ..SourceLive::default() };
    let source = SourceSurvey { live: Some(live), ..source(3, Presence::Up) };
    let survey = Survey { running_s: 1.0, sources: vec![source], ..Survey::default() };
    let said =
        "source 3: two different fragments for 2 events; the first is event 17, with timestamps 100 and 4000";
    assert_eq!(words(&survey), [said]);
}

#[test]
fn a_trigger_program_that_counts_again_or_leaps_is_named() {
    let triggers =
        AnnouncementCounts { repeated: 20, restarts: 1, too_far_ahead: 2, ..AnnouncementCounts::default() };
    let survey = Survey { running_s: 1.0, triggers, ..Survey::default() };
    assert_eq!(
        words(&survey),
        [
            "the trigger program: it counts from the beginning again; 20 announcements are ignored, and make no events",
            "the trigger program: 2 announcements are more than 1048576 triggers ahead, and make no events",
        ]
    );
}

#[test]
fn the_list_has_an_end() {
    let sources = (0..100).map(|id| source(id, Presence::Absent)).collect();
    let found = problems(&Survey { running_s: 1.0, sources, ..Survey::default() }, None);
    assert_eq!((found.len(), found[LISTED].text.as_str()), (LISTED + 1, "and 80 more problems"));
}

/// Returns text and severity of the problems of a builder, of which all events wait for the sink.
fn of_live(live: BuilderLive) -> Vec<(String, Severity)> {
    let mut found = Vec::new();
    of_builder(&builder(7, Presence::Up, Some(live)), &mut found);
    found.into_iter().map(|problem| (problem.text, problem.severity)).collect()
}

#[test]
fn a_small_disk_is_named_in_its_own_unit_and_a_full_one_is_a_severe_problem() {
    let disk = |free| {
        let (sink_free_bytes, sink_size_bytes) = (Some(free), Some(6_291_456));
        of_live(BuilderLive { sink_free_bytes, sink_size_bytes, ..BuilderLive::default() })
    };
    let of = |text: &str, severity| vec![(text.to_owned(), severity)];
    assert_eq!(disk(314_573), []);
    assert_eq!(disk(314_572), of("its sink has 315 kB left of 6.29 MB", Severity::Warning));
    assert_eq!(disk(0), of("its sink has 0 B left of 6.29 MB", Severity::Bad));
}

#[test]
fn a_slow_sink_and_an_old_report_are_problems_from_their_thresholds_on() {
    let of = |last_commit_age_s, age_s| {
        let live = BuilderLive { last_commit_age_s, age_s, ..BuilderLive::default() };
        of_live(live).into_iter().map(|(_, severity)| severity).collect::<Vec<_>>()
    };
    assert_eq!(of(Some(2.0), 5.0), []);
    assert_eq!(of(Some(2.1), 0.0), [Severity::Bad]);
    assert_eq!(of(None, 5.1), [Severity::Warning]);
}

/// Returns the table of thresholds in `docs/reference/run-control.md`.
fn thresholds() -> String {
    let percent = |fraction: f64| format!("{} %", fraction * 100.0);
    let (some, much) = (percent(DEAD_TIME), percent(MUCH_DEAD_TIME));
    let nearly_full = percent(NEARLY_FULL);
    [
        "| | amber | red |".to_owned(),
        "|---|---|---|".to_owned(),
        format!("| triggers of the last second that one cause inhibits | more than {some} | more than {much} |"),
        format!("| free space of a builder's disk | less than {nearly_full} | none |"),
        format!("| time without an event that a builder's sink accepts, while events wait for it | | more than {SLOW_SINK} s |"),
        format!("| age of a builder's latest report | more than {OLD_REPORT} s | |"),
    ]
    .join("\n")
}

/// The documentation contains the table of the thresholds in the code, and the page marks a disk at
/// the same threshold.
#[test]
fn documentation_and_page_have_these_thresholds() {
    let read = |path| std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap();
    let (page, wanted) = (read("docs/reference/run-control.md"), thresholds());
    assert!(
        page.contains(&format!("<!-- thresholds -->\n{wanted}\n<!-- end of thresholds -->")),
        "write:\n{wanted}"
    );
    let script = read("crates/evb-daemon/src/control/page/peers.js");
    assert!(
        script.contains(&format!("const NEARLY_FULL = {NEARLY_FULL};")),
        "the page has another threshold"
    );
}

/// An operator who excluded a source need not be told that it is away, and an expendable one costs
/// no event.
#[test]
fn sources_that_owe_nothing_are_no_bad_problem() {
    let mut found = Vec::new();
    let excluded = SourceSurvey { exclusion: Some("no power".to_owned()), ..source(3, Presence::Absent) };
    of_source(&excluded, &mut found);
    assert_eq!(found, []);
    let expendable = SourceSurvey { expendable: true, missing: 0, absent: 7, ..source(3, Presence::Silent) };
    of_source(&expendable, &mut found);
    assert_eq!(found[0].severity, Severity::Warning);
    assert!(found[0].text.contains("7 events built without it"), "{}", found[0].text);
}

#[test]
fn a_group_with_too_few_sources_is_named_before_and_in_a_run() {
    let group =
        |present| GroupSurvey { name: "tracker".to_owned(), sources: vec![1, 2, 3], at_least: 2, present };
    let survey = |running_s, present| Survey { running_s, groups: vec![group(present)], ..Survey::default() };
    assert_eq!(
        words(&survey(0.0, 1)),
        ["group tracker: 1 of at least 2 sources take part, so the run cannot start"]
    );
    assert_eq!(
        words(&survey(3.0, 1)),
        ["group tracker: 1 of at least 2 sources take part, so the run takes no triggers"]
    );
    assert!(words(&survey(3.0, 2)).is_empty());
}

#[test]
fn a_filter_without_verdicts_is_named_and_one_that_was_started_again_too() {
    let of = |failed, restarts| {
        let fault = "worker 2 exited with code 3".to_owned();
        let filter = Some(FilterSurvey { failed, restarts, fault, ..FilterSurvey::default() });
        let live = Some(BuilderLive { filter, ..BuilderLive::default() });
        words(&Survey { running_s: 1.0, builders: vec![builder(4, Presence::Up, live)], ..Survey::default() })
    };
    assert_eq!(of(0, 0), [""; 0]);
    assert_eq!(
        of(0, 3),
        ["builder 4: evb has started 3 workers of its filter again; at last, worker 2 exited with code 3"]
    );
    assert_eq!(
        of(1, 3),
        ["builder 4: its filter did not judge 1 event; at last, worker 2 exited with code 3"]
    );
}
