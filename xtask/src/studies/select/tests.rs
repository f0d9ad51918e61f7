use serde_json::json;

use super::*;

#[test]
fn paths_lead_to_fields_positions_all_elements_and_names() {
    let value = json!({ "list": [{ "name": "a", "x": 1 }, { "name": "b", "x": 2, "none": null }] });
    assert_eq!(all(&value, "/list/*/x"), [&json!(1), &json!(2)]);
    assert_eq!(first(&value, "/list/1/x"), Some(&json!(2)));
    assert_eq!(first(&value, "/list/@b/x"), Some(&json!(2)));
    assert_eq!(first(&value, ""), Some(&value));
    for nowhere in ["/list/@c", "/list/7", "/list/name", "/other", "/list/0/x/y", "/list/1/none"] {
        assert_eq!(first(&value, nowhere), None, "{nowhere}");
    }
}

#[test]
fn rows_have_what_is_asked() {
    let value = json!([{ "k": "tcp", "n": 1 }, { "k": "tcp udp", "n": 2 }, { "n": 1 }]);
    let count = |are: &[(&str, &str)], have: &[(&str, &str)]| {
        let map = |pairs: &[(&str, &str)]| pairs.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect();
        rows(&value, &Rows { at: "/*".to_owned(), are: map(are), have: map(have) }).len()
    };
    assert_eq!(count(&[], &[]), 3);
    assert_eq!(count(&[("/n", "1")], &[]), 2);
    assert_eq!(count(&[("/k", "tcp")], &[]), 1);
    assert_eq!(count(&[], &[("/k", "tcp")]), 2);
    assert_eq!(count(&[("/n", "1")], &[("/k", "tcp")]), 1);
}
