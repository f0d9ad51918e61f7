//! The scripts of the recorded runs.

use evb_core::{
    event::Cause,
    id::Peer,
    wire::control::{
        BuilderReport, ContradictionReport, DatagramTimes, GrantStages, LaneReport, Leaving, Live, Load,
        Message, Outcome, PathReport, ReadoutState, RefusalReport, RoleReport, SourceReport, TrainReport,
    },
};

use super::{
    Recorded,
    stage::{Stage, builder, numbered, plan, source},
};

/// Returns all recorded runs.
pub(super) fn all() -> Vec<Recorded> {
    vec![
        over_tcp(),
        over_datagrams(),
        incomplete(),
        builder_lost(),
        paused(),
        front_ends(),
        silent(),
        strangers(),
        trigger_program(),
        never_begun(),
    ]
}

/// Returns a source's report with numbers from `first` on, without those about its front ends.
fn of_source(first: u64) -> SourceReport {
    SourceReport {
        front_end_protocol: 0,
        run_not_stated: 0,
        counter_gaps: 0,
        counter_skipped: 0,
        counter_late: 0,
        counter_zero_skips: 0,
        counter_resets: 0,
        unplaced: 0,
        lost_wraps: 0,
        counter_invalid: 0,
        garbage_bytes: 0,
        resyncs: 0,
        ..numbered(first)
    }
}

/// Returns a builder's report with numbers from `first` on, with the lanes of that many sources.
fn of_builder(first: u64, sources: u32) -> BuilderReport {
    let lanes = (1..=sources).map(|source| lane(first + 100 * u64::from(source), source)).collect();
    BuilderReport {
        lanes,
        latency_us: vec![first, 90, 3 * first, 10],
        latency_max_us: 4 * first,
        grant_delay_us: vec![20, 5, 40, 1],
        grant_first_byte_us: vec![10, 5, 30, 1],
        gone: String::new(),
        ..numbered(first)
    }
}

/// Returns the counters of a lane without those of datagrams.
fn lane(first: u64, source: u32) -> LaneReport {
    LaneReport {
        source,
        last_by_ns: 1000 * first,
        segments: 0,
        absent: 0,
        lost_bytes: 0,
        resends: 0,
        timeouts: 0,
        late_after_loss: 0,
        duplicate_segments: 0,
        ..numbered(first)
    }
}

/// Returns the facts that only interim reports have.
fn live(first: u64) -> Live {
    Live { latency: vec![40, 7, 60, 1], since_commit_ns: 30_000_000, ..numbered(first) }
}

/// Sends an interim report of a source.
fn source_tells(stage: &mut Stage, id: u16, first: u64) {
    stage.interim(source(id), RoleReport::Source(of_source(first)), live(first + 50));
}

/// Sends an interim report of a builder, which has the sums over its lanes.
fn builder_tells(stage: &mut Stage, id: u16, first: u64) {
    let sum = LaneReport { source: 0, ..numbered(first + 100) };
    let changed = LaneReport { source: 1, last: 3, last_by_ns: 6000, ..LaneReport::default() };
    let own = BuilderReport {
        sum: Some(Box::new(sum)),
        lanes: vec![changed],
        latency_us: Vec::new(),
        grant_delay_us: Vec::new(),
        grant_first_byte_us: Vec::new(),
        gone: String::new(),
        ..numbered(first)
    };
    stage.interim(builder(id), RoleReport::Builder(own), live(first + 50));
}

/// Returns the final reports of sources and builders that count from 1.
fn finals(sources: u16, builders: u16) -> Vec<(Peer, RoleReport)> {
    let of_sources =
        (1..=sources).map(|id| (source(id), RoleReport::Source(of_source(2000 * u64::from(id)))));
    let report = |id| RoleReport::Builder(of_builder(20_000 * u64::from(id), sources.into()));
    of_sources.chain((1..=builders).map(|id| (builder(id), report(id)))).collect()
}

fn over_tcp() -> Recorded {
    let mut stage = Stage::running(plan(1, 2, 2));
    stage.trigger(24);
    (1..=2).for_each(|id| stage.complete(id, 10));
    stage.wait(500);
    (1..=2).for_each(|id| source_tells(&mut stage, id, 300 * u64::from(id)));
    (1..=2).for_each(|id| builder_tells(&mut stage, id, 5000 * u64::from(id)));
    stage.wait(100);
    stage.record("two builders over TCP");
    (1..=2).for_each(|id| stage.complete(id, 2));
    stage.end(finals(2, 2))
}

fn over_datagrams() -> Recorded {
    let mut stage = Stage::running(plan(2, 2, 1));
    stage.trigger(9);
    stage.complete(1, 9);
    builder_tells(&mut stage, 1, 700);
    stage.record("datagrams");
    let sent = |first| {
        let trains: TrainReport = numbered(first + 60);
        RoleReport::Source(SourceReport { trains: Some(trains), ..of_source(first) })
    };
    let lanes =
        vec![LaneReport { source: 1, ..numbered(31_000) }, LaneReport { source: 2, ..numbered(32_000) }];
    let times =
        DatagramTimes { recovery_us: vec![80, 3, 200, 1], recovery_max_us: 222, round_trip_us: vec![45, 9] };
    let built = BuilderReport {
        lanes,
        datagrams: Some(numbered(33_000)),
        times: Some(times),
        ..of_builder(30_000, 2)
    };
    let reports =
        vec![(source(1), sent(1000)), (source(2), sent(2000)), (builder(1), RoleReport::Builder(built))];
    stage.end(reports)
}

fn incomplete() -> Recorded {
    let mut stage = Stage::running(plan(3, 3, 1));
    stage.trigger(12);
    stage.except(1, Outcome::Incomplete, &[(2, Cause::Down), (3, Cause::Silent)], "");
    stage.except(1, Outcome::Incomplete, &[(2, Cause::LostInNetwork)], "");
    stage.except(1, Outcome::Incomplete, &[(1, Cause::Damaged), (2, Cause::Down)], "");
    stage.except(1, Outcome::Rejected, &[], "");
    stage.complete(1, 8);
    source_tells(&mut stage, 1, 400);
    source_tells(&mut stage, 3, 600);
    builder_tells(&mut stage, 1, 7000);
    stage.loses(source(2), "its process died");
    stage.wait(250);
    stage.record("incomplete events and a dead source");
    let mut reports = finals(3, 1);
    reports.remove(1);
    stage.end(reports)
}

fn builder_lost() -> Recorded {
    let mut stage = Stage::running(plan(4, 1, 2));
    stage.trigger(20);
    stage.complete(1, 4);
    stage.complete(2, 3);
    stage.except(2, Outcome::Lost, &[], "the sink refused it");
    builder_tells(&mut stage, 1, 8000);
    builder_tells(&mut stage, 2, 9000);
    stage.loses(builder(2), "its process died");
    stage.wait(100);
    stage.record("a dead builder and lost events");
    // After two leases, the other builder gets the events.
    for _ in 0..20 {
        stage.wait(100);
        stage.beat(1, Load::default());
    }
    stage.complete_all(1);
    let mut reports = finals(1, 2);
    reports.pop();
    stage.end(reports)
}

fn paused() -> Recorded {
    let mut stage = Stage::running(plan(5, 1, 1));
    stage.trigger(30);
    stage.beat(1, Load { building: 3, at_sink: 13, slowest: 1, slowest_events: 2, others_events: 1 });
    stage.trigger(4);
    stage.complete(1, 16);
    stage.pause();
    stage.trigger(5);
    source_tells(&mut stage, 1, 100);
    stage.wait(30);
    stage.record("paused");
    stage.end(finals(1, 1))
}

fn front_ends() -> Recorded {
    let mut stage = Stage::running(plan(6, 2, 1));
    stage.readout(1, ReadoutState::Present, 4, 3);
    stage.readout(2, ReadoutState::Gone, 1, 0);
    stage.trigger(5);
    stage.complete(1, 5);
    let contradiction = ContradictionReport { event: 3, first_timestamp: 17, second_timestamp: 19 };
    let first =
        |first| SourceReport { front_end_protocol: 1, contradiction: Some(contradiction), ..numbered(first) };
    let second = |first| SourceReport { front_end_protocol: 2, ..numbered(first) };
    stage.interim(source(1), RoleReport::Source(first(100)), live(200));
    stage.interim(source(2), RoleReport::Source(second(300)), Live { since_fragment_ns: 0, ..live(400) });
    stage.wait(10);
    stage.record("front ends");
    let mut reports = finals(2, 1);
    reports[0].1 = RoleReport::Source(first(500));
    reports[1].1 = RoleReport::Source(second(700));
    stage.end(reports)
}

fn silent() -> Recorded {
    let mut stage = Stage::running(plan(7, 2, 2));
    stage.trigger(8);
    (1..=2).for_each(|id| stage.complete(id, 4));
    stage.record("no reports");
    stage.end(finals(1, 1))
}

fn strangers() -> Recorded {
    let mut stage = Stage::running(plan(8, 1, 2));
    stage.trigger(6);
    (1..=2).for_each(|id| stage.complete(id, 3));
    builder_tells(&mut stage, 2, 500);
    stage.record("strangers, paths and stages");
    let stages =
        |first| Some(Box::new(GrantStages { wake_us: vec![first, 9], write_us: vec![2 * first, 9] }));
    let path = |builder| PathReport { builder, ..numbered(40 * u64::from(builder)) };
    let own = SourceReport { paths: vec![path(1), path(2)], stages: stages(3), ..of_source(3000) };
    let built = |first| BuilderReport {
        refusals: Some(numbered::<RefusalReport>(first + 40)),
        stages: stages(5),
        ..of_builder(first, 1)
    };
    let gone = BuilderReport { gone: "its disk is full".to_owned(), ..built(20_000) };
    let reports = vec![
        (source(1), RoleReport::Source(own)),
        (builder(1), RoleReport::Builder(built(10_000))),
        (builder(2), RoleReport::Builder(gone)),
    ];
    stage.end(reports)
}

fn trigger_program() -> Recorded {
    let mut stage = Stage::running(plan(9, 1, 1));
    stage.trigger(3);
    stage.announce(6);
    stage.announce(9_000_000);
    (1..=4).for_each(|number| stage.announce(number));
    stage.wait(50);
    stage.complete(1, 6);
    source_tells(&mut stage, 1, 100);
    stage.record("a trigger program that starts again");
    stage.end(finals(1, 1))
}

fn never_begun() -> Recorded {
    let mut stage = Stage::registered(plan(10, 1, 1));
    stage.announce(1);
    stage.hears(source(1), Message::Leaving(Leaving { reason: "its card has no power".to_owned() }));
    stage.record("stopped before it began");
    stage.end(Vec::new())
}
