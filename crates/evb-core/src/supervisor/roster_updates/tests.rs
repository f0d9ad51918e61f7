use crate::{
    set::SourceSet,
    supervisor::{
        Recipients,
        peer_names::kind,
        tests::{Stage, hello, plan, source},
    },
    trigger::TriggerKind,
    wire::control::{Hello, Message},
};

/// Returns the versions of the rosters sent so far, each with the number of sources that are up.
fn rosters(stage: &mut Stage) -> Vec<(u32, usize)> {
    let found = stage.sent.iter().filter_map(|(_, message)| match message {
        Message::Roster(roster) => Some((roster.version, roster.up.len())),
        _ => None,
    });
    let found = found.collect();
    stage.sent.clear();
    found
}

#[test]
fn one_roster_tells_of_all_changes_of_a_turn() {
    let mut stage = Stage::running(plan(TriggerKind::External));
    rosters(&mut stage);
    for peer in [source(3), source(5)] {
        stage.core.handle_disconnect(peer, "cut", stage.now);
    }
    stage.core.invariants();
    stage.poll();
    assert_eq!(rosters(&mut stage), [(2, 0)]);
    for peer in [source(3), source(5)] {
        stage.core.register(&Hello { incarnation: 1, ..hello(peer) }, stage.now).unwrap();
    }
    stage.poll();
    let kinds: Vec<_> = stage.sent.iter().map(|(to, message)| (to.clone(), kind(message))).collect();
    let both = Recipients::Sources(SourceSet::first(2));
    assert_eq!(kinds, [(Recipients::Everyone, "a roster"), (both, "holdings")]);
    stage.core.invariants();
}

#[test]
fn a_roster_goes_out_before_the_next_event_is_assigned_under_it() {
    let mut stage = Stage::running(plan(TriggerKind::External));
    rosters(&mut stage);
    stage.core.handle_disconnect(source(3), "cut", stage.now);
    // The trigger comes in the same turn, before `poll`.
    stage.trigger(1);
    let kinds: Vec<_> = stage.sent.iter().map(|(_, message)| kind(message)).collect();
    assert_eq!(kinds, ["a roster", "assignments", "decisions"]);
    assert_eq!(stage.assigned(1), [(2, 1)]);
    // So is the order at the end of the run.
    stage.sent.clear();
    stage.core.handle_disconnect(source(5), "cut", stage.now);
    stage.core.stop("the end", stage.now);
    stage.poll();
    let kinds: Vec<_> = stage.sent.iter().map(|(_, message)| kind(message)).collect();
    assert_eq!(kinds, ["a roster", "a stop message"]);
}
