use std::fs;

use clap::ValueEnum as _;

use super::*;

/// Returns a command line with a visible and a hidden command.
fn evbd() -> Command {
    let run = Command::new("run").arg(clap::Arg::new("here").long("here"));
    Command::new("evbd").subcommands([run, Command::new("secret").hide(true)])
}

#[test]
fn every_shell_learns_the_commands_and_their_options() {
    for shell in Shell::value_variants() {
        let script = String::from_utf8(script(*shell, &mut evbd())).expect("text");
        assert!(script.contains("run") && script.contains("here"), "{shell}: {script}");
    }
}

#[test]
fn every_visible_command_has_a_man_page() {
    let folder = tempfile::tempdir().expect("a folder");
    let arguments = ManPagesArguments { folder: folder.path().to_owned() };
    man_pages(&arguments, evbd());
    let entries = fs::read_dir(folder.path()).expect("readable");
    let mut names: Vec<_> = entries.map(|entry| entry.expect("readable").file_name()).collect();
    names.sort();
    assert_eq!(names, ["evbd-run.1", "evbd.1"]);
}
