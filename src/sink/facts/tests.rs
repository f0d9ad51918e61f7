use evb_core::wire::control::MAX_NAME;

use super::*;

#[test]
fn only_sound_names_are_kept() {
    let name = |id, name: &str| Name { id, name: name.to_owned() };
    let given = [
        name(1, "TPC crate 1"),
        name(2, ""),
        name(3, "two\nlines"),
        name(4, &"n".repeat(MAX_NAME)),
        name(5, &"n".repeat(MAX_NAME + 1)),
        name(65_536, "veto"),
    ];
    let kept = names(&given, SourceId::new);
    let kept: Vec<_> = kept.iter().map(|(id, name)| (id.number(), name.len())).collect();
    assert_eq!(kept, [(1, 11), (4, MAX_NAME)]);
}
