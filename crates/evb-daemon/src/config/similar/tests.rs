use super::{distance, nearest};

fn apart(a: &str, b: &str) -> usize {
    distance(&a.chars().collect::<Vec<_>>(), b)
}

#[test]
fn counts_edits_and_swaps() {
    assert_eq!(apart("slots", "slots"), 0);
    assert_eq!(apart("slot", "slots"), 1);
    assert_eq!(apart("solts", "slots"), 1);
    assert_eq!(apart("", "slots"), 5);
    assert_eq!(apart("kitten", "sitting"), 3);
}

#[test]
fn finds_what_was_meant_and_nothing_far_fetched() {
    let keys = ["slots", "listen", "deadline", "trigger"];
    assert_eq!(nearest("slot", keys), Some("slots"));
    assert_eq!(nearest("Listen", keys), Some("listen"));
    assert_eq!(nearest("dedaline", keys), Some("deadline"));
    assert_eq!(nearest("Gbit", ["bit/s", "Gbit/s", "GB/s"]), Some("Gbit/s"));
    assert_eq!(nearest("colour", keys), None);
    assert_eq!(nearest("", keys), None);
}
