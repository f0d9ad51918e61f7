use super::changes;

#[test]
fn what_is_gone_and_what_is_new_is_told() {
    let before = "pub fn evb::a()\npub fn evb::b()\n";
    assert!(changes(before, before).is_empty());
    let told = changes(before, "pub fn evb::b()\npub fn evb::c()\n");
    assert_eq!(told, ["- pub fn evb::a()", "+ pub fn evb::c()"]);
}
