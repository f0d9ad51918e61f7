use super::*;
use crate::{
    id::{BuilderId, SourceId},
    index::BuilderIndex,
    supervisor::roster::tests::roster,
    wire::control::Load,
};

#[test]
fn who_holds_half_of_the_slots_is_a_culprit() {
    let (mut roster, _) = roster();
    assert_eq!(culprits(&roster, 4), []);
    roster.note_load(BuilderIndex::new(0), Load { at_sink: 2, ..Load::default() });
    assert_eq!(culprits(&roster, 4), [Cause::Sink(BuilderId::new(1))]);
    let slow = |slowest| Load { slowest, slowest_events: 2, others_events: 1, ..Load::default() };
    roster.note_load(BuilderIndex::new(0), slow(5));
    assert_eq!(culprits(&roster, 4), [Cause::Source(SourceId::new(5))]);
    roster.note_load(BuilderIndex::new(0), slow(7));
    assert_eq!(culprits(&roster, 4), [], "the run has no source 7");
}

#[test]
fn those_for_whom_events_wait_are_named_with_their_counts() {
    let (mut roster, _) = roster();
    assert_eq!(waits(&roster), []);
    let load = Load { at_sink: 1, slowest: 5, slowest_events: 3, ..Load::default() };
    roster.note_load(BuilderIndex::new(0), load);
    let (source, sink) = (Peer::Source(SourceId::new(5)), Peer::Builder(BuilderId::new(1)));
    assert_eq!(waits(&roster), [(source, 3), (sink, 1)]);
    roster.note_load(BuilderIndex::new(0), Load { slowest: 7, slowest_events: 2, ..Load::default() });
    assert_eq!(waits(&roster), [], "the run has no source 7");
}
