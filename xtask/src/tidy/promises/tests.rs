use super::*;

const QUEUES: &str = "\
| where | queue | limit |
|---|---|---|
| source | fragments, `CHANNEL` | 1024 |
| builder | handshakes, `Greetings` | 64 |
";

const LISTED: &str = "\
## [Limits](limits.md)

| promise | test |
|---|---|
| source: fragments, `CHANNEL` | none yet |
| builder: handshakes, `Greetings` | `fuzz/fuzz_targets/greet.rs` |
";

fn found(page: &str, limits: &str) -> Vec<String> {
    let repo = Repo::of(&[
        (PAGE, page),
        (LIMITS, limits),
        ("src/a/tests.rs", "#[test]\nfn who_lies_is_closed() {}\nfn who() {}\n"),
        ("tests/test_a.py", "def test_a_lie(tmp_path):\n    pass\n"),
        ("fuzz/fuzz_targets/greet.rs", ""),
    ]);
    check(&repo).iter().map(ToString::to_string).collect()
}

/// Returns the findings on a page with one promise, which has these tests.
fn tests(cell: &str) -> Vec<String> {
    found(&format!("# Promises\n\n| promise | test |\n|---|---|\n| Nobody lies. | {cell} |\n"), "")
}

#[test]
fn existing_tests_pass() {
    for cell in [
        "`src/a/tests.rs: who_lies_is_closed`",
        "`src/a/tests.rs: who_lies_is_closed`, `tests/test_a.py: test_a_lie`",
        "`fuzz/fuzz_targets/greet.rs`",
        "none yet",
    ] {
        assert!(tests(cell).is_empty(), "{cell}: {:?}", tests(cell));
    }
}

#[test]
fn tests_that_do_not_exist_are_found() {
    for (cell, words) in [
        ("`src/b/tests.rs: who_lies_is_closed`", "`src/b/tests.rs` does not exist"),
        ("`src/a/tests.rs: who_lies`", "no function `who_lies`"),
        ("`tests/test_a.py: test_a`", "no function `test_a`"),
        ("`fuzz/fuzz_targets/greet.rs: check`", "no function `check`"),
        ("`fuzz/fuzz_targets/meet.rs`", "does not exist"),
        ("`src/a/tests.rs`", "name a function"),
        ("`src/a`", "does not exist"),
        ("none yet, `src/a/tests.rs: what`", "no function `what`"),
    ] {
        let found = tests(cell);
        assert!(found.len() == 1 && found[0].contains(words), "{cell}: {found:?}");
        assert!(found[0].starts_with("docs/reference/promises.md:5: "), "{found:?}");
    }
}

#[test]
fn a_promise_needs_a_test() {
    for cell in ["", "none", "who_lies_is_closed", "none yet | more"] {
        assert_eq!(tests(cell).len(), 1, "{cell}");
    }
    assert_eq!(check(&Repo::of(&[])).len(), 1, "the page is missing");
}

#[test]
fn the_queues_are_those_of_the_page_about_limits() {
    assert_eq!(found(LISTED, QUEUES), Vec::<String>::new());
    let renamed = QUEUES.replace("CHANNEL", "PIPE");
    let differences = found(LISTED, &renamed);
    assert_eq!(differences.len(), 2, "{differences:?}");
    assert!(differences[0].starts_with("docs/reference/limits.md:3: "), "{differences:?}");
    assert!(differences[1].starts_with("docs/reference/promises.md:5: "), "{differences:?}");
    let elsewhere = LISTED.replace("limits.md", "others.md");
    assert_eq!(found(&elsewhere, QUEUES).len(), 2, "only the section of the page counts");
}
