//! Compares the reader's messages about wrong configurations with `golden.txt`. The configurations
//! are those in the documentation, with one or three keys changed. With `EVB_BLESS=1` in the
//! environment, the test writes the file.

use std::{collections::BTreeSet, env, fmt::Write as _, fs};

use super::{
    super::read,
    around,
    documents::{blocks, manual, repository},
};

/// Values of which some are wrong for every key, by their type, their range or their form.
const VALUES: [&str; 2] = ["17", "\"zzz\""];

/// A key and its value in a text, by their places.
#[derive(Clone, Copy)]
struct Pair {
    key: (usize, usize),
    value: (usize, usize),
}

/// Returns the keys of a text that stand before an equals sign.
fn pairs(text: &str) -> Vec<Pair> {
    let mut pairs = Vec::new();
    let mut is_quoted = false;
    for (at, letter) in text.char_indices() {
        is_quoted ^= letter == '"';
        if letter != '=' || is_quoted {
            continue;
        }
        let before = text[..at].trim_end();
        let start =
            before.rfind(|c: char| !c.is_ascii_alphanumeric() && c != '_').map_or(0, |place| place + 1);
        let value = text.len() - text[at + 1..].trim_start().len();
        pairs.push(Pair { key: (start, before.len()), value: (value, value + value_length(&text[value..])) });
    }
    pairs
}

/// Returns the length of the value with which a text begins.
fn value_length(text: &str) -> usize {
    let (mut depth, mut is_quoted) = (0, false);
    for (at, letter) in text.char_indices() {
        is_quoted ^= letter == '"';
        match letter {
            _ if is_quoted => {}
            '[' | '{' => depth += 1,
            ']' | '}' if depth > 0 => depth -= 1,
            ',' | '}' | ']' | '\n' | '#' if depth == 0 => return text[..at].trim_end().len(),
            _ => {}
        }
    }
    text.trim_end().len()
}

fn replaced(text: &str, (start, end): (usize, usize), new: &str) -> String {
    format!("{}{new}{}", &text[..start], &text[end..])
}

/// Returns wrong variants of a configuration, each with its change; the changes of each key once.
fn variants(text: &str, seen: &mut BTreeSet<String>) -> Vec<(String, String)> {
    let pairs = pairs(text);
    let mut made = Vec::new();
    for Pair { key, value } in pairs.iter().copied() {
        let name = &text[key.0..key.1];
        let line = text[..key.0].rfind('\n').map_or(0, |end| end + 1);
        let section = text[..key.0].lines().rfind(|line| line.starts_with('[')).unwrap_or_default();
        let place = format!("{section} {}{name}", text[line..key.0].replace(char::is_whitespace, ""));
        if !seen.insert(place.clone()) {
            continue;
        }
        let mut add = |what: String, changed| made.push((format!("{place}: {what}"), changed));
        VALUES.iter().for_each(|wrong| add(format!("= {wrong}"), replaced(text, value, wrong)));
        add("misspelled".to_owned(), replaced(text, key, &name[..name.len() - 1]));
        let end = text[value.1..].find([',', '}', '\n']).map_or(text.len(), |at| value.1 + at);
        let end = end + usize::from(text[end..].starts_with(','));
        add("missing".to_owned(), replaced(text, (key.0, end), ""));
    }
    for (number, three) in pairs.windows(3).enumerate() {
        let [a, b, c] = three else { continue };
        if a.value.1 <= b.key.0 && b.value.1 <= c.key.0 && number % 9 == 0 {
            let wrong = replaced(&replaced(text, c.value, "[]"), b.key, "zzz");
            made.push((format!("three from {}", &text[a.key.0..a.key.1]), replaced(&wrong, a.value, "17")));
        }
    }
    made
}

/// Returns the problems of all variants that the reader refuses, one in a line.
fn said() -> (String, usize) {
    let manual = manual();
    let (mut seen, mut said, mut count) = (BTreeSet::new(), String::new(), 0);
    for block in blocks(&manual) {
        let base = around(block);
        for (what, text) in variants(&base, &mut seen) {
            let Err(problems) = read(&text, "golden.toml") else { continue };
            count += 1;
            writeln!(said, "{what}").expect("a text");
            for problem in problems.iter() {
                let marked =
                    text.get(problem.span.clone()).unwrap_or_default().lines().next().unwrap_or_default();
                let (line, key) = (problems.line_of(problem), &problem.key);
                let (reason, remedy) = (&problem.reason, &problem.remedy);
                writeln!(said, "  {line} {key} at {marked:?}: {reason} -- {remedy}").expect("a text");
            }
        }
    }
    (said, count)
}

#[test]
fn what_is_said_about_wrong_configurations_stays_the_same() {
    let path = repository().join("crates/evb-config/src/tests/golden.txt");
    let (said, count) = said();
    assert!(count > 300, "only {count} wrong configurations");
    if env::var_os("EVB_BLESS").is_some() {
        fs::write(&path, &said).expect("writable");
    }
    let kept = fs::read_to_string(&path).expect("the file is there");
    for (kept, said) in kept.lines().zip(said.lines()) {
        assert_eq!(kept, said, "EVB_BLESS=1 cargo test -p evb-config golden");
    }
    assert_eq!(kept.lines().count(), said.lines().count(), "EVB_BLESS=1 cargo test -p evb-config golden");
}
