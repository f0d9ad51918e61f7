use std::{fs, os::unix::fs::symlink};

use super::*;

#[test]
fn missing_programs_are_named() {
    assert_eq!(programs(&["cargo"]), Ok(()));
    assert_eq!(
        programs(&["cargo", "no-such-program", "nor-this"]),
        Err(Missing::new("no-such-program, nor-this"))
    );
}

#[test]
fn only_files_that_may_be_executed_are_programs() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("file"), "").unwrap();
    symlink("file", at("link")).unwrap();
    assert!(!is_program(folder.path()) && !is_program(&at("file")) && !is_program(&at("none")));
    fs::set_permissions(at("file"), fs::Permissions::from_mode(0o755)).unwrap();
    assert!(is_program(&at("file")) && is_program(&at("link")));
}

#[test]
fn a_command_that_fails_is_quoted_with_its_complaint() {
    assert_eq!(run("no-such-program --help"), Err(Missing::new("no-such-program")));
    assert!(run("rustc --version").is_ok_and(|said| said.starts_with("rustc ")));
    let refused = run("rustc no-such-file.rs").unwrap_err().to_string();
    assert!(refused.starts_with("`rustc no-such-file.rs` to work (error"), "{refused}");
    assert!(run(" ").is_err());
}

#[test]
fn the_limit_of_open_files_is_raised_as_far_as_it_may_be() {
    let hard = getrlimit(Resource::Nofile).maximum;
    assert_eq!(open_files(hard.unwrap_or(5000)), Ok(()));
    let current = getrlimit(Resource::Nofile).current;
    assert!(current.is_none_or(|current| current >= hard.unwrap_or(5000)));
    if let Some(hard) = hard {
        let missing = open_files(hard + 1).unwrap_err().to_string();
        assert_eq!(missing, format!("{} open files (the hard limit is {hard})", hard + 1));
    }
}
