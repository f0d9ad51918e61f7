use super::*;

fn messages(path: &str, text: &str) -> Vec<String> {
    check(&Repo::of(&[(path, text)])).iter().map(ToString::to_string).collect()
}

#[test]
fn bare_clauses_at_the_head_of_item_docs_are_found() {
    for head in ["What a source knows.", "Whether it is over.", "How long it takes,", "When it ends"] {
        let found = messages("src/a.rs", &format!("/// {head}\npub const A: u8 = 1;\n"));
        assert!(found.len() == 1 && found[0].contains("src/a.rs:1: a bare clause"), "{found:?}");
    }
    for fine in ["Returns what a source knows.", "What does a source know?", "Whatever is left."] {
        assert_eq!(messages("src/a.rs", &format!("/// {fine}\npub const A: u8 = 1;\n")), [""; 0], "{fine}");
    }
    // A bare clause is reported only at the beginning of an item's documentation.
    let later = "/// The lane's bytes.\n/// What is more, they are sorted.\npub const A: u8 = 1;\n";
    assert_eq!(messages("src/a.rs", later), [""; 0]);
}

#[test]
fn wide_comments_are_found() {
    let wide = format!("// {}\n", "word ".repeat(20));
    assert!(messages("src/a.rs", &wide)[0].contains("103 columns"), "{:?}", messages("src/a.rs", &wide));
    assert_eq!(messages("src/a.rs", &format!("// {}\n", "word ".repeat(19))), [""; 0]);
    let link = format!("// https://example.org/{}\n", "a".repeat(100));
    assert_eq!(messages("src/a.rs", &link), [""; 0], "a link has no place to break");
}

#[test]
fn banned_turns_are_found_in_comments_and_pages() {
    assert!(messages("src/a.rs", "// It begins anew.\n")[0].contains("\"anew\""));
    assert!(messages("docs/a.md", "Whoever asks is told.\n")[0].contains("docs/a.md:1: \"whoever\""));
    assert_eq!(messages("docs/a.md", "`whoever`\n\n```\nwhoever\n```\nA renewal.\n"), [""; 0]);
}

#[test]
fn long_pages_are_found_outside_of_the_reference() {
    let text = "A line.\n".repeat(301);
    assert!(messages("docs/how-to/a.md", &text)[0].contains("301 lines"));
    assert_eq!(messages("docs/reference/a.md", &text), [""; 0]);
    let block = format!("<!-- begin: a -->\n{text}<!-- end: a -->\nA line.\n");
    assert_eq!(messages("docs/studies/a.md", &block), [""; 0]);
    assert!(messages("docs/studies/a.md", &(block + &text))[0].contains("302 lines"));
    assert_eq!(messages("README.md", &text), [""; 0]);
}
