use super::*;

fn found(path: &str, text: &str) -> Vec<String> {
    // The empty files keep the median length low, so that only the rule under test is violated.
    let repo = Repo::of(&[(path, text), ("src/a.rs", ""), ("src/b.rs", ""), ("src/c.rs", "")]);
    check(&repo).iter().map(ToString::to_string).collect()
}

fn constants(lines: usize) -> String {
    "const X: u8 = 1;\n".repeat(lines)
}

#[test]
fn the_wall_stands_even_with_a_reason() {
    let text = format!("{REASON}it is a table of constants\n{}", constants(WALL));
    assert_eq!(found("src/long.rs", &text).len(), 1);
    assert_eq!(found("src/long/tests.rs", &text).len(), 1);
}

#[test]
fn above_five_hundred_a_reason_is_wanted() {
    assert_eq!(found("src/long.rs", &constants(WANTS_REASON + 1)).len(), 1);
    assert!(found("src/long.rs", &constants(WANTS_REASON)).is_empty());
    let text = format!("{REASON}it is a table of constants\n{}", constants(WANTS_REASON));
    assert!(found("src/long.rs", &text).is_empty());
    let empty = format!("{REASON}\n{}", constants(WANTS_REASON));
    assert_eq!(found("src/long.rs", &empty).len(), 1);
}

#[test]
fn the_median_is_enforced() {
    let text = constants(MEDIAN);
    let found = check(&Repo::of(&[("src/a.rs", &text), ("src/b.rs", &text), ("src/c.rs", "")]));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(summary(&Repo::of(&[("src/a.rs", &text)])).contains("median 200 lines"));
}

#[test]
fn long_functions_are_found_wherever_they_stand() {
    let body = "    // a line { with \"a brace\n".repeat(FUNCTION + 1);
    for text in [
        format!("fn f() {{\n{body}}}\n"),
        format!("struct S;\nimpl S {{\nfn f() {{\n{body}}}\n}}\n"),
        format!("trait T {{\nfn f() {{\n{body}}}\n}}\n"),
        format!("mod m {{\nasync fn f() {{\n{body}}}\n}}\n"),
        format!("fn g() {{ fn f() {{\n{body}}}\n}}\n"),
    ] {
        let found = found("src/long.rs", &text);
        assert!(found.iter().any(|f| f.contains("`f` has 71 lines")), "{found:?}");
    }
    let just = "    // a line\n".repeat(FUNCTION);
    assert!(found("src/long.rs", &format!("fn f() {{\n{just}}}\n")).is_empty());
}
