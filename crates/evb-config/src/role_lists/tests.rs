use evb_core::id::{BuilderId, Peer, SourceId};

use super::roles_in_words;

#[test]
fn roles_are_drawn_together() {
    let builder = |id| Peer::Builder(BuilderId::new(id));
    let source = |id| Peer::Source(SourceId::new(id));
    let roles = [Peer::Supervisor, builder(2), source(1), source(2), source(3), source(7)];
    assert_eq!(roles_in_words(&roles), "the supervisor, builder 2, sources 1-3, 7");
}

#[test]
fn names_are_in_the_order_in_which_people_count() {
    let mut names = ["b10", "b2", "b1", "a", "10.0.2.10", "10.0.2.9", "b02"];
    names.sort_by_key(|name| super::natural(name));
    assert_eq!(names, ["10.0.2.9", "10.0.2.10", "a", "b1", "b02", "b2", "b10"]);
}
