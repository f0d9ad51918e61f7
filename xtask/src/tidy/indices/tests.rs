use super::*;

fn found(text: &str) -> Vec<String> {
    check(&Repo::of(&[("crates/evb-shaper/src/a.rs", text)])).iter().map(ToString::to_string).collect()
}

#[test]
fn a_bare_number_for_a_lane_slot_class_or_builder_is_found() {
    for text in [
        "struct A { lane: usize }",
        "struct A { pub slot: Option<usize> }",
        "struct A { by_class: Vec<u8>, class: &'static [usize], other_class: [usize; 4] }",
        "enum A { Lane(usize), Other(usize) }",
        "enum A { Grant { builder: usize } }",
        "fn f(lane: usize) {}",
        "trait T { fn f(&self, _lane: usize); }",
        "impl A { fn f(&self, next_builder: &usize) {} }",
        "impl A { fn lane_of(&self) -> Option<usize> { None } }",
        "fn next_lane() -> Result<usize, ()> { Ok(1) }",
        "fn f() { let wants = |lane: usize| lane; }",
    ] {
        assert_eq!(found(text).len(), 1, "{text}: {:?}", found(text));
    }
}

#[test]
fn counts_types_and_tests_pass() {
    for text in [
        "struct A { lane: LaneIndex, slots: usize, lane_count: usize, lanes: Vec<usize> }",
        "fn f(slot: Option<SlotIndex>, lanes: usize) -> usize { 1 }",
        "#[cfg(test)] mod more { fn f(lane: usize) {} }",
    ] {
        assert!(found(text).is_empty(), "{text}: {:?}", found(text));
    }
    assert!(check(&Repo::of(&[("crates/evb-daemon/src/a.rs", "fn f(builder: usize) {}")])).is_empty());
    assert!(check(&Repo::of(&[("src/a/tests.rs", "fn f(lane: usize) {}")])).is_empty());
}
