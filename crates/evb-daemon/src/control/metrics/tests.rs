use std::{collections::BTreeSet, env, fs, path::Path};

use evb_core::{
    event::Cause,
    supervisor::{AlignmentState, AlignmentSurvey, BuilderLive, FilterSurvey, SourceLive, TapSurvey},
};

use super::*;
use crate::tests::recorded;

fn status() -> Status {
    let mut latencies = Latencies::new();
    [5, 100, 30_000_000].iter().for_each(|micros| latencies.record(*micros));
    let builder = BuilderSurvey {
        parting: String::new(),
        id: 3,
        name: String::new(),
        presence: Presence::Up,
        incarnation: 1,
        listen: String::new(),
        tap: String::new(),
        slots: 16,
        outstanding: 5,
        at_sink: 2,
        complete: 9,
        incomplete: 0,
        lost: 0,
        live: Some(BuilderLive {
            latencies,
            sink_free_bytes: Some(1),
            sink_size_bytes: Some(2),
            last_commit_age_s: Some(0.5),
            tap: Some(TapSurvey { clients: 2, seen: 10, sent: 1, sampled_out: 6, dropped: 3 }),
            filter: Some(FilterSurvey {
                ready: 2,
                kept: 5,
                dropped: 4,
                failed: 1,
                restarts: 8,
                ..FilterSurvey::default()
            }),
            ..BuilderLive::default()
        }),
    };
    let source = SourceSurvey {
        parting: String::new(),
        front_ends: None,
        id: 7,
        name: "TPC \"1\"".to_owned(),
        presence: Presence::Silent,
        incarnation: 1,
        missing: 4,
        missing_by_cause: [(Cause::Down, 3), (Cause::Silent, 1)].into(),
        absent: 2,
        expendable: true,
        sporadic: false,
        exclusion: None,
        last: 3,
        last_by_us: 1.5,
        alignment: Some(AlignmentSurvey {
            state: AlignmentState::Misaligned,
            since: 41,
            sentence: "missed 1 trigger".to_owned(),
        }),
        live: Some(SourceLive::default()),
    };
    let problem = |severity, text: &str| Problem {
        severity,
        subject: "source 7".to_owned(),
        text: text.to_owned(),
        remedy: String::new(),
    };
    let mut status = Status {
        state: State::Running,
        run: Some(2),
        problems: vec![
            problem(Severity::Bad, "silent; 4 events"),
            problem(Severity::Bad, "silent; 5 events"),
            problem(Severity::Warning, "slow"),
        ],
        survey: Some(Survey { sources: vec![source], builders: vec![builder], ..Survey::default() }),
        ..Status::default()
    };
    status.totals.events.complete = 9;
    status.totals.dead_time.insert("sink of \"b\" \\ 1\n".to_owned(), 7);
    status
}

fn hooks() -> Vec<HookStatus> {
    let (succeeded, failed, dropped, pending) = (8, 1, 2, 3);
    vec![HookStatus { hook: "run_ends", succeeded, failed, dropped, pending, last_failure: None }]
}

#[test]
fn counters_gauges_and_histograms_are_there() {
    let text = render(status(), hooks());
    for line in [
        "evb_hook_calls_total{hook=\"run_ends\",outcome=\"succeeded\"} 8",
        "evb_hook_calls_total{hook=\"run_ends\",outcome=\"dropped\"} 2",
        "evb_hook_pending_calls{hook=\"run_ends\"} 3.0",
        "# TYPE evb_events counter",
        "evb_events_total{outcome=\"complete\"} 9",
        "evb_run_state{state=\"running\"} 1.0",
        "evb_run_state{state=\"paused\"} 0.0",
        "evb_builder_busy_slots{builder=\"3\",state=\"building\"} 3.0",
        "evb_builder_tap_clients{builder=\"3\"} 2.0",
        "evb_builder_tap_events_total{builder=\"3\",fate=\"sampled_out\"} 6",
        "evb_builder_filter_workers{builder=\"3\"} 2.0",
        "evb_builder_filter_restarts_total{builder=\"3\"} 8",
        "evb_builder_filter_events_total{builder=\"3\",verdict=\"failed\"} 1",
        "evb_build_latency_seconds_count{builder=\"3\"} 3",
        "evb_build_latency_seconds_bucket{le=\"0.000007\",builder=\"3\"} 1",
        "evb_build_latency_seconds_bucket{le=\"+Inf\",builder=\"3\"} 3",
        "evb_problems{severity=\"bad\",subject=\"source 7\"} 2.0",
        "evb_problems{severity=\"warning\",subject=\"source 7\"} 1.0",
        "evb_peer_up{role=\"source\",id=\"7\"} 0.0",
        "evb_source_info{source=\"7\",name=\"TPC \\\"1\\\"\"} 1.0",
        "evb_source_last_events_total{source=\"7\"} 3",
        "evb_source_missing_events_total{source=\"7\"} 4",
        "evb_source_missing_by_cause_events_total{source=\"7\",cause=\"down\"} 3",
        "evb_source_missing_by_cause_events_total{source=\"7\",cause=\"silent until the deadline\"} 1",
        "evb_source_late_seconds_total{source=\"7\"} 0.0000045",
        "evb_dead_time_triggers_total{cause=\"sink of \\\"b\\\" \\\\ 1\\n\"} 7",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
    }
    assert!(!text.contains("evb_builder_info{"), "builder 3 has no name");
    assert!(text.ends_with("# EOF\n"));
}

#[test]
fn the_older_format_names_counters_by_their_total() {
    let text = in_plain_text(&render(status(), Vec::new()));
    assert!(text.contains("# TYPE evb_events_total counter\nevb_events_total{outcome="), "{text}");
    assert!(text.contains("# TYPE evb_run_state gauge\n") && !text.contains("EOF"));
}

#[test]
fn lateness_never_goes_back() {
    let seconds = |last: u64, nanoseconds: u64| {
        let mut status = status();
        let survey = status.survey.as_mut().unwrap();
        survey.sources[0].last = last;
        survey.sources[0].last_by_us = nanoseconds as f64 / 1e3 / last as f64;
        let text = render(status, Vec::new());
        let line = text.lines().find(|line| line.starts_with("evb_source_late_seconds_total{")).unwrap();
        line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap()
    };
    // The status has the mean lateness over the events in which the source came last. The metric
    // must restore their sum from it, and never decrease.
    let all: Vec<f64> = (1..2000).map(|last| seconds(last, 123_456_789_012_345)).collect();
    assert!(all.is_sorted() && all[0] == 123_456.789_012_345, "{all:?}");
}

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)).unwrap()
}

/// Returns names and types of all metrics in the older text format.
fn rendered() -> BTreeSet<(String, String)> {
    let text = in_plain_text(&render(status(), Vec::new()));
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    types.map(|(name, kind)| (name.to_owned(), kind.to_owned())).collect()
}

#[test]
fn the_how_to_lists_every_metric() {
    let page = read("docs/how-to/monitor.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `evb_")?.split_once("` | "));
    let listed: BTreeSet<_> = rows
        .map(|(name, rest)| (format!("evb_{name}"), rest.split(' ').next().unwrap().to_owned()))
        .collect();
    assert_eq!(listed, rendered());
}

/// Returns the rows of the metrics in the table of counters.
fn rows<L>(role: &str, counters: &[ledger::Counter<L>]) -> Vec<(String, String)> {
    let row = |counter: &ledger::Counter<L>| {
        let metric = counter.metric?;
        let kind = if matches!(metric, Metric::Counter(_)) { "counter" } else { "gauge" };
        let start = format!("| `{}` |", metric.full_name());
        let (first, rest) = counter.sentence().split_at(1);
        // Abbreviations stay in capitals.
        let is_word = rest.starts_with(char::is_lowercase);
        let first = if is_word { first.to_lowercase() } else { first.to_owned() };
        let meaning = format!("{first}{}", rest.trim_end_matches('.'));
        Some((start.clone(), format!("{start} {kind} | `{role}` | {meaning} |")))
    };
    counters.iter().filter_map(row).collect()
}

/// Returns the page with the rows of the table of counters. A new row comes behind the last one of
/// its role.
fn with_rows(page: &str) -> String {
    let mut lines: Vec<String> = page.lines().map(ToOwned::to_owned).collect();
    let sources = rows("source", SourceLive::COUNTERS);
    for (start, row) in sources.into_iter().chain(rows("builder", BuilderLive::COUNTERS)) {
        let role = start.split_inclusive('_').take(2).collect::<String>();
        let last = lines.iter().rposition(|line| line.starts_with(&role)).unwrap();
        match lines.iter_mut().find(|line| line.starts_with(&start)) {
            Some(line) => *line = row,
            None => lines.insert(last + 1, row),
        }
    }
    lines.join("\n") + "\n"
}

#[test]
fn the_rows_of_reported_counters_are_those_of_their_table() {
    let page = read("docs/how-to/monitor.md");
    let made = with_rows(&page);
    if env::var_os("EVB_BLESS").is_some() && made != page {
        // Another test reads the file at the same time.
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/how-to/monitor.md");
        let new = path.with_extension("new");
        fs::write(&new, &made).and_then(|()| fs::rename(new, path)).unwrap();
        return;
    }
    for (kept, made) in page.lines().zip(made.lines()) {
        assert_eq!(kept, made, "EVB_BLESS=1 cargo test -p evb-daemon --lib metrics");
    }
    assert_eq!(page.lines().count(), made.lines().count());
}

#[test]
fn board_and_rules_ask_for_metrics_that_there_are() {
    let known: BTreeSet<_> = rendered().into_iter().map(|(name, _)| name).collect();
    for path in
        ["dist/grafana/evb.json", "dist/prometheus/evb.rules.yml", "dist/prometheus/evb.rules.test.yml"]
    {
        let text = read(path);
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let asked: BTreeSet<_> = words.filter(|word| word.starts_with("evb_")).collect();
        assert!(asked.len() > 10, "{path}: {asked:?}");
        for name in asked {
            assert!(known.contains(name.trim_end_matches("_bucket")), "{path} asks for {name}");
        }
    }
}

/// Returns metrics with their families in alphabetical order.
fn sorted(text: &str) -> String {
    let (_, families) = text.split_once("# HELP ").expect("a family");
    let mut families: Vec<_> = families
        .trim_end_matches("# EOF\n")
        .split("# HELP ")
        .map(|family| format!("# HELP {family}"))
        .collect();
    families.sort();
    families.concat()
}

#[test]
fn the_metrics_of_recorded_runs_stay_the_same() {
    recorded::compare("metrics.txt", |run| sorted(&render(run.status(), Vec::new())));
}

#[test]
fn the_status_of_recorded_runs_stays_the_same() {
    recorded::compare("status.txt", |run| recorded::lines(&serde_json::to_value(run.status()).unwrap()));
}
