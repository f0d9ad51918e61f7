use core::time::Duration;

use super::*;
use crate::{
    supervisor::tests::{Stage, builder, plan, source},
    trigger::TriggerKind,
    wire::control::{LaneReport, Message, Report, RoleReport},
};

fn so_far(report: RoleReport, live: Live) -> Message {
    Message::Report(Report { report: Some(report), live: Some(live) })
}

fn of_builder(payload_bytes: u64, lanes: &[(u32, u64, u64)], live: Live) -> Message {
    let lane = |(source, last, last_by_ns): &(u32, u64, u64)| LaneReport {
        source: *source,
        last: *last,
        last_by_ns: *last_by_ns,
        ..LaneReport::default()
    };
    let lanes: Vec<_> = lanes.iter().map(lane).collect();
    let sum = LaneReport { crc_errors: payload_bytes, late: 2, duplicate: 3, ..LaneReport::default() };
    let sum = Some(Box::new(sum));
    so_far(RoleReport::Builder(BuilderReport { payload_bytes, lanes, sum, ..BuilderReport::default() }), live)
}

#[test]
fn a_survey_shows_the_latest_report_of_each_peer() {
    let mut stage = Stage::running(plan(TriggerKind::External));
    assert_eq!(stage.core.survey(stage.now).sources[0].live, None, "there is no report yet");
    let own = SourceReport { pushed: 7, pushed_bytes: 700, refused: 2, ..SourceReport::default() };
    let live = Live { backlog_bytes: 100, processor_ns: 1_000_000_000, ..Live::default() };
    stage.says(source(3), so_far(RoleReport::Source(own.clone()), live));
    stage.now += Duration::from_millis(500);
    let own = SourceReport { pushed: 9, ..own };
    let live = Live { processor_ns: 1_250_000_000, ..Live::default() };
    stage.says(source(3), so_far(RoleReport::Source(own), live));
    stage.now += Duration::from_millis(200);
    let survey = stage.core.survey(stage.now);
    let seen = survey.sources[0].live.clone().expect("reported");
    assert_eq!((seen.pushed, seen.pushed_bytes, seen.refused, seen.backlog_bytes), (9, 700, 2, 0));
    assert!((seen.processor_fraction - 0.5).abs() < 1e-9 && (seen.age_s - 0.2).abs() < 1e-9, "{seen:?}");
    assert!(survey.sources[1].live.is_none() && stage.dropped.is_empty());
}

#[test]
fn totals_add_up_over_builders() {
    let mut stage = Stage::running(plan(TriggerKind::External));
    let live = Live {
        building: 2,
        latency: vec![8, 3],
        since_commit_ns: 1,
        disk_free_bytes: 5,
        disk_bytes: 10,
        ..Live::default()
    };
    stage.says(builder(1), of_builder(1000, &[(3, 4, 8000), (5, 1, 1000)], live.clone()));
    stage.says(builder(2), of_builder(500, &[(3, 1, 2000)], Live { disk_bytes: 0, ..live }));
    let survey = stage.core.survey(stage.now);
    assert_eq!((survey.payload_bytes, survey.latencies.count()), (1500, 6));
    let source = &survey.sources[0];
    assert!(source.last == 5 && (source.last_by_us - 2.0).abs() < 1e-9, "{source:?}");
    let [first, second] = [0, 1].map(|index: usize| survey.builders[index].live.clone().expect("reported"));
    assert_eq!((first.building, first.sink_free_bytes, second.sink_free_bytes), (2, Some(5), None));
    assert_eq!(survey.latency_us.map(|latency| latency.max), Some(9));
}

/// Tests docs/reference/protocol.md RUN-37.
#[test]
fn an_interim_report_changes_the_lanes_that_it_has_and_replaces_the_sums() {
    let mut stage = Stage::running(plan(TriggerKind::External));
    stage.says(builder(1), of_builder(7, &[(3, 4, 8000), (5, 1, 1000)], Live::default()));
    stage.says(builder(1), of_builder(9, &[(5, 3, 6000)], Live::default()));
    let survey = stage.core.survey(stage.now);
    let last = [0, 1].map(|index: usize| (survey.sources[index].last, survey.sources[index].last_by_us));
    assert_eq!(last, [(4, 2.0), (3, 2.0)]);
    let live = survey.builders[0].live.clone().expect("reported");
    assert_eq!((live.crc_errors, live.late, live.duplicate), (9, 2, 3));
}

#[test]
fn nonsense_closes_the_connection_and_leaves_the_ledger_alone() {
    let mut stage = Stage::running(plan(TriggerKind::External));
    let many = [(3, 1, 1), (5, 1, 1), (7, 1, 1)];
    stage.says(builder(1), of_builder(1, &many, Live::default()));
    assert_eq!(stage.dropped, [builder(1)]);
    let of_another_role = so_far(RoleReport::Builder(BuilderReport::default()), Live::default());
    stage.says(source(3), of_another_role);
    assert_eq!(stage.dropped, [builder(1), source(3)]);
}
