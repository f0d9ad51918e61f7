use std::collections::BTreeMap;

use super::{Origin, Problem, Problems, Severity};

fn problem(severity: Severity, span: std::ops::Range<usize>) -> Problem {
    Problem { severity, key: "a.b".into(), span, reason: "it is wrong".into(), remedy: "mend it".into() }
}

fn shown(text: &str, span: std::ops::Range<usize>) -> String {
    Problems::new(Origin::new("f.toml", text, BTreeMap::new()), vec![problem(Severity::Error, span)])
        .to_string()
}

#[test]
fn looks_like_a_compilers_message() {
    let expected = "error: it is wrong\n --> f.toml:2:5\n  |\n2 | b = \"x\"\n  |     ^^^\n  |\n  = key: a.b\n  = help: mend it\n\n\
                    f.toml: 1 error(s), 0 warning(s); evb does not start until every error is corrected";
    assert_eq!(shown("[a]\nb = \"x\"\n", 8..11), expected);
}

#[test]
fn foreign_text_is_shown_safely() {
    let text = format!("\u{1b}[31m = {}", "é".repeat(1000));
    let message = shown(&text, 500..2_000_000);
    assert!(!message.contains('\u{1b}'), "{message:?}");
    assert!(message.lines().all(|line| line.chars().count() < 200), "{message}");
    // The offset 1 lies within the two bytes of "é"; the offset 99 lies beyond the end of the text.
    assert!(shown("é", 1..1).contains("f.toml:1:1"));
    assert!(shown("a\n", 99..100).contains("f.toml:1:2"));
}

#[test]
fn tabs_keep_the_mark_in_its_place() {
    assert!(shown("\tb = 1", 5..6).contains("1 |     b = 1\n  |         ^\n"));
}

#[test]
fn errors_come_first_then_lines() {
    let origin = Origin::new("f.toml", "a\nb\nc\n", BTreeMap::new());
    let list = vec![
        problem(Severity::Warning, 0..1),
        problem(Severity::Error, 4..5),
        problem(Severity::Error, 2..3),
    ];
    let problems = Problems::new(origin, list);
    let lines: Vec<usize> = problems.iter().map(|problem| problems.line_of(problem)).collect();
    assert_eq!(lines, [2, 3, 1]);
    assert!(problems.are_fatal() && !problems.is_empty());
}

#[test]
fn a_key_is_found_or_the_section_above_it() {
    let keys = BTreeMap::from([("a".to_owned(), 1..2), ("a.b".to_owned(), 4..5)]);
    let origin = Origin::new("f.toml", "[a]\nb = 1\n", keys);
    assert_eq!((origin.span("a.b"), origin.span("a.c"), origin.span("x.y")), (4..5, 1..2, 0..0));
}
