use serde_json::json;

use super::*;

#[test]
fn what_is_wrong_before_a_run_is_said_in_words() {
    let problem = json!({"severity": "warning", "subject": "source 1", "text": "no front end is connected",
                         "remedy": "start its front end"});
    let table = status(&json!({"state": "Configured", "ready": true, "problems": [problem]}));
    assert!(
        table.contains("warning      source 1: no front end is connected; start its front end\n"),
        "{table}"
    );
}

#[test]
fn names_stand_with_the_ids() {
    let builder = |id: u16, name: &str| {
        json!({"id": id, "name": name, "presence": "up", "slots": 16, "outstanding": 2, "complete": 9,
               "incomplete": 0, "lost": 0})
    };
    let source = json!({"id": 3, "name": "TPC crate 1", "presence": "silent", "missing": 4});
    let survey = json!({"sources": [source], "builders": [builder(1, ""), builder(2, "left rack, top")]});
    let table = status(&json!({"state": "Running", "survey": survey}));
    assert!(table.contains("  source 3 (TPC crate 1) is silent, missing in 4 events\n"), "{table}");
    let rows: Vec<_> = table.lines().filter(|line| line.contains(" 2/16 ")).collect();
    assert!(rows[0].starts_with("  1  ") && rows[1].starts_with("  2 (left rack, top) up "), "{table}");
    assert_eq!(rows[0].find("up"), rows[1].find("up"), "columns are aligned:\n{table}");
}

/// Somebody who poses as the daemon may answer anything.
#[test]
fn a_false_server_neither_forges_lines_nor_commands_the_terminal() {
    let evil = "Run\u{1b}]0;owned\u{7}\nevents 5 complete";
    let answers = json!({
        "state": evil, "problems": [{"severity": evil, "subject": evil, "text": evil, "remedy": evil}],
        "last_error": evil, "annotation": {"comment": evil}, "waiting_for": [evil],
        "survey": {"sources": [{"id": 1, "name": evil, "presence": evil, "missing": 1}]},
        "last_run": {"run": evil, "verdict": evil}, "refused_by": evil, "reason": evil, "remedy": evil,
    });
    for text in [status(&answers), outcome(&answers), refusal(&answers), line(&answers)] {
        assert!(text.contains("Run ]0;owned"), "{text}");
        assert!(!text.contains("\u{1b}") && !text.lines().any(|line| line.starts_with("events 5")), "{text}");
    }
}
