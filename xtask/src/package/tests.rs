use super::*;

#[test]
fn the_workspace_of_what_was_packaged_has_our_profiles_and_every_crate_for_a_registrys() {
    let ours: Table =
        "[workspace]\nresolver = \"3\"\nmembers = [\"x\"]\n[profile.dev]\ndebug = 1\n".parse().unwrap();
    let crates = [("a".to_owned(), "/p/a-0.1.0".into()), ("b".to_owned(), "/p/b-0.2.0".into())];
    let manifest = manifest(&crates, Path::new("/p/stand-in"), &ours);
    assert_eq!(manifest["workspace"]["members"].as_array().unwrap().len(), 3);
    assert_eq!(manifest["workspace"]["resolver"].as_str(), Some("3"));
    assert_eq!(manifest["patch"]["crates-io"]["b"]["path"].as_str(), Some("/p/b-0.2.0"));
    assert_eq!(manifest["profile"]["dev"]["debug"].as_integer(), Some(1));
}

#[test]
fn the_crate_beside_has_the_build_dependencies_of_xtask() {
    let folder = tempfile::tempdir().unwrap();
    let xtask = "[package]\nname = \"xtask\"\n[dependencies]\na = \"1\"\n[build-dependencies]\nb = \"2\"\n"
        .parse()
        .unwrap();
    let path = stand_in(&xtask, folder.path()).unwrap();
    let manifest: Table = fs::read_to_string(path.join("Cargo.toml")).unwrap().parse().unwrap();
    assert_eq!(manifest["build-dependencies"]["b"].as_str(), Some("2"));
    assert!(manifest.get("dependencies").is_none() && path.join("src/lib.rs").exists());
}
