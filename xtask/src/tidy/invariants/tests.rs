use super::*;

fn planted(of_slots: &str) -> Vec<String> {
    let files: Vec<(String, String)> = MACHINES
        .iter()
        .map(|(machine, path)| {
            let body = if *machine == "Slots" { of_slots } else { "pub(crate) fn invariants(&self) {}" };
            ((*path).to_owned(), format!("struct {machine}; impl {machine} {{ {body} }}"))
        })
        .collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    check(&Repo::of(&files)).iter().map(ToString::to_string).collect()
}

#[test]
fn a_machine_without_invariants_is_found() {
    assert!(planted("fn invariants(&self) {}").is_empty());
    for text in ["", "fn check(&self) {}"] {
        let found = planted(text);
        assert!(found.len() == 1 && found[0].contains("`Slots`"), "{found:?}");
    }
    assert_eq!(check(&Repo::of(&[])).len(), MACHINES.len(), "a machine that has moved is found, too");
}
