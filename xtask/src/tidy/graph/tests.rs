use super::*;

fn found(manifest: &str) -> Vec<String> {
    let repo = Repo::of(&[("crates/x/Cargo.toml", manifest)]);
    check(&repo).iter().map(ToString::to_string).collect()
}

#[test]
fn the_allowed_graph_passes() {
    assert!(
        found("[package]\nname = 'evb-shaper'\n[dependencies]\nevb-core = '1'\nbytes = '1'\n").is_empty()
    );
    assert!(found("[package]\nname = 'evb'\n[dev-dependencies]\nevb-sim = '1'\n").is_empty());
}

#[test]
fn core_depends_on_none_of_ours() {
    let found = found("[package]\nname = 'evb-core'\n[dependencies]\nevb-shaper.workspace = true\n");
    assert_eq!(found, ["crates/x/Cargo.toml: `evb-core` must not depend on `evb-shaper`"]);
}

#[test]
fn the_simulator_never_reaches_the_net() {
    for section in
        ["dependencies", "dev-dependencies", "build-dependencies", "target.'cfg(unix)'.dependencies"]
    {
        let manifest = format!("[package]\nname = 'evb-sim'\n[{section}]\nevb-net = '1'\n");
        assert_eq!(found(&manifest).len(), 1, "{section}");
    }
}

#[test]
fn only_tests_ask_what_the_machine_has() {
    let manifest =
        |section: &str| format!("[package]\nname = 'evb-net'\n[{section}]\nevb-needs.workspace = true\n");
    assert!(found(&manifest("dev-dependencies")).is_empty());
    assert_eq!(found(&manifest("dependencies")).len(), 1);
}

#[test]
fn a_renamed_dependency_is_seen() {
    let manifest =
        "[package]\nname = 'evb-core'\n[dependencies]\nwhen = { package = 'evb-shaper', version = '1' }\n";
    assert_eq!(found(manifest).len(), 1);
}

#[test]
fn an_unknown_crate_is_refused() {
    assert_eq!(found("[package]\nname = 'evb-misc'\n").len(), 1);
}
