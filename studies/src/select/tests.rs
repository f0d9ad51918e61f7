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
fn lines_are_cut_at_their_beginnings() {
    let lines = ["a", "from b", "c", "to d", "to e"].map(ToOwned::to_owned);
    let ends = |from: &str, to: &str| [from.to_owned(), to.to_owned()];
    assert_eq!(between(&lines, &ends("from", "to")).unwrap(), ["from b", "c", "to d"]);
    assert_eq!(between(&lines, &ends("c", "c")).unwrap(), ["c"]);
    for (from, to) in [("x", "to"), ("from", "x"), ("c", "from")] {
        assert!(between(&lines, &ends(from, to)).is_err(), "{from} {to}");
    }
}
