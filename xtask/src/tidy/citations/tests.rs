use super::*;

fn found(comment: &str) -> usize {
    let text = format!("// {comment}\nfn f() {{}}\n");
    check(&Repo::of(&[
        ("docs/reference/protocol.md", "**LANE-3** A source…\n- `HELLO-1`: …"),
        ("src/a.rs", text.as_str()),
    ]))
    .len()
}

#[test]
fn a_citation_must_lead_somewhere() {
    assert_eq!(found(&format!("{DOCUMENT} LANE-4")), 1);
    assert_eq!(found(&format!("see {DOCUMENT} LANE-3, LANE-33 and LANE-4.")), 2);
    assert_eq!(found(&format!("({DOCUMENT} HELLO-2)")), 1);
}

#[test]
fn good_citations_and_mere_mentions_pass() {
    assert_eq!(found(&format!("{DOCUMENT} LANE-3")), 0);
    assert_eq!(found(&format!("({DOCUMENT} LANE-3, HELLO-1): as UTF-8")), 0);
    assert_eq!(found(&format!("see {DOCUMENT} for SHA-256")), 0);
}

#[test]
fn without_the_document_every_citation_fails() {
    let text = format!("// {DOCUMENT} LANE-3\n");
    assert_eq!(check(&Repo::of(&[("src/a.rs", text.as_str())])).len(), 1);
}
