//! Tests of what builders are told of episodes.

use crate::{
    alignment::{ClockWrap, DetectorClock, Episode, Explanation, Finding, GuardedClocks},
    id::{BuilderId, EventId, SourceId},
    index::ClockIndex,
    supervisor::{
        Recipients, RunPlan,
        tests::{Stage, builder, hello, plan},
    },
    trigger::TriggerKind,
    units::Frequency,
    wire::control::{AlignmentReport, Hello, Message},
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
    let finding = Finding { clock, verdict, since: EventId::new(2), is_disputed: true };
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
