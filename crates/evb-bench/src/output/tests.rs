use super::{OutputArguments, columns};

#[test]
fn columns_line_up_whatever_the_letters() {
    let rows = vec![vec!["timerfd".into(), "1.5 µs".into()], vec!["α".into(), "12 345.0 µs".into()]];
    let text = columns(&["executor", "late"], &rows);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines, ["executor         late", "timerfd        1.5 µs", "α         12 345.0 µs"]);
}

#[test]
fn files_are_written_and_a_bad_place_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let output =
        OutputArguments { json: Some(folder.path().join("a.json")), svg: Some(folder.path().join("a.svg")) };
    output.publish(&serde_json::json!({ "bench": "x" }), "", || Ok("<svg/>".into())).expect("written");
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).expect("there");
    let json: serde_json::Value = serde_json::from_str(&read("a.json")).expect("JSON");
    assert_eq!(json["bench"], "x");
    assert!(json["machine"]["kernel"].is_string() && json["machine"]["load_average"].is_array(), "{json}");
    assert_eq!(read("a.svg"), "<svg/>");
    let nowhere = OutputArguments { json: Some("/nowhere/at/all.json".into()), svg: None };
    let error = nowhere.publish(&serde_json::json!({}), "", || Ok(String::new())).expect_err("refused");
    assert!(error.to_string().contains("/nowhere/at/all.json"), "{error}");
}
