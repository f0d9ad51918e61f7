//! `evbd check` as a user meets it.

use std::{
    path::Path,
    process::{Command, Output},
};

fn check(arguments: &[&str]) -> Output {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut command = Command::new(env!("CARGO_BIN_EXE_evbd"));
    command.current_dir(root).arg("check").args(arguments).output().expect("evbd starts")
}

#[test]
fn the_examples_are_admitted() {
    for example in ["examples/quickstart.toml", "examples/km3net.toml"] {
        let output = check(&[example]);
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(String::from_utf8_lossy(&output.stdout).contains("admitted"));
    }
}

#[test]
fn json_is_one_object() {
    let output = check(&["examples/quickstart.toml", "--json"]);
    let object: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((&object["admitted"], &object["sources"]), (&true.into(), &4.into()));
}

#[test]
fn a_bad_configuration_exits_with_2() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), "[run]\nnumer = 1\n").expect("written");
    let path = file.path().to_str().expect("a plain path");
    let output = check(&[path]);
    assert_eq!(output.status.code(), Some(2));
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(message.contains("did you mean `number`?") && message.contains(":2:1"), "{message}");
    let output = check(&[path, "--json"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(serde_json::from_slice::<serde_json::Value>(&output.stdout).is_ok());
    assert_eq!(check(&["/nowhere/at.all"]).status.code(), Some(2));
}
