use super::nearest;

#[test]
fn finds_what_was_meant_and_nothing_far_fetched() {
    let keys = ["slots", "listen", "deadline", "trigger"];
    assert_eq!(nearest("slot", keys), Some("slots"));
    assert_eq!(nearest("Listen", keys), Some("listen"));
    assert_eq!(nearest("dedaline", keys), Some("deadline"));
    assert_eq!(nearest("solts", keys), Some("slots"), "a swap of neighbours is one step");
    assert_eq!(nearest("Gbit", ["bit/s", "Gbit/s", "GB/s"]), Some("Gbit/s"));
    assert_eq!(nearest("colour", keys), None);
    assert_eq!(nearest("", keys), None);
}
