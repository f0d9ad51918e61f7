use super::*;

#[test]
fn only_programs_with_tests_count() {
    let root = checkout::root();
    let message = |test: bool, executable: &str, folder: &str| {
        let manifest = root.join(folder).join("Cargo.toml");
        serde_json::json!({
            "manifest_path": manifest, "target": { "name": "golden" }, "profile": { "test": test },
            "executable": if executable.is_empty() { None } else { Some(executable) },
        })
        .to_string()
    };
    let found = program(&message(true, "/t/golden-1", "crates/evb-core")).unwrap();
    let folder = root.join("crates/evb-core");
    assert_eq!(found, TestProgram { name: "evb-core/golden".into(), path: "/t/golden-1".into(), folder });
    assert_eq!(program(&message(true, "/t/golden-2", "")).unwrap().name, "evb/golden");
    assert!(found.is_pure() && !program(&message(true, "/t/evb-3", "")).unwrap().is_pure());
    assert_eq!(program(&message(false, "/t/golden-1", "")), None);
    assert_eq!(program(&message(true, "", "")), None);
    assert_eq!(program("not json"), None);
}
