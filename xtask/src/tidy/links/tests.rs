use super::*;

fn found(text: &str) -> usize {
    let guide = "# The guide\n## Two ports, one `budget`\n";
    check(&Repo::of(&[
        ("docs/a.md", text),
        ("docs/guide.md", guide),
        ("README.md", "# evb"),
        ("img/x.svg", ""),
    ]))
    .len()
}

#[test]
fn broken_links_are_found_in_every_spelling() {
    for text in [
        "[x](nowhere.md)",
        "![x](../img/y.svg)",
        "[x]: nowhere.md",
        "<img src=\"y.svg\">",
        "[x](guide.md#no-such-heading)",
        "[x](#here)",
        "[x](../../outside.md)",
        "[`code`](nowhere.md) and [y](guide.md)",
    ] {
        assert_eq!(found(text), 1, "{text}");
    }
}

#[test]
fn good_links_pass() {
    for text in [
        "[x](guide.md) [y](../README.md#evb) [z](../img/) [w](/img/x.svg)",
        "[x](guide.md#two-ports-one-budget) [the web](https://example.org/x.md) [mail](mailto:a@b.c)",
        "# Here\n[x](#here)",
        "```\n[x](nowhere.md)\n```\n`[x](nowhere.md)`",
        "[x]: guide.md \"title\"",
    ] {
        assert_eq!(found(text), 0, "{text}");
    }
}
