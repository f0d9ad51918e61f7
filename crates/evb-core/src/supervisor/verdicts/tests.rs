//! Tests of what the supervisor passes on of the relations that builders learn.

mod episodes;

use crate::{
    alignment::{ClockWrap, DetectorClock, GuardedClocks},
    id::{BuilderId, SourceId},
    supervisor::{
        Recipients, RunPlan,
        tests::{Stage, builder, hello, plan, source},
    },
    trigger::TriggerKind,
    units::Frequency,
    wire::control::{AlignmentReport, ClockDoubt, ClockRelation, ClockRelations, Hello, Message},
};

/// Starts a run whose sources 3 and 5 have clocks.
fn guarded() -> Stage {
    let clock = DetectorClock::new(Frequency::from_hertz(1e8).unwrap(), ClockWrap::Bits(48));
    let clocks = [3, 5].map(|source| (SourceId::new(source), clock)).to_vec();
    let clocks = GuardedClocks { clocks, lead: None, host_times: true };
    Stage::running(RunPlan { clocks, ..plan(TriggerKind::External) })
}

/// Returns relations of both clocks, anchored at `at`.
fn relations(at: u64, are_proven: [bool; 2], are_suspect: [bool; 2]) -> ClockRelations {
    let relation = |(is_proven, is_suspect)| ClockRelation {
        ticks: at,
        at,
        is_proven,
        is_suspect,
        phase: 0f64.to_bits(),
        rate: 0f64.to_bits(),
        bound: 1e-6f64.to_bits(),
        blur: 0f64.to_bits(),
    };
    let clocks = are_proven.into_iter().zip(are_suspect).map(relation).collect();
    ClockRelations { lead: 0, at, host_ns: at, clocks }
}

fn report(relations: ClockRelations) -> Message {
    Message::Alignment(AlignmentReport { relations: Some(relations), ..AlignmentReport::default() })
}

/// Returns the relations that builder 2 gets when it joins again.
fn told(stage: &mut Stage) -> Option<ClockRelations> {
    stage.core.handle_disconnect(builder(2), "connection reset", stage.now);
    stage.begins.clear();
    let again = Hello { incarnation: 1, ..hello(builder(2)) };
    stage.core.register(&again, stage.now).unwrap();
    stage.poll();
    let [(to, begin)] = stage.begins.as_slice() else { panic!("{:?}", stage.begins) };
    assert_eq!(*to, Recipients::Builder(BuilderId::new(2)));
    begin.relations.clone()
}

#[test]
fn a_builder_that_joins_gets_the_last_relations_of_most_clocks() {
    let mut stage = guarded();
    assert_eq!(told(&mut stage), None);
    let (less, more, new) =
        (relations(10, [true, false], [false; 2]), relations(20, [true; 2], [false; 2]), [true; 2]);
    stage.says(builder(1), report(less.clone()));
    assert_eq!(told(&mut stage), Some(less.clone()));
    stage.says(builder(1), report(more.clone()));
    stage.says(builder(2), report(less));
    assert_eq!(told(&mut stage), Some(more));
    let newest = relations(30, new, [false; 2]);
    stage.says(builder(2), report(newest.clone()));
    assert_eq!(told(&mut stage), Some(newest));
}

#[test]
fn relations_of_a_builder_that_believes_a_source_in_question_are_not_passed_on() {
    let mut stage = guarded();
    let (good, misled) = (relations(10, [true; 2], [false, true]), relations(20, [true; 2], [false; 2]));
    let doubt = ClockDoubt { source: 5, first: 1, is_suspect: true, is_tie: true };
    let doubts =
        AlignmentReport { doubts: vec![doubt], relations: Some(good.clone()), ..AlignmentReport::default() };
    stage.trigger(2);
    stage.says(builder(1), Message::Alignment(doubts));
    stage.says(builder(2), report(misled));
    assert_eq!(told(&mut stage), Some(good));
}

#[test]
fn what_an_operator_lets_builders_learn_again_is_not_passed_on() {
    let mut stage = guarded();
    stage.says(builder(1), report(relations(10, [true; 2], [false; 2])));
    stage.core.verdicts().learn(SourceId::new(5), stage.now).unwrap();
    stage.poll();
    assert_eq!(told(&mut stage), Some(relations(10, [true, false], [false; 2])));
}

#[test]
fn a_source_that_joins_gets_no_relations() {
    let mut stage = guarded();
    stage.says(builder(1), report(relations(10, [true; 2], [false; 2])));
    stage.core.handle_disconnect(source(3), "connection reset", stage.now);
    stage.begins.clear();
    stage.register(source(3));
    let [(_, begin)] = stage.begins.as_slice() else { panic!("{:?}", stage.begins) };
    assert_eq!(begin.relations, None);
}
