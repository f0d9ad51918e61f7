//! The test programs under valgrind and under the sanitizers of clang.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Result;
use lab_base::{commands::run, report::Report};

use super::{Folders, tools::Compilation};

/// Toolchain of the instrumented library, which is used if it is installed.
const NIGHTLY: &str = "nightly";
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// A test program, how it is compiled, and the program that watches it.
struct Watched<'a> {
    name: &'a str,
    source: &'a str,
    /// The installed copy with which the program is linked.
    prefix: &'a Path,
    compiler: &'a str,
    standard: &'a str,
    options: &'a [&'a str],
    watcher: Vec<String>,
    events: Option<u64>,
    environment: Vec<(&'static str, String)>,
}

impl Watched<'_> {
    fn run(&self, folders: &Folders) -> Result<()> {
        let source = folders.bindings.join("tests/c").join(self.source);
        let program = folders.scratch.join(self.name.replace([' ', ','], "-"));
        let compilation = Compilation {
            compiler: self.compiler,
            standard: self.standard,
            source: &source,
            prefix: self.prefix,
            options: self.options,
            program,
        };
        let program = compilation.run()?.to_string_lossy().into_owned();
        let line: Vec<String> = self.watcher.iter().cloned().chain([program]).collect();
        let mut command = Command::new(&line[0]);
        command.args(&line[1..]).args(self.events.map(|events| events.to_string()));
        // Valgrind takes minutes to print the backtrace of a panic.
        command.env("RUST_BACKTRACE", "0").envs(self.environment.iter().cloned());
        run(&mut command).map(drop)
    }

    fn judge(&self, folders: &Folders, report: &mut Report) {
        let outcome = self.run(folders);
        if let Err(error) = &outcome {
            report.note(format!("{}: {error:#}", self.name));
        }
        report.yes(self.name, outcome.is_ok());
    }
}

pub(super) fn check(folders: &Folders, events: u64, instrument: bool, report: &mut Report) -> Result<()> {
    memcheck(folders, events, report);
    helgrind(folders, events, report);
    sanitizers(folders, &folders.prefix, "", report);
    threads_sanitizer(folders, report);
    if !instrument {
        report.note("without --instrument, the sanitizers watch the C and C++ side alone".to_owned());
    } else if let Some(prefix) = instrumented(folders)? {
        sanitizers(folders, &prefix, ", library too", report);
    } else {
        report.note(format!("there is no toolchain `{NIGHTLY}`: the library is not instrumented"));
    }
    report.note("no sanitizer of data races in the library: it needs the sources of Rust's library".into());
    Ok(())
}

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

fn memcheck(folders: &Folders, events: u64, report: &mut Report) {
    let installed = &folders.prefix;
    let wrong = under_memcheck("memcheck: wrong arguments, fork", "misuse.c", installed);
    wrong.judge(folders, report);
    let panics = under_memcheck("memcheck: panics", "panics.c", &folders.provoked);
    Watched { options: &["-DEVB_PROVOKE"], ..panics }.judge(folders, report);
    let threads = under_memcheck("memcheck: threads, order of frees, exceptions", "threads.cpp", installed);
    let (compiler, standard) = ("g++", "-std=c++17");
    Watched { compiler, standard, events: Some(events), ..threads }.judge(folders, report);
}

/// Returns a C program under valgrind, which looks for wrong accesses and leaks.
fn under_memcheck<'a>(name: &'a str, source: &'a str, prefix: &'a Path) -> Watched<'a> {
    let leaks = "--leak-check=full --show-leak-kinds=definite,indirect";
    let fatal = "--errors-for-leak-kinds=definite,indirect";
    Watched {
        name,
        source,
        prefix,
        compiler: "gcc",
        standard: "-std=c11",
        options: &[],
        watcher: words(&format!("valgrind --quiet --error-exitcode=9 {leaks} {fatal}")),
        events: None,
        environment: Vec::new(),
    }
}

fn helgrind(folders: &Folders, events: u64, report: &mut Report) {
    let suppressions = folders.bindings.join("tests/c/helgrind.supp");
    let mut watcher = words("valgrind --quiet --tool=helgrind --error-exitcode=9 --history-level=approx");
    watcher.push(format!("--suppressions={}", suppressions.display()));
    Watched {
        name: "helgrind: threads, order of frees, exceptions",
        source: "threads.cpp",
        prefix: &folders.prefix,
        compiler: "g++",
        standard: "-std=c++17",
        options: &["-DHELGRIND"],
        watcher,
        events: Some(events),
        environment: Vec::new(),
    }
    .judge(folders, report);
}

/// Runs the programs under the sanitizers of addresses and of undefined behaviour.
fn sanitizers(folders: &Folders, prefix: &Path, which: &str, report: &mut Report) {
    for (source, compiler, standard) in [
        ("misuse.c", "clang", "-std=c11"),
        ("threads.cpp", "clang++", "-std=c++17"),
        ("hang.cpp", "clang++", "-std=c++17"),
    ] {
        // This program ends while threads of evb begin and work. Their memory is no leak, but the
        // sanitizer does not see all of it.
        let leaks = u8::from(source != "hang.cpp");
        Watched {
            name: &format!("ASan and UBSan{which}: {source}"),
            source,
            prefix,
            compiler,
            standard,
            options: &["-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"],
            watcher: Vec::new(),
            events: None,
            environment: vec![("ASAN_OPTIONS", format!("detect_leaks={leaks}"))],
        }
        .judge(folders, report);
    }
}

fn threads_sanitizer(folders: &Folders, report: &mut Report) {
    let suppressions = folders.bindings.join("tests/c/tsan.supp");
    Watched {
        name: "TSan: threads.cpp",
        source: "threads.cpp",
        prefix: &folders.prefix,
        compiler: "clang++",
        standard: "-std=c++17",
        options: &["-O1", "-fsanitize=thread"],
        watcher: Vec::new(),
        events: None,
        environment: vec![("TSAN_OPTIONS", format!("suppressions={}", suppressions.display()))],
    }
    .judge(folders, report);
}

/// Builds the library with the sanitizer of addresses, and returns the folder with headers and
/// library; `None` if there is no toolchain for it.
fn instrumented(folders: &Folders) -> Result<Option<PathBuf>> {
    let toolchain = format!("+{NIGHTLY}");
    let is_there = Command::new("cargo").args([&toolchain, "--version"]).output();
    if !is_there.is_ok_and(|output| output.status.success()) {
        return Ok(None);
    }
    let target = checkout::root().join("target/sanitized");
    let mut build = Command::new("cargo");
    build.current_dir(checkout::root()).args([&toolchain, "build", "--quiet", "--locked", "--lib"]);
    build.args(["--target", TARGET, "--target-dir"]).arg(&target);
    build.arg("--manifest-path").arg(folders.bindings.join("Cargo.toml"));
    // The toolchain that runs this program must not be used for parts of the build.
    build.env("RUSTFLAGS", "-Zsanitizer=address").env_remove("RUSTUP_TOOLCHAIN").env_remove("RUSTC");
    run(&mut build)?;
    let prefix = folders.scratch.join("sanitized");
    run(Command::new("cp").arg("-a").arg(&folders.prefix).arg(&prefix))?;
    let library = target.join(TARGET).join("debug/libevb.so");
    run(Command::new("cp").arg("--remove-destination").arg(library).arg(prefix.join("lib/libevb.so.0")))?;
    Ok(Some(prefix))
}
