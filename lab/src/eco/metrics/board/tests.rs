use serde_json::json;

use super::*;

#[test]
fn every_query_is_found_with_its_panel() {
    let board = json!({
        "templating": { "list": [{ "name": "job", "definition": "label_values(evb_build_info, job)" }] },
        "panels": [
            { "title": "rates", "targets": [{ "expr": "rate(a{job=~\"$job\"}[$__rate_interval])" }, { "expr": "b" }] },
            { "title": "a row", "panels": [{ "title": "inner", "targets": [{ "expr": "c" }] }] },
        ],
    });
    let mut found = Vec::new();
    collect(&board, "", &mut found);
    let mut found: Vec<_> = found.iter().map(|q| (q.panel.as_str(), q.expression.as_str())).collect();
    found.sort_unstable();
    let expected = [
        ("inner", "c"),
        ("job", "count by (job) (evb_build_info)"),
        ("rates", "b"),
        ("rates", "rate(a{job=~\"evb\"}[5s])"),
    ];
    assert_eq!(found, expected);
}

#[test]
fn no_variable_is_left() {
    let queries = queries().unwrap();
    assert!(queries.len() > 30);
    let left = queries.iter().find(|query| query.expression.contains('$'));
    assert_eq!(left, None);
}
