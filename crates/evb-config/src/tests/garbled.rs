//! Tests with garbled configurations: none causes a panic, and each refusal names an existing line.

use proptest::prelude::*;

use super::super::read;
use crate::{admission, check};

const QUICKSTART: &str = include_str!("../../../../examples/quickstart.toml");
const MANUAL: &str = include_str!("../../../../docs/reference/configuration.md");

/// Pieces of text that are likely to break the reader.
const PIECES: [&str; 24] = [
    "[",
    "]",
    "[[source]]\n",
    "{",
    "}",
    "{id}",
    "\"",
    "'''",
    "=",
    "\n",
    "\0",
    "é",
    "\u{1b}[31m",
    "9999999999999999999999",
    "-1",
    "\"0 B\"",
    "\"18 EB\"",
    "inf",
    "1979-05-27",
    "ids = \"0-65535\"\n",
    "a.b.c = 1\n",
    "\"9e300 GB\"",
    "[[builder]]\n",
    "\t",
];

fn holds(text: &str) {
    match read(text, "garbled.toml") {
        Ok(loaded) => {
            let (sums, problems) = admission::admit(&loaded, None);
            let planning = admission::planning(&loaded.config, &sums, &admission::GrantPaths::assumed());
            assert!(!check::head(&loaded.config, &sums, &planning).is_empty());
            assert!(!check::text(&loaded.config, &sums, &planning).is_empty());
            assert!(
                check::json(
                    Some((&loaded.config, &sums, &admission::GrantPaths::assumed())),
                    Some(&problems)
                )
                .is_object()
            );
        }
        Err(problems) => {
            assert!(problems.are_fatal());
            let lines = text.matches('\n').count() + 1;
            let shown = problems.to_string();
            for problem in problems.iter() {
                let line = problems.line_of(problem);
                assert!((1..=lines).contains(&line), "line {line} of {lines}");
                assert!(shown.contains(&format!("garbled.toml:{line}:")));
                assert!(!problem.reason.is_empty() && !problem.remedy.is_empty());
            }
        }
    }
}

/// Returns every TOML block of the manual, and the quick start.
fn seeds() -> Vec<String> {
    let blocks = MANUAL.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next());
    blocks.map(super::around).chain([QUICKSTART.to_owned()]).collect()
}

fn boundary(text: &str, part: f64) -> usize {
    let mut at = (text.len() as f64 * part) as usize;
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn spliced(seed in 0usize..1000, edits in prop::collection::vec((0.0..1.0f64, 0.0..0.05f64, 0..PIECES.len()), 1..5)) {
        let seeds = seeds();
        let mut text = seeds[seed % seeds.len()].clone();
        for (start, length, piece) in edits {
            let (from, to) = (boundary(&text, start), boundary(&text, (start + length).min(1.0)));
            text.replace_range(from..to.max(from), PIECES[piece]);
        }
        holds(&text);
    }

    #[test]
    fn values_exchanged(seed in 0usize..1000, line in 0usize..200, value in 0usize..PIECES.len()) {
        let seeds = seeds();
        let text = &seeds[seed % seeds.len()];
        let count = text.lines().count();
        let changed: Vec<String> = text.lines().enumerate().map(|(number, given)| match given.split_once('=') {
            Some((key, _)) if number == line % count => format!("{key}= {}", PIECES[value]),
            _ => given.to_owned(),
        }).collect();
        holds(&changed.join("\n"));
    }

    #[test]
    fn truncated(seed in 0usize..1000, part in 0.0..1.0f64) {
        let seeds = seeds();
        let text = &seeds[seed % seeds.len()];
        holds(&text[..boundary(text, part)]);
    }

    #[test]
    fn noise(text in "\\PC{0,200}") {
        holds(&text);
    }
}

#[test]
fn deep_nesting_is_refused_not_followed() {
    holds(&format!("a = {}", "[".repeat(100_000)));
    holds(&format!("[{}x]\n", "a.".repeat(50_000)));
    holds(&format!("a = {}", "{b=".repeat(100_000)));
}
