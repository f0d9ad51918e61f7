use super::*;

#[test]
fn a_run_has_its_command_and_its_machine() {
    let run = run("s", "evbd x", "evbd 1", json!({ "outcomes": [1, 2] }));
    assert_eq!(
        (&run["study"], &run["command"], &run["evbd"]),
        (&json!("s"), &json!("evbd x"), &json!("evbd 1"))
    );
    assert_eq!(run["result"], json!({ "outcomes": [1, 2] }));
    assert!(run["machine"]["cores"].as_u64() > Some(0));
}

#[test]
fn results_are_found_by_the_name_of_their_file() {
    let files = [("docs/studies/results/a.csv", "# command: x\n"), ("docs/studies/b.csv", "")];
    let stored = Stored::of(files).unwrap();
    assert_eq!(stored.names().collect::<Vec<_>>(), ["a"]);
    assert_eq!(stored.get("a").unwrap().about("command"), Some("x"));
    assert!(Stored::of([("docs/studies/results/a.csv", "# nothing\n")]).is_err());
}
