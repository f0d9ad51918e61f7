use serde_json::json;

use super::{super::catalog::Study, *};

/// Returns the table with these columns of a result.
fn markdown(columns: &str, result: &Value) -> Result<String> {
    let study: Study = toml::from_str(&format!(
        "name = \"s\"\nfull = \"x\"\nquick = \"x\"\n[[block]]\nname = \"b\"\n\
         table = {{ rows = {{ at = \"/rows/*\" }}, columns = [{columns}] }}"
    ))
    .unwrap();
    let kept = Kept::of_run(&study, &json!({ "result": result })).unwrap();
    super::markdown(study.blocks[0].table.as_ref().unwrap(), &kept)
}

#[test]
fn a_table_has_a_row_for_each_row_of_the_result() {
    let columns = "{ head = \"case\", at = \"/case\" }, { head = \"Mbit/s\", at = \"/rate\", per = 1e6, digits = 1 }, \
         { head = \"all\", at = \"/all\", digits = 0 }, { head = \"?\", at = \"/none\", missing = \"–\" }";
    let result = json!({ "rows": [
        { "case": "a|b", "rate": 12_340_000.0, "all": [1.0, 20_000.0] },
        { "case": "c", "rate": 5e5, "all": [], "none": true },
    ] });
    assert_eq!(
        markdown(columns, &result).unwrap(),
        "| case | Mbit/s | all | ? |\n|---|--:|--:|---|\n| a\\|b | 12.3 | 1, 20 000 | – |\n| c | 0.5 |  | yes |\n"
    );
}

#[test]
fn what_a_table_needs_must_be_there() {
    let columns = "{ head = \"x\", at = \"/x\" }";
    for (result, reason) in [
        (json!({ "rows": [] }), "no row"),
        (json!({}), "no row"),
        (json!({ "rows": [{ "x": 1 }, { "y": 1 }] }), "`x`: a row has no /x"),
        (json!({ "rows": [{ "x": null }] }), "`x`: a row has no /x"),
    ] {
        let error = format!("{:#}", markdown(columns, &result).unwrap_err());
        assert!(error.contains(reason), "{error}");
    }
}

#[test]
fn a_value_has_its_interval() {
    let columns = "{ head = \"x\", at = \"/x/mean\", error = \"/x/half\", per = 10, digits = 1 }";
    let result = |half| json!({ "rows": [{ "x": { "mean": 12.0, "half": half } }] });
    assert!(markdown(columns, &result(json!(3))).unwrap().ends_with("| 1.2 ± 0.3 |\n"));
    assert!(markdown(columns, &result(json!(null))).is_err());
}

#[test]
fn long_numbers_are_grouped() {
    for (number, digits, text) in [
        (0.0, None, "0"),
        (1234.0, None, "1234"),
        (12345.0, None, "12 345"),
        (-1_234_567.25, Some(1), "−1 234 567.2"),
        (0.015, Some(2), "0.01"),
        (-0.5, None, "−0.5"),
    ] {
        assert_eq!(decimal(number, digits), text);
    }
}
