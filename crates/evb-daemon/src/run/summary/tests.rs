use std::time::Duration;

use evb::role::RunOutcome;
use evb_core::{
    id::{BuilderId, Epoch, Peer, RunId, RunNumber, SourceId},
    wire::control::{BuilderReport, PathReport, Report, RoleReport, SourceReport},
};
use serde_json::Value;

use super::part;
use crate::tests::recorded;

fn outcome(report: RoleReport, took_part: Option<Duration>) -> RunOutcome {
    RunOutcome {
        run_id: RunId::new(1),
        run: RunNumber::new(1),
        epoch: Epoch::new(1),
        exit_code: 0,
        verdict: "clean".to_owned(),
        report: Some(Report { report: Some(report), ..Report::default() }),
        took_part,
    }
}

fn source(took_part: Option<Duration>) -> (Peer, RunOutcome) {
    let report = RoleReport::Source(SourceReport { pushed: 30, ..SourceReport::default() });
    (Peer::Source(SourceId::new(1)), outcome(report, took_part))
}

fn builder(took_part: Option<Duration>) -> (Peer, RunOutcome) {
    let own = BuilderReport { complete: 20, incomplete: 10, payload_bytes: 6000, ..BuilderReport::default() };
    (Peer::Builder(BuilderId::new(1)), outcome(RoleReport::Builder(own), took_part))
}

fn json(parts: &[(Peer, RunOutcome)]) -> Value {
    serde_json::from_str(&part::json(&part::report(parts)).unwrap()).unwrap()
}

#[test]
fn rates_are_by_the_time_that_the_builders_took_part() {
    let json = json(&[source(Some(Duration::from_secs(2))), builder(Some(Duration::from_secs(3)))]);
    assert_eq!(json["duration_s"], 3.0);
    assert_eq!(
        (&json["rates"]["events_per_s"], &json["rates"]["payload_bytes_per_s"]),
        (&10.0.into(), &2000.0.into())
    );
}

#[test]
fn the_worst_paths_are_named() {
    let path = |builder, tcp_retransmits, resends| PathReport { builder, tcp_retransmits, resends };
    let paths = vec![path(2, 4, 0), path(3, 0, 1), path(4, 2, 7)];
    let own = RoleReport::Source(SourceReport { paths, ..SourceReport::default() });
    let mut report = part::report(&[(Peer::Source(SourceId::new(1)), outcome(own, None))]);
    report.sources[0].name = "TPC crate 1".to_owned();
    report.events.written = 1;
    let text = super::details(&report);
    assert!(text.starts_with("  accepted       1 event by the sinks\n"), "{text}");
    let rows: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("  path           ")).collect();
    assert_eq!(
        rows,
        [
            "source 1 (TPC crate 1) to builder 4: 2 TCP retransmits, 7 ranges sent again",
            "source 1 (TPC crate 1) to builder 2: 4 TCP retransmits",
            "source 1 (TPC crate 1) to builder 3: 1 range sent again",
        ]
    );
    let json: Value = serde_json::from_str(&part::json(&report).unwrap()).unwrap();
    assert_eq!(json["paths"][0]["builder"], 4);
    assert_eq!(json["paths"].as_array().map(Vec::len), Some(3));
}

#[test]
fn what_a_part_does_not_know_has_no_key() {
    let alone = json(&[source(Some(Duration::from_secs(2)))]);
    assert_eq!((&alone["duration_s"], alone.get("rates")), (&2.0.into(), None));
    for parts in [&[source(None)][..], &[builder(None)], &[]] {
        let json = json(parts);
        for key in ["duration_s", "rates", "dead_time_fraction", "busy_fraction"] {
            assert_eq!(json.get(key), None, "{json:#}");
        }
        assert!(json.get("events").is_some(), "{json:#}");
    }
}

#[test]
fn the_summaries_of_recorded_runs_stay_the_same() {
    recorded::compare("summary.txt", |run| {
        let json = recorded::lines(&serde_json::to_value(&run.report).unwrap());
        format!("{json}{}\n{}", run.report, super::details(&run.report))
    });
}

#[test]
fn the_summaries_of_the_hosts_of_recorded_runs_stay_the_same() {
    recorded::compare("part.txt", |run| recorded::lines(&json(&run.outcomes)));
}
