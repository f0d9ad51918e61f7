use crate::{
    supervisor::{
        RunPlan,
        tests::{Stage, builder, plan, source},
    },
    trigger::TriggerKind,
    wire::control::{Heartbeat, Load, Message},
};

/// Returns a run in which both builders have `slots` slots, all of which are taken.
fn full(slots: u32) -> Stage {
    let mut stage = Stage::running(RunPlan { slots, ..plan(TriggerKind::External) });
    stage.trigger(u64::from(2 * slots));
    stage
}

fn says(stage: &mut Stage, id: u16, load: Load) {
    let message = Message::Heartbeat(Heartbeat { load: Some(load), ..Heartbeat::default() });
    stage.says(builder(id), message);
}

/// Returns a load in which all events are being built: `slowest_events` wait for the source
/// `slowest`, and `others_events` for the median of the other sources.
fn building(slowest: u32, slowest_events: u32, others_events: u32) -> Load {
    Load { building: 8, slowest, slowest_events, others_events, ..Load::default() }
}

fn sink(at_sink: u32) -> Load {
    Load { building: 8 - at_sink, at_sink, ..Load::default() }
}

fn causes(stage: &Stage) -> Vec<(String, u64)> {
    stage.core.books.dead_time().causes(&[]).into_iter().map(|cause| (cause.cause, cause.inhibited)).collect()
}

fn words(causes: &[(&str, u64)]) -> Vec<(String, u64)> {
    causes.iter().map(|(cause, inhibited)| ((*cause).to_owned(), *inhibited)).collect()
}

#[test]
fn dead_time_is_put_down_to_whoever_holds_the_slots() {
    let mut stage = full(2);
    stage.trigger(2);
    let load = |at_sink, slowest| Load { at_sink, slowest, slowest_events: 1, ..Load::default() };
    says(&mut stage, 1, load(0, 5));
    stage.trigger(3);
    says(&mut stage, 1, Load::default());
    says(&mut stage, 2, load(2, 0));
    stage.trigger(4);
    stage.core.handle_disconnect(source(3), "gone", stage.now);
    stage.core.handle_disconnect(source(5), "gone", stage.now);
    stage.trigger(5);
    let expected =
        [("no source is up", 5), ("sink of builder 2", 4), ("source 5", 3), ("builders are busy", 2)];
    assert_eq!(causes(&stage), words(&expected));
}

#[test]
fn one_slow_sink_is_to_blame_while_the_others_build_all_they_can() {
    let mut stage = full(8);
    says(&mut stage, 1, building(5, 8, 7));
    says(&mut stage, 2, sink(5));
    stage.trigger(10);
    assert_eq!(causes(&stage), words(&[("sink of builder 2", 10)]));
}

#[test]
fn nobody_is_to_blame_for_a_full_network() {
    let mut stage = full(8);
    // None of these loads names a source at fault: events wait for both sources alike, or too few
    // wait for source 5; and two loads are impossible.
    for load in [building(5, 8, 7), building(5, 3, 0), building(5, u32::MAX, u32::MAX), building(4, 8, 0)] {
        says(&mut stage, 1, load);
        stage.trigger(2);
    }
    assert_eq!(causes(&stage), words(&[("builders are busy", 8)]));
    says(&mut stage, 1, building(5, 8, 4));
    stage.trigger(9);
    assert_eq!(causes(&stage)[0], ("source 5".to_owned(), 9));
}

#[test]
fn who_stands_out_shares_the_blame() {
    let mut stage = full(8);
    says(&mut stage, 1, sink(8));
    says(&mut stage, 2, sink(4));
    // Nine triggers at once are divided between the builders, and so are single triggers that
    // follow.
    stage.trigger(9);
    (0..4).for_each(|_| stage.trigger(1));
    let mut shares = causes(&stage);
    shares.sort();
    assert_eq!(shares, words(&[("sink of builder 1", 7), ("sink of builder 2", 6)]));
    says(&mut stage, 1, building(3, 8, 0));
    stage.trigger(10);
    assert_eq!(causes(&stage).iter().find(|(cause, _)| cause == "source 3"), Some(&("source 3".into(), 5)));
}
