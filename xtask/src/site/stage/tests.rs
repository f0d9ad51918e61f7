use super::*;

/// The index of the documentation. Only links on the first lines of items count: in the section
/// `Learn` that to `first`, and in `Look up` that to `evbd`.
const INDEX_TEXT: &str = "
# Pages

## Learn

1. [First](tutorial/first.md#run): runs it

## Look up

* [`evbd`](reference/evbd.md),
  and [first](tutorial/first.md) again

The [glossary](glossary.md) has words.
";

/// A repository of pages. `NOTES.md` is linked from `README.md` only, and `unlinked.md` from
/// nowhere.
fn repo() -> Repo {
    Repo::of(&[
        ("README.md", "[docs](docs/README.md) [why](NOTES.md)"),
        ("NOTES.md", "# Notes\n[the code](crates/core)"),
        ("docs/README.md", INDEX_TEXT),
        (
            "docs/tutorial/first.md",
            "# Your *first* run\n[the file](../../examples/x.toml) <https://example.org>",
        ),
        (
            "docs/reference/evbd.md",
            "# The program `evbd`\n[web](https://example.org/a.md) [mail](mailto:a@b.c)",
        ),
        ("docs/glossary.md", "# Glossary"),
        ("docs/reference/unlinked.md", "# Unlinked"),
        ("examples/x.toml", ""),
        ("crates/core/lib.rs", ""),
    ])
}

#[test]
fn everything_that_pages_link_is_reached() {
    let reached = reached(&repo());
    let expected = [
        "NOTES.md",
        "README.md",
        "crates/core",
        "docs/README.md",
        "docs/glossary.md",
        "docs/reference/evbd.md",
        "docs/tutorial/first.md",
        "examples/x.toml",
    ];
    assert_eq!(reached.iter().collect::<Vec<_>>(), expected);
}

#[test]
fn the_table_of_contents_follows_the_index() {
    let repo = repo();
    let expected = "[evb](README.md)\n[All pages](docs/README.md)\n\n\
                    # Learn\n\n- [Your *first* run](docs/tutorial/first.md)\n\n\
                    # Look up\n\n- [The program `evbd`](docs/reference/evbd.md)\n\n\
                    # Other pages\n\n- [Glossary](docs/glossary.md)\n- [Notes](NOTES.md)\n";
    assert_eq!(summary(&repo, &reached(&repo)), expected);
}

#[test]
fn a_folder_of_the_source_is_listed() {
    let listing = listing(&repo(), "crates/core");
    assert!(listing.contains("<li>lib.rs</li>") && !listing.contains("x.toml"), "{listing}");
}
