use std::{fs, time::Duration};

use super::*;

const LOG: &str = "\
INFO: seed corpus: files: 3 min: 8b max: 160b total: 176b rss: 27Mb
#4\tINITED cov: 61 ft: 62 corp: 3/176b exec/s: 0 rss: 28Mb
#1024\tREDUCE cov: 94 ft: 200 corp: 30/1b exec/s: 0 rss: 28Mb L: 4 MS: 1 EraseBytes-
Done 1135266 runs in 5 second(s)
stat::number_of_executed_units: 1135266
stat::average_exec_per_sec:     227053
stat::peak_rss_mb:              28
";

#[test]
fn what_a_target_did_is_read_from_its_last_words() {
    let line = Outcome::read(LOG, true, Duration::from_secs(5)).to_string();
    let words: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(words, ["5.0", "1135266", "227053", "94", "28", "nothing", "found"]);
    assert_eq!(Outcome::HEAD.find("result"), Some(17 + line.find("nothing").unwrap()));
}

#[test]
fn a_target_that_says_nothing_has_not_passed_in_silence() {
    let line = Outcome::read("error: no such target", false, Duration::from_secs(1)).to_string();
    assert!(line.ends_with("FOUND") && line.contains('–'), "{line}");
}

#[test]
fn a_finding_says_why_on_which_input_and_how_to_try_it_again() {
    let log = [
        "#2\tINITED cov: 61",
        "thread '<unnamed>' panicked at src/records.rs:9:5:",
        "assertion failed: length < 3",
        "note: run with `RUST_BACKTRACE=1`",
        "==7== ERROR: libFuzzer: deadly signal",
        "    #0 in main",
        "Base64: AAE=",
        "Output of `std::fmt::Debug`:",
        "\t[0, 1]",
        "Reproduce with:",
        "\tcargo fuzz run records artifacts/records/crash-1",
        "   9: _start",
    ];
    let said = outcome::finding(&log.join("\n"));
    for wanted in ["length < 3", "deadly signal", "AAE=", "[0, 1]", "records/crash-1"] {
        assert!(said.contains(wanted), "{wanted} is not in {said}");
    }
    assert!(!said.contains("INITED") && !said.contains("_start"), "{said}");
    assert_eq!(outcome::finding("error: no such target"), "error: no such target");
}

#[test]
fn every_target_is_built_and_has_its_part_of_the_library() {
    let root = checkout::root();
    let manifest = fs::read_to_string(root.join("fuzz/Cargo.toml")).unwrap();
    let targets = targets(&root);
    assert!(!targets.is_empty());
    for target in &targets {
        assert!(manifest.contains(&format!("path = \"fuzz_targets/{target}.rs\"")), "{target}");
        assert!(root.join(format!("fuzz/src/{target}.rs")).exists(), "{target}");
    }
    assert_eq!(manifest.matches("[[bin]]").count(), targets.len());
}

#[test]
fn an_unknown_target_is_refused_with_those_that_there_are() {
    let args =
        FuzzArgs { seconds: 1, sanitizer: "none".to_owned(), jobs: 1, targets: vec!["nonsense".to_owned()] };
    let refusal = run(&args).unwrap_err().to_string();
    assert!(refusal.contains("`nonsense`") && refusal.contains("records"), "{refusal}");
}
