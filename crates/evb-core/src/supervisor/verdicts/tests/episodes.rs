//! Tests of what builders are told of episodes and changes.

use crate::{
    alignment::{ClockWrap, DetectorClock, Episode, Explanation, Finding, GuardedClocks},
    id::{BuilderId, EventId, SourceId},
    index::ClockIndex,
    ledger::OwingChange,
    supervisor::{
        Output, OwingRequest, Recipients, RunPlan,
        exclusions::Exclusions,
        tests::{EVERYBODY, Stage, builder, control, hello, plan, source},
    },
    trigger::TriggerKind,
    units::Frequency,
    wire::control::{AlignmentReport, Hello, Message, Ready},
};

/// Returns a plan whose two sources have clocks.
fn with_clocks() -> RunPlan {
    let clock = DetectorClock::new(Frequency::from_hertz(125e6).unwrap(), ClockWrap::Bits(48));
    let clocks = [3, 5].map(|id| (SourceId::new(id), clock)).to_vec();
    let clocks = GuardedClocks { clocks, lead: None, host_times: true };
    RunPlan { journal: true, clocks, ..plan(TriggerKind::External) }
}

/// Takes the episodes that a builder was told.
fn told(stage: &mut Stage, to: u16) -> Vec<Episode> {
    let mut all = Vec::new();
    stage.sent.retain(|(recipients, message)| match message {
        Message::Episodes(told) if *recipients == Recipients::Builder(BuilderId::new(to)) => {
            all.extend(told.episodes.iter().filter_map(Episode::of_message));
            false
        }
        _ => true,
    });
    all
}

#[test]
fn builders_are_told_of_episodes_and_those_that_join_of_all_so_far() {
    let mut stage = Stage::running(with_clocks());
    stage.trigger(4);
    let (clock, verdict) = (ClockIndex::new(1), Explanation::Slip { shift: -2, offset_is_new: false });
    let (is_disputed, is_repeated) = (true, false);
    let finding = Finding {
        clock,
        verdict,
        since: EventId::new(2),
        until: None,
        is_disputed,
        is_repeated,
        is_begin_lost: false,
    };
    stage.core.verdicts().act_on(&finding, stage.now);
    stage.poll();
    let slip = Episode::of(&finding, SourceId::new(5), |_| String::new());
    assert_eq!((slip.shift, slip.until, slip.misaligned, slip.disputed), (Some(-2), None, true, true));
    assert_eq!([1, 2].map(|id| told(&mut stage, id)), [vec![slip.clone()], vec![slip.clone()]]);

    let returned = AlignmentReport { returned: vec![5], ..AlignmentReport::default() };
    stage.says(builder(2), Message::Alignment(returned));
    let over = Episode { until: Some(EventId::new(4)), ..slip };
    assert_eq!([1, 2].map(|id| told(&mut stage, id)), [vec![over.clone()], vec![over.clone()]]);

    stage.core.handle_disconnect(builder(1), "killed", stage.now);
    stage.core.register(&Hello { incarnation: 1, ..hello(builder(1)) }, stage.now).unwrap();
    stage.poll();
    assert_eq!(told(&mut stage, 1), vec![over.clone()]);
    // A supervisor that continues the run knows them, too.
    let mut next = stage.followed_by(&with_clocks(), stage.journal.clone()).with_everybody();
    assert_eq!([1, 2].map(|id| told(&mut next, id)), [vec![over.clone()], vec![over.clone()]]);
    let snapshot = next.core.snapshot(next.now);
    let mut again = next.followed_by(&with_clocks(), snapshot).with_everybody();
    assert_eq!(told(&mut again, 2), [over]);
}

/// Takes the lists of changes that a builder was told.
fn lists(stage: &mut Stage, to: u16) -> Vec<Vec<(u16, bool, u64)>> {
    let mut all = Vec::new();
    stage.sent.retain(|(recipients, message)| match message {
        Message::Changes(told) if *recipients == Recipients::Builder(BuilderId::new(to)) => {
            let told = told.changes.iter().filter_map(OwingChange::of_entry);
            all.push(told.map(|one| (one.source.number(), one.excluded, one.from.number())).collect());
            false
        }
        _ => true,
    });
    all
}

/// Returns a plan in which source 5 is excluded.
fn without_source() -> RunPlan {
    let excluded = [(SourceId::new(5), "broken".to_owned())].into();
    RunPlan { journal: true, excluded, ..plan(TriggerKind::External) }
}

fn include(stage: &mut Stage, from: Option<u64>) {
    let (sources, from) = (vec![SourceId::new(5)], from.map(EventId::new));
    let request = OwingRequest { sources, excludes: false, from, why: String::new() };
    Exclusions { core: &mut stage.core }.change(&request, stage.now).unwrap();
    stage.poll();
}

#[test]
fn builders_are_told_all_changes_so_far() {
    let of_plan = (5, true, 1);
    let mut stage = Stage::running(without_source());
    assert_eq!([1, 2].map(|id| lists(&mut stage, id)), [[[of_plan]], [[of_plan]]]);
    stage.trigger(2);
    include(&mut stage, Some(10));
    let planned = [of_plan, (5, false, 10)];
    assert_eq!([1, 2].map(|id| lists(&mut stage, id)), [[planned], [planned]]);

    stage.core.handle_disconnect(builder(1), "killed", stage.now);
    include(&mut stage, None);
    let instead = [of_plan, (5, false, 3)];
    assert_eq!([1, 2].map(|id| lists(&mut stage, id)), [vec![], vec![instead.to_vec()]]);
    stage.core.register(&Hello { incarnation: 1, ..hello(builder(1)) }, stage.now).unwrap();
    stage.poll();
    assert_eq!(lists(&mut stage, 1), [instead]);
    // A supervisor that continues the run knows them, too.
    let mut next = stage.followed_by(&without_source(), stage.journal.clone()).with_everybody();
    assert_eq!([1, 2].map(|id| lists(&mut next, id)), [[instead], [instead]]);
    let snapshot = next.core.snapshot(next.now);
    let mut again = next.followed_by(&without_source(), snapshot).with_everybody();
    assert_eq!(lists(&mut again, 2), [instead]);
}

/// So the header of a builder's first file has them.
#[test]
fn builders_know_the_changes_when_they_are_asked_to_begin() {
    let mut stage = Stage::new(without_source());
    for peer in EVERYBODY {
        stage.register(peer);
    }
    stage.core.handle_message(source(3), control(Message::Ready(Ready {})), stage.now);
    let mut order = Vec::new();
    while let Some(output) = stage.core.poll(stage.now) {
        let Output::Send { message, .. } = output else { continue };
        order.extend(match message.message {
            Some(Message::Changes(_)) => Some("changes"),
            Some(Message::Begin(_)) => Some("begin"),
            _ => None,
        });
    }
    assert_eq!(order, ["changes", "changes", "begin"]);
}
