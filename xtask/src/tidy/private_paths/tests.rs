use super::*;

#[test]
fn private_paths_are_found_in_any_text() {
    for private in PRIVATE {
        for line in [
            format!("see {private}/x"),
            format!("cd {private}"),
            format!("\"{private}/a b\""),
            format!("({private})"),
        ] {
            let repo = Repo::of(&[("README.md", line.as_str()), (".ci/run", line.as_str())]);
            assert_eq!(check(&repo).len(), 2, "{line}");
        }
    }
}

#[test]
fn parts_of_other_paths_pass() {
    let work = PRIVATE[0];
    for line in [
        format!("crates{work}/x"),
        format!("https://example.org{work}"),
        format!("{work}space"),
        format!("..{work}"),
    ] {
        assert_eq!(check(&Repo::of(&[("README.md", line.as_str())])).len(), 0, "{line}");
    }
}
