use std::time::{Duration, Instant};

use tracing::Level;

use super::{LogLine, Repeats, rendered};
use crate::log::tests::Written;

fn warning(who: &str, text: &str) -> LogLine {
    LogLine { level: Level::WARN, who: Some(who.to_owned()), text: text.to_owned(), unsaid: 0 }
}

#[test]
fn equal_warnings_of_many_roles_take_two_lines() {
    let written = Written::default();
    let (repeats, now) = (Repeats::new(written.clone(), false), Instant::now());
    for source in 1..=16 {
        repeats.add(warning(&format!("source {source}"), "builder 2 is down"), now);
    }
    repeats.add(warning("source 1", "another text"), now + Duration::from_millis(1500));
    let named = "source 2, source 3, source 4, source 5, source 6, source 7, source 8, source 9, source 10, source 11";
    let joined = format!("WARN {named} and 5 more: builder 2 is down (again 15 times in 1.50 s)");
    let expected = ["WARN source 1: builder 2 is down", &joined, "WARN source 1: another text"];
    assert_eq!(written.lines(), expected);
}

#[test]
fn a_warning_that_goes_on_takes_a_line_every_ten_seconds() {
    let written = Written::default();
    let (repeats, now) = (Repeats::new(written.clone(), false), Instant::now());
    for tenth in 0..210 {
        repeats.add(warning("source 1", "down"), now + Duration::from_millis(100 * tenth));
    }
    repeats.finish();
    let lines = written.lines();
    assert_eq!(lines.len(), 4, "{lines:#?}");
    assert_eq!(lines[1], "WARN source 1: down (again 9 times in 1.00 s)");
    assert_eq!(lines[2], "WARN source 1: down (again 100 times in 10.0 s)");
}

#[test]
fn errors_and_information_are_never_joined() {
    let written = Written::default();
    let (repeats, now) = (Repeats::new(written.clone(), false), Instant::now());
    for level in [Level::ERROR, Level::ERROR, Level::INFO, Level::INFO] {
        repeats.add(LogLine { level, ..warning("builder 1", "again") }, now);
    }
    let [error, info] = ["ERROR builder 1: again", "INFO builder 1: again"];
    assert_eq!(written.lines(), [error, error, info, info]);
}

#[test]
fn suppressed_lines_are_said_in_words() {
    let written = Written::default();
    let repeats = Repeats::new(written.clone(), false);
    for (unsaid, text) in [(0, "none"), (1, "one"), (3, "three")] {
        repeats.add(LogLine { unsaid, ..warning("builder 1", text) }, Instant::now());
    }
    let expected = [
        "WARN builder 1: none",
        "WARN builder 1: one; one more line like this since the last one",
        "WARN builder 1: three; 3 more lines like this since the last one",
    ];
    assert_eq!(written.lines(), expected);
}

#[test]
fn a_text_from_outside_does_not_command_the_terminal() {
    let line = String::from_utf8(rendered(Level::WARN, "\u{1b}[2Jx", false)).expect("UTF-8");
    assert!(line.ends_with(" WARN \\x1b[2Jx\n"), "{line:?}");
}
