use std::time::Duration;

use evb::role::RunOutcome;
use evb_core::{
    id::{BuilderId, Epoch, Peer, RunNumber, SourceId},
    wire::control::{BuilderReport, Report, RoleReport, SourceReport},
};
use serde_json::Value;

use super::part;

fn outcome(report: RoleReport, took_part: Option<Duration>) -> RunOutcome {
    RunOutcome {
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
