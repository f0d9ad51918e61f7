//! Every compiler and language standard compiles headers and examples without a warning, and the
//! examples build events.

use std::{fs, path::Path, process::Command};

use anyhow::{Context as _, Result};
use lab_base::{commands::run, report::Report};

use super::{Folders, tools::Compilation};

const C: [(&str, &str); 2] = [("gcc", "-std=c11"), ("clang", "-std=c11")];
const CPP: [(&str, &str); 4] =
    [("g++", "-std=c++17"), ("g++", "-std=c++20"), ("clang++", "-std=c++17"), ("clang++", "-std=c++20")];

const C_EXAMPLES: [&str; 1] = ["readout.c"];
const CPP_EXAMPLES: [&str; 3] = ["sink.cpp", "template/main.cpp", "readout.cpp"];

pub(super) fn check(folders: &Folders, report: &mut Report) -> Result<()> {
    let examples = folders.bindings.join("examples");
    for (compilers, sources) in
        [(C.as_slice(), C_EXAMPLES.as_slice()), (CPP.as_slice(), CPP_EXAMPLES.as_slice())]
    {
        for (compiler, standard) in compilers {
            for source in sources {
                let outcome = one(folders, compiler, standard, &examples.join(source));
                if let Err(error) = &outcome {
                    report.note(format!("{error:#}"));
                }
                report.yes(&format!("{compiler} {standard}: {source} builds and runs"), outcome.is_ok());
            }
        }
    }
    symbols(folders, report)
}

/// Compiles an example, and runs it if it needs no supervisor. The examples check the content of
/// their events themselves.
fn one(folders: &Folders, compiler: &str, standard: &str, source: &Path) -> Result<()> {
    let name = source.file_name().context("a file")?.to_string_lossy();
    let program = folders.scratch.join(format!("{name}{compiler}{standard}"));
    let compilation =
        Compilation { compiler, standard, source, prefix: &folders.prefix, options: &[], program };
    let program = compilation.run()?;
    if name == "readout.cpp" {
        return Ok(());
    }
    run(&mut Command::new(program)).map(drop)
}

/// Checks the exported symbols and the name for the dynamic linker.
fn symbols(folders: &Folders, report: &mut Report) -> Result<()> {
    let library = folders.prefix.join("lib/libevb.so");
    let foreign: Vec<_> =
        exported(&library)?.into_iter().filter(|symbol| !symbol.starts_with("evb_")).collect();
    if !foreign.is_empty() {
        report.note(format!("exported besides evb_*: {}", foreign.join(", ")));
    }
    report.yes("the shared library exports evb_* alone", foreign.is_empty());
    let dynamic = run(Command::new("readelf").arg("-d").arg(&library))?;
    report.yes("its soname is libevb.so.0", dynamic.contains("[libevb.so.0]"));
    // C++ programs include both headers.
    let both = folders.scratch.join("twice.cpp");
    fs::write(&both, "#include <evb.h>\n#include <evb.hpp>\n#include <evb.hpp>\nint main() {}\n")?;
    let compilation = Compilation {
        compiler: "g++",
        standard: "-std=c++17",
        source: &both,
        prefix: &folders.prefix,
        options: &[],
        program: folders.scratch.join("twice"),
    };
    report.yes("the headers can be included twice", compilation.run().is_ok());
    Ok(())
}

/// Returns the names of the symbols that a library exports.
pub(super) fn exported(library: &Path) -> Result<Vec<String>> {
    let listed = run(Command::new("nm").args(["-D", "--defined-only"]).arg(library))?;
    Ok(listed.lines().filter_map(|line| line.split_whitespace().last().map(str::to_owned)).collect())
}
