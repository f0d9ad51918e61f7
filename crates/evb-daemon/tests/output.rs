//! The run and its verdict do not change if output cannot be written, because a disk is full or a
//! reader has gone.

use std::{
    fs::{self, File, OpenOptions},
    path::Path,
    process::{Command, Stdio},
};

const EVENTS: u64 = 20;

/// Writes the configuration of a system in one process that writes event files into `out`.
fn configuration(folder: &Path) -> std::path::PathBuf {
    let path = folder.join("config.toml");
    let out = folder.join("out");
    let ports = evb_needs::free_ports(2);
    let (supervisor, builder) = (ports[0], ports[1]);
    let text = format!(
        "[run]\nnumber = 1\nevents = {EVENTS}\n\
         [supervisor]\nlisten = \"127.0.0.1:{supervisor}\"\ntrigger = {{ kind = \"as-fast-as-possible\" }}\n\
         [[source]]\nid = 1\ninput = {{ kind = \"generator\", size = \"1 kB\" }}\n\
         [[builder]]\nid = 1\nlisten = \"127.0.0.1:{builder}\"\nsink = {{ kind = \"file\", path = \"{}\" }}\n",
        out.display()
    );
    fs::write(&path, text).expect("written");
    path
}

fn evbd() -> Command {
    Command::new(env!("CARGO_BIN_EXE_evbd"))
}

fn verified(folder: &Path) -> Option<i32> {
    let mut verify = evbd();
    verify.args(["verify", "--events", &EVENTS.to_string()]).arg(folder.join("out"));
    verify.stdout(Stdio::null()).status().expect("evbd starts").code()
}

fn full() -> File {
    OpenOptions::new().write(true).open("/dev/full").expect("Linux has it")
}

#[test]
fn a_run_that_can_say_nothing_is_as_good() {
    let folder = tempfile::tempdir().expect("a directory");
    let config = configuration(folder.path());
    let ran = evbd().arg("run").arg(config).stdout(full()).stderr(full()).status().expect("evbd starts");
    assert_eq!((ran.code(), verified(folder.path())), (Some(0), Some(0)));
}

#[test]
fn a_summary_that_cannot_be_written_leaves_table_and_events() {
    let folder = tempfile::tempdir().expect("a directory");
    let config = configuration(folder.path());
    let ran = evbd().arg("run").arg(config).args(["--summary", "/dev/full"]).output().expect("evbd starts");
    let said = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(1), "{said}");
    assert!(said.contains("/dev/full") && said.contains("os error 28"), "{said}");
    assert!(String::from_utf8_lossy(&ran.stdout).contains("complete"));
    assert_eq!(verified(folder.path()), Some(0));
}

#[test]
fn a_summary_in_no_directory_is_refused_before_the_run() {
    let folder = tempfile::tempdir().expect("a directory");
    let config = configuration(folder.path());
    let nowhere = folder.path().join("nowhere/summary.json");
    let ran = evbd().arg("run").arg(config).arg("--summary").arg(nowhere).output().expect("evbd starts");
    let said = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(2), "{said}");
    assert!(said.contains("--summary: the directory") && said.contains("nowhere does not exist"), "{said}");
    assert!(!folder.path().join("out").exists(), "nothing was started");
}

#[test]
fn damage_is_told_by_the_exit_code_also_where_the_reader_has_gone() {
    let folder = tempfile::tempdir().expect("a directory");
    let ran = evbd().arg("run").arg("--quiet").arg(configuration(folder.path())).status();
    assert!(ran.expect("evbd starts").success());
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut verify = evbd();
    let verify = verify.args(["verify", "--events", "21"]).arg(folder.path().join("out"));
    assert_eq!(verify.stdout(writer).status().expect("evbd starts").code(), Some(1));
}
