use super::*;

#[test]
fn the_summaries_of_runs_are_shortened() {
    let report = json!({ "notes": ["n", "figure: /tmp/x.svg"], "outcomes": [
        { "name": "a", "summary": { "events": { "complete": 1 }, "sources": [1, 2, 3] } }, { "name": "b" },
    ] });
    let whole = wrapped("s", "evbd x", "evbd 1", report);
    assert_eq!(whole["result"]["outcomes"][0]["summary"], json!({ "events": { "complete": 1 } }));
    assert_eq!(whole["result"]["notes"], json!(["n"]));
    assert_eq!((&whole["study"], &whole["command"]), (&json!("s"), &json!("evbd x")));
    assert!(whole["machine"]["cores"].as_u64() > Some(0));
}

#[test]
fn results_are_found_by_the_name_of_their_file() {
    let repo = Repo::of(&[("docs/studies/results/a.json", "{\"x\": 1}"), ("docs/studies/b.json", "{}")]);
    let stored = Stored::of(&repo).unwrap();
    assert_eq!(stored.names().collect::<Vec<_>>(), ["a"]);
    assert_eq!(stored.get("a"), Some(json!({ "x": 1 })));
    assert!(Stored::of(&Repo::of(&[("docs/studies/results/a.json", "{")])).is_err());
}
