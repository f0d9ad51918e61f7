//! Projects outside of the repository find evb in a folder to which the installed copy was moved,
//! and whose name has a blank: with CMake, shared and static, and with pkg-config.

use std::{fs, path::Path, process::Command};

use anyhow::{Context as _, Result, ensure};
use lab_base::{commands::run, report::Report};

use super::Folders;

pub(super) fn check(folders: &Folders, events: u64, report: &mut Report) -> Result<()> {
    let moved = folders.scratch.join("moved to here");
    run(Command::new("cp").arg("-a").arg(&folders.prefix).arg(&moved))?;
    // Nothing may look in the place where it was installed first.
    let away = folders.scratch.join("away");
    fs::rename(&folders.prefix, &away)?;
    let outcomes = [
        ("CMake, shared library", cmake(folders, &moved, events, "evb::evb")),
        ("CMake, static library", cmake(folders, &moved, events, "evb::static")),
        ("pkg-config", pkg_config(folders, &moved, events)),
        ("CMake refuses another version", other_version(folders, &moved)),
    ];
    fs::rename(&away, &folders.prefix)?;
    for (name, outcome) in outcomes {
        if let Err(error) = &outcome {
            report.note(format!("{name}: {error:#}"));
        }
        report.yes(&format!("outside, from a moved folder: {name}"), outcome.is_ok());
    }
    Ok(())
}

/// Copies the template to a folder of its own.
fn template(folders: &Folders, name: &str) -> Result<std::path::PathBuf> {
    let project = folders.scratch.join(name);
    fs::create_dir_all(&project)?;
    for file in ["CMakeLists.txt", "main.cpp"] {
        fs::copy(folders.bindings.join("examples/template").join(file), project.join(file))?;
    }
    Ok(project)
}

fn cmake(folders: &Folders, moved: &Path, events: u64, target: &str) -> Result<()> {
    let project = template(folders, &target.replace("::", "-"))?;
    let lists = project.join("CMakeLists.txt");
    let text = fs::read_to_string(&lists)?;
    fs::write(&lists, text.replace("PRIVATE evb::evb)", &format!("PRIVATE {target})")))?;
    let build = project.join("build");
    configure(&project, &build, moved)?;
    run(Command::new("cmake").arg("--build").arg(&build))?;
    builds(&mut Command::new(build.join("readout")), events)
}

fn configure(project: &Path, build: &Path, prefix: &Path) -> Result<String> {
    let prefix = format!("-DCMAKE_PREFIX_PATH={}", prefix.display());
    run(Command::new("cmake").arg("-S").arg(project).arg("-B").arg(build).arg(prefix))
}

/// Checks that a project that needs another minor version is told so.
fn other_version(folders: &Folders, moved: &Path) -> Result<()> {
    let project = template(folders, "other")?;
    let lists = project.join("CMakeLists.txt");
    let text = fs::read_to_string(&lists)?;
    fs::write(&lists, text.replace("find_package(evb 0.1", "find_package(evb 0.9"))?;
    let refused = configure(&project, &project.join("build"), moved).err().context("it was accepted")?;
    ensure!(refused.to_string().contains("0.9"), "{refused:#}");
    Ok(())
}

/// Builds with the options that pkg-config prints, as a shell splits them.
fn pkg_config(folders: &Folders, moved: &Path, events: u64) -> Result<()> {
    let program = folders.scratch.join("by-pkg-config");
    let source = folders.bindings.join("examples/template/main.cpp");
    let line = r#"eval "c++ -std=c++17 \"$1\" -o \"$2\" $(pkg-config --cflags --libs evb)""#;
    let mut shell = Command::new("sh");
    shell.args(["-ec", line, "sh"]).arg(source).arg(&program);
    run(shell.env("PKG_CONFIG_PATH", moved.join("lib/pkgconfig")))?;
    builds(Command::new(program).env("LD_LIBRARY_PATH", moved.join("lib")), events)
}

/// Runs a program that checks the content of its events, and compares the number of events and
/// bytes that it prints.
fn builds(program: &mut Command, events: u64) -> Result<()> {
    let said = run(program.arg(events.to_string()))?;
    let bytes = events * 2 * 128 * 8;
    ensure!(said.trim() == format!("{events} events complete, {bytes} bytes"), "it says `{}`", said.trim());
    Ok(())
}
