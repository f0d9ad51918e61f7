use super::*;

#[test]
fn the_receivers_count_is_what_counts() {
    let said = r#"{"end":{"sum_sent":{"bytes":9},"sum_received":{"bytes":7}}}"#;
    assert_eq!(bytes(said).unwrap(), 7.0);
    assert!(bytes(r#"{"error":"busy"}"#).is_err());
}
