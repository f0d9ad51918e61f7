use super::*;

const SAID: &str = "running 3 tests
test a ... ok
test b ... SKIP: needs ethtool
ok
SKIP: needs IPv6 (os error 99) [c]
test c ... ok

test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out; finished in 0.10s
";

#[test]
fn the_lines_of_the_harness_are_counted() {
    let counts = Counts { passed: 3, failed: 0, ignored: 1, skipped: 2 };
    assert_eq!(Counts::of(SAID), counts);
    let failed = "test result: FAILED. 10 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out";
    assert_eq!(Counts::of(failed), Counts { passed: 10, failed: 2, ..Counts::default() });
    assert_eq!(Counts::of("killed"), Counts::default());
    let sum = counts.plus(counts);
    assert_eq!(sum.to_string(), "6 passed, 0 failed, 2 ignored, 4 SKIP lines");
}

#[test]
fn of_a_failed_program_the_failures_are_shown() {
    let said = "test a ... ok\nno compiler\ntest b ... FAILED\n---- b stdout ----\n";
    assert_eq!(failures(said), "no compiler\ntest b ... FAILED\n---- b stdout ----\n");
}

#[test]
fn what_is_missing_is_quoted_without_the_name_before_it() {
    let lines: Vec<_> = skips(SAID).collect();
    assert_eq!(lines, ["SKIP: needs ethtool", "SKIP: needs IPv6 (os error 99) [c]"]);
}
