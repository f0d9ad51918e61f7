use super::*;

#[test]
fn the_files_are_toml_and_name_the_types() {
    for (path, text) in files() {
        let table: toml::Table = text.parse().unwrap();
        let pure = PURE.iter().any(|krate| path.contains(krate));
        assert_eq!(table.contains_key("disallowed-types"), pure, "{path}");
    }
}

#[test]
fn a_missing_or_edited_file_is_found() {
    let all = files();
    let whole: Vec<(&str, &str)> = all.iter().map(|(p, t)| (p.as_str(), t.as_str())).collect();
    assert!(check(&Repo::of(&whole)).is_empty());
    assert_eq!(check(&Repo::of(&whole[1..])).len(), 1);
    let mut edited = whole.clone();
    edited[2].1 = "allow-unwrap-in-tests = true\n";
    assert_eq!(check(&Repo::of(&edited)).len(), 1);
}
