use evb_core::id::{BuilderId, Peer, SourceId};

use super::roles_in_words;

#[test]
fn roles_are_drawn_together() {
    let builder = |id| Peer::Builder(BuilderId::new(id));
    let source = |id| Peer::Source(SourceId::new(id));
    let roles = [Peer::Supervisor, builder(2), source(1), source(2), source(3), source(7)];
    assert_eq!(roles_in_words(&roles), "supervisor, builder 2, sources 1-3, 7");
}
