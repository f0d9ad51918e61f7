use super::*;

#[test]
fn causes_are_in_the_order_of_their_codes() {
    assert!(CODES.is_sorted_by(|before, after| before.0 < after.0 && before.1 < after.1));
    assert!(CODES.iter().all(|(cause, ..)| *cause < Cause::Other(0)));
}
