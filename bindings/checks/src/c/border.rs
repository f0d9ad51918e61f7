//! Nothing crosses the border between C and Rust that must not: panics, wrong arguments, freed
//! handles, exceptions, callbacks that do not return, forked children.

use std::{collections::BTreeSet, process::Command};

use anyhow::{Result, ensure};
use lab_base::{commands::run, report::Report};

use super::{Folders, compilers::exported, tools::Compilation};

/// Test programs in `bindings/c/tests/c`, with their compilers and standards.
const PROGRAMS: [(&str, &str, &str); 3] = [
    ("misuse.c", "gcc", "-std=c11"),
    ("threads.cpp", "g++", "-std=c++17"),
    ("hang.cpp", "g++", "-std=c++17"),
];

pub(super) fn check(folders: &Folders, report: &mut Report) -> Result<()> {
    let outcome = panics(folders);
    if let Err(error) = &outcome {
        report.note(format!("{error:#}"));
    }
    report.yes("a panic in any function becomes EVB_INTERNAL", outcome.is_ok());
    for (source, compiler, standard) in PROGRAMS {
        let program = folders.scratch.join(source.replace('.', "-"));
        let source = folders.bindings.join("tests/c").join(source);
        let prefix = &folders.prefix;
        let compilation = Compilation { compiler, standard, source: &source, prefix, options: &[], program };
        let outcome = compilation.run().and_then(|program| run(&mut Command::new(program)));
        let name = source.file_name().unwrap_or_default().to_string_lossy();
        if let Err(error) = &outcome {
            report.note(format!("{error:#}"));
        }
        report.yes(&format!("{name} passes"), outcome.is_ok());
    }
    Ok(())
}

/// Runs the program that makes each function panic, and checks that it knows all functions.
fn panics(folders: &Folders) -> Result<()> {
    let source = folders.bindings.join("tests/c/panics.c");
    let compilation = Compilation {
        compiler: "gcc",
        standard: "-std=c11",
        source: &source,
        prefix: &folders.provoked,
        options: &["-DEVB_PROVOKE"],
        program: folders.scratch.join("panics"),
    };
    let said = run(&mut Command::new(compilation.run()?))?;
    let called: BTreeSet<String> = said.lines().map(str::to_owned).collect();
    let all: BTreeSet<String> = exported(&folders.provoked.join("lib/libevb.so"))?.into_iter().collect();
    ensure!(called == all, "not called: {:?}", all.symmetric_difference(&called).collect::<Vec<_>>());
    Ok(())
}
