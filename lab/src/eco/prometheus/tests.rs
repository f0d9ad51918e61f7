use serde_json::json;

use super::*;

#[test]
fn expressions_become_parts_of_a_path() {
    assert_eq!(encoded("a_b{c=~\"é+\"} > 1"), "a_b%7Bc%3D~%22%C3%A9%2B%22%7D%20%3E%201");
}

#[test]
fn numbers_are_read_from_texts() {
    assert_eq!(number(&json!("10.5")), 10.5);
    assert!(number(&json!("NaN")).is_nan() && number(&json!(null)).is_nan());
}

#[test]
fn an_alert_names_who_is_to_blame() {
    let alert =
        json!({ "labels": { "alertname": "EvbSourceSilent", "culprit": "source 4" }, "state": "firing" });
    assert!(Alert::read(&alert).is("EvbSourceSilent", "source 4"));
    assert!(!Alert::read(&alert).is("EvbSourceSilent", "source 5"));
}
