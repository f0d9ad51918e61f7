//! Tests that produce every verdict from made-up facts.

mod made_up;
mod golden;
mod host;
mod memory;
mod sockets;
mod device;
mod queues;
mod paths;

use std::time::Duration;

use self::made_up::facts;
use super::{
    super::{
        facts::Facts,
        finding::{Finding, Subject, Verdict},
    },
    judge,
    rule::brief,
};

/// Returns the finding with this name, which must occur exactly once.
fn finding(facts: &Facts, name: &str) -> Finding {
    let mut found = judge(facts).into_iter().filter(|finding| finding.name == name);
    let first = found.next().unwrap_or_else(|| panic!("no finding is called {name}"));
    assert!(found.next().is_none(), "{name} is found twice");
    first
}

/// Returns the verdict and the command of the finding with this name.
fn verdict(facts: &Facts, name: &str) -> (Verdict, Option<String>) {
    let finding = finding(facts, name);
    (finding.verdict, finding.command)
}

fn good() -> (Verdict, Option<String>) {
    (Verdict::Good, None)
}

fn better(command: &str) -> (Verdict, Option<String>) {
    (Verdict::Better, Some(command.to_owned()))
}

fn bad(command: &str) -> (Verdict, Option<String>) {
    (Verdict::Bad, Some(command.to_owned()))
}

#[test]
fn a_host_where_all_is_well() {
    let found = judge(&facts());
    for finding in &found {
        assert_eq!(finding.verdict, Verdict::Good, "{finding:?}");
        assert!(
            !finding.value.is_empty() && !finding.why.is_empty() && !finding.data.is_null(),
            "{finding:?}"
        );
    }
    let mut keys: Vec<_> = found.iter().map(|finding| (finding.subject.clone(), finding.name)).collect();
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), found.len(), "two findings have the same name");
}

#[test]
fn the_same_host_without_a_configuration() {
    let mut facts = facts();
    facts.demand = None;
    facts.paths.clear();
    facts.devices[0].rings.as_mut().unwrap().receive = 4096;
    let unknown: Vec<_> =
        judge(&facts).into_iter().filter(|finding| finding.verdict != Verdict::Good).collect();
    let names: Vec<_> = unknown.iter().map(|finding| (finding.name, finding.unavailable)).collect();
    assert_eq!(names, [("path MTU", true), ("grant path", false), ("R·C/L", true)]);
    assert!(unknown.iter().all(|finding| finding.subject == Subject::Configuration));
}

#[test]
fn times_have_three_digits() {
    let words: Vec<String> = [7, 870, 1_000, 23_449, 99_960, 1_024_000, 3_000_000_000]
        .map(|nanos| brief(Duration::from_nanos(nanos)))
        .into();
    assert_eq!(words, ["7 ns", "870 ns", "1.00 µs", "23.4 µs", "100 µs", "1.02 ms", "3.00 s"]);
}
