use super::*;

const FIGURE: &str = "[[figure]]\nid = \"kek-11\"\nshows = \"x\"\nstatus = \"in part\"\nreason = \"y\"\nstudies = [\"s\"]\n\
    section = \"a.md#b\"\n";
const STUDY: &str = "[[study]]\nname = \"s\"\nfull = \"evbd x\"\nquick = \"evbd x\"\n";
const BLOCK: &str = "[[study.block]]\nname = \"b\"\n";

#[test]
fn the_papers_have_42_figures() {
    let all = all_figures();
    assert_eq!(all.len(), 42);
    assert_eq!((all[0].as_str(), all[41].as_str()), ("kek-1", "rcnp-11"));
}

#[test]
fn a_catalog_is_read() {
    let catalog = Catalog::read(&format!("{FIGURE}{STUDY}{BLOCK}")).unwrap();
    assert_eq!(catalog.figures[0].name(), "KEK 11");
    assert_eq!(catalog.figures[0].status, Status::InPart);
    assert_eq!(catalog.blocks().map(|(_, block)| block.name.as_str()).collect::<Vec<_>>(), ["b"]);
    assert!(!catalog.study("s").unwrap().has_picture());
}

#[test]
fn mistakes_of_a_catalog_are_refused() {
    for (text, reason) in [
        (FIGURE.to_owned() + "[[study]]\nname = \"t\"\nfull = \"x\"\nquick = \"x\"\n", "no study `s`"),
        (format!("{FIGURE}{STUDY}{BLOCK}{BLOCK}"), "two blocks have the name `b`"),
        (format!("{FIGURE}{STUDY}{STUDY}"), "two studies have the name `s`"),
        (format!("{FIGURE}{STUDY}typo = 1\n"), "typo"),
        (format!("{}{STUDY}", FIGURE.replace("in part", "almost")), "almost"),
    ] {
        let error = format!("{:#}", Catalog::read(&text).unwrap_err());
        assert!(error.contains(reason), "{error}");
    }
}
