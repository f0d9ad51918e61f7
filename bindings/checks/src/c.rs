//! Tests the C and C++ bindings with the compilers and build systems of their users, under valgrind
//! and under sanitizers: programs outside of the repository build events from an installed copy
//! that was moved, nothing but `evb_*` is exported, and panics, exceptions, forks and wrong
//! arguments become errors.

pub mod tools;
mod compilers;
mod outside;
mod border;
mod checkers;

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use checkout::cargo;
use clap::Args;
use lab_base::{commands::run as execute, needs::Need, report::Report};

pub const NEEDS: &[Need] = &[
    Need { program: "gcc", package: "gcc" },
    Need { program: "g++", package: "g++" },
    Need { program: "clang", package: "clang" },
    Need { program: "clang++", package: "clang" },
    Need { program: "cmake", package: "cmake" },
    Need { program: "make", package: "make" },
    Need { program: "pkg-config", package: "pkg-config" },
    Need { program: "valgrind", package: "valgrind" },
    Need { program: "nm", package: "binutils" },
];

/// Folder of the bindings in the repository.
pub const BINDINGS: &str = "bindings/c";

#[derive(Args)]
pub struct CArgs {
    /// Number of events that each outside program builds.
    #[arg(long, default_value_t = 10_000)]
    events: u64,
    /// Number of events that ten threads push under valgrind.
    #[arg(long, default_value_t = 200)]
    checked_events: u64,
    /// Also build the library with the sanitizer of addresses, which takes a nightly toolchain and
    /// some minutes.
    #[arg(long)]
    instrument: bool,
}

/// Folders of the test.
struct Folders {
    /// The bindings in the repository.
    bindings: PathBuf,
    /// An installed copy, as users have it.
    prefix: PathBuf,
    /// An installed copy whose functions panic on request.
    provoked: PathBuf,
    /// Programs and logs.
    scratch: PathBuf,
}

/// Runs the test in the folder `out`, and returns 0 if all checks passed, else 1.
pub fn run(out: &Path, args: &CArgs) -> Result<u8> {
    let scratch = out.join("c");
    let _ = fs::remove_dir_all(&scratch);
    fs::create_dir_all(&scratch).with_context(|| scratch.display().to_string())?;
    let folders = Folders {
        bindings: checkout::root().join(BINDINGS),
        prefix: scratch.join("installed"),
        provoked: scratch.join("provoked"),
        scratch,
    };
    let mut report = Report::bare("c");
    own_tests(&folders, &mut report)?;
    install(&folders.provoked, &["--features", "provoke"])?;
    install(&folders.prefix, &[])?;
    compilers::check(&folders, &mut report)?;
    outside::check(&folders, args.events, &mut report)?;
    border::check(&folders, &mut report)?;
    checkers::check(&folders, args.checked_events, args.instrument, &mut report)?;
    Ok(u8::from(!report.finish(out)?))
}

/// Runs the tests of the bindings themselves, which compare the header and the binary interface
/// with the committed ones.
fn own_tests(folders: &Folders, report: &mut Report) -> Result<()> {
    let manifest = folders.bindings.join("Cargo.toml");
    let mut tests = cargo();
    tests.args(["test", "--quiet", "--locked", "--target-dir", "target", "--manifest-path"]).arg(manifest);
    let outcome = execute(&mut tests);
    if let Err(error) = &outcome {
        report.note(format!("{error:#}"));
    }
    report.yes("header and binary interface are the committed ones", outcome.is_ok());
    Ok(())
}

/// Installs the bindings, built without optimization.
fn install(prefix: &Path, options: &[&str]) -> Result<()> {
    let mut sdk = cargo();
    sdk.args(["xtask", "sdk", "--debug", "--prefix"]).arg(prefix).args(options);
    execute(&mut sdk).map(drop)
}
