//! The commands of the studies in `docs/studies`: evb-bench must accept all their arguments.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the command lines of evb-bench in the list of studies, without those that are planned,
/// and in the code blocks of the pages.
fn lines() -> Vec<String> {
    let folder = root().join("docs/studies");
    let list = fs::read_to_string(folder.join("studies.toml")).expect("readable");
    let quoted = |text: &str| {
        let lines = text.lines().filter(|line| line.starts_with("full") || line.starts_with("quick "));
        lines.filter_map(|line| Some(line.split('"').nth(1)?.to_owned())).collect::<Vec<_>>()
    };
    let (planned, present): (Vec<&str>, Vec<&str>) =
        list.split("[[study]]\n").partition(|study| study.contains("\nplanned "));
    let planned: Vec<String> = planned.into_iter().flat_map(quoted).collect();
    let mut found: Vec<String> = present.into_iter().flat_map(quoted).collect();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|extension| extension == "md") {
            let page = fs::read_to_string(path).expect("readable");
            let blocks = page.split("```").skip(1).step_by(2);
            found.extend(blocks.flat_map(str::lines).map(ToOwned::to_owned));
        }
    }
    found.retain(|line| line.starts_with("evb-bench ") && !planned.contains(line));
    found.sort();
    found.dedup();
    found
}

/// With `--help` behind all other arguments, evb-bench checks these and does nothing.
fn is_accepted(line: &str) -> Result<(), String> {
    let words = line.split_whitespace().skip(1);
    let mut command = Command::new(env!("CARGO_BIN_EXE_evb-bench"));
    let output = command.args(words).arg("--help").output().expect("evb-bench starts");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() { Ok(()) } else { Err(said) }
}

#[test]
fn every_command_of_the_studies_is_accepted() {
    let lines = lines();
    assert!(lines.len() >= 5, "{lines:?}");
    for line in lines {
        is_accepted(&line).unwrap_or_else(|said| panic!("{line}\n{said}"));
    }
}

#[test]
fn a_wrong_command_is_refused() {
    for line in [
        "evb-bench nothing",
        "evb-bench modes --nothing 1",
        "evb-bench builder --slots many",
        "evb-bench cheque x",
    ] {
        assert!(is_accepted(line).is_err(), "{line}");
    }
}
