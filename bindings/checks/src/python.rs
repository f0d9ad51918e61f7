//! Builds the Python package as a wheel, checks which systems the wheel runs on, and runs the tests
//! of the package in fresh environments: with NumPy 2, with NumPy 1, and without NumPy. The tools
//! come from PyPI; if it is out of reach, the test is skipped.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail, ensure};
use checkout::{SKIPPED, finish};
use clap::Args;
use lab_base::{
    needs::Need,
    setting::{QUICK, Setting},
    venv::Venv,
};

pub const NEEDS: &[Need] = &[Need { program: "python3", package: "python3" }];

/// The newest glibc that a system needs for the wheel is 2.`GLIBC`; RHEL 8 has this version.
const GLIBC: u32 = 28;
/// The programs that build and check the wheel. Zig links against an older glibc than this host's.
const TOOLS: [&str; 4] = ["maturin>=1.9,<2", "ziglang", "auditwheel", "abi3audit"];
/// The packages for the measurements of speed.
const RIVALS: [&str; 3] = ["numpy", "pyzmq", "ConstellationDAQ==1.0.2"];

#[derive(Args)]
pub struct PythonArgs {
    /// Measure speeds beside other programs too, and print their ratios.
    #[arg(long)]
    speed: bool,
    /// Number of events in the files of the measurement.
    #[arg(long, default_value_t = 1_000_000)]
    events: u64,
    /// Build the wheel without optimization.
    #[arg(long, conflicts_with = "speed")]
    quick: bool,
}

/// An environment in which the tests run.
struct Environment {
    name: &'static str,
    packages: &'static [&'static str],
    /// True if a Python may be too new or too old for these packages.
    may_lack: bool,
}

const ENVIRONMENTS: [Environment; 3] = [
    Environment {
        name: "numpy-2",
        packages: &[
            "pytest",
            "hypothesis",
            "numpy>=2",
            "mypy",
            "nbclient",
            "ipykernel",
            "pyarrow",
            "awkward",
            "pandas",
        ],
        may_lack: false,
    },
    Environment { name: "numpy-1", packages: &["pytest", "numpy<2"], may_lack: true },
    Environment { name: "no-numpy", packages: &["pytest"], may_lack: false },
];

pub fn run(setting: &Setting, args: &PythonArgs, require: bool) -> Result<u8> {
    let folder = setting.folder("python")?;
    // The tools stay for the next time.
    let tools = match Venv::with(&setting.out.join("python-tools"), &TOOLS)? {
        Ok(tools) => tools,
        Err(reason) if require => bail!("{reason}"),
        Err(reason) => {
            eprintln!("SKIP: {reason}");
            return Ok(SKIPPED);
        }
    };
    let wheel = build(&tools, &folder, args.quick)?;
    audit(&tools, &wheel)?;
    let listing = listing()?;
    for environment in &ENVIRONMENTS {
        test(environment, &wheel, &folder, setting, listing.as_deref())?;
    }
    if args.speed {
        measure(&wheel, &folder, setting, args.events)?;
    }
    Ok(0)
}

/// Builds the wheel, and installs it alone in a fresh environment in `folder`. The inner error is
/// the reason why it cannot be built.
pub fn installed(out: &Path, folder: &Path, quick: bool) -> Result<Result<Venv, String>> {
    let tools = match Venv::with(&out.join("python-tools"), &TOOLS)? {
        Ok(tools) => tools,
        Err(reason) => return Ok(Err(reason)),
    };
    let wheel = build(&tools, folder, quick)?;
    let venv = Venv::empty(&folder.join("venv"))?;
    if let Ok(venv) = &venv {
        venv.install(&wheel)?;
    }
    Ok(venv)
}

/// Returns the folder of the package.
fn package() -> PathBuf {
    checkout::root().join("bindings/python")
}

/// Builds the wheel, on request without optimization, and returns its path.
fn build(tools: &Venv, folder: &Path, quick: bool) -> Result<PathBuf> {
    let wheels = folder.join("wheels");
    let mut maturin = tools.command("maturin");
    maturin.args(["build", "--release", "--locked", "--zig", "--compatibility"]);
    maturin.arg(format!("manylinux_2_{GLIBC}")).arg("--out").arg(&wheels);
    maturin.current_dir(package()).env("CARGO_TARGET_DIR", checkout::root().join("target/python"));
    if quick {
        maturin.envs(QUICK).env("CARGO_TARGET_DIR", checkout::root().join("target/quick"));
    }
    finish(&mut maturin)?;
    let entry = fs::read_dir(&wheels)?.next().context("maturin has written no wheel")??;
    Ok(entry.path())
}

/// Checks which glibc the wheel needs, and that it uses only the stable interface of Python.
fn audit(tools: &Venv, wheel: &Path) -> Result<()> {
    let shown = tools.command("auditwheel").arg("show").arg(wheel).output().context("auditwheel")?;
    let text = String::from_utf8_lossy(&shown.stdout).into_owned();
    let glibc = glibc_of(&text).with_context(|| format!("auditwheel names no glibc: {text}"))?;
    println!("the wheel needs glibc 2.{glibc} or later");
    ensure!(glibc <= GLIBC, "the wheel must run with glibc 2.{GLIBC}: {text}");
    finish(tools.command("abi3audit").args(["--strict", "--report"]).arg(wheel))?;
    println!("the wheel uses only the stable interface of Python 3.9");
    Ok(())
}

/// Returns the minor version of the glibc that a wheel needs, from what `auditwheel show` says: the
/// platform tag that the wheel is consistent with.
fn glibc_of(text: &str) -> Option<u32> {
    let words = text.split_once("consistent with")?.1;
    let digits = words.split_once("manylinux_2_")?.1;
    digits.split(|letter: char| !letter.is_ascii_digit()).next()?.parse().ok()
}

/// Builds the program that lists event files with the Rust reader, if it is part of this
/// repository.
fn listing() -> Result<Option<PathBuf>> {
    if !checkout::root().join("crates/evb-file/examples/listing.rs").exists() {
        return Ok(None);
    }
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "-p", "evb-file", "--example", "listing"]).current_dir(checkout::root());
    finish(cargo.env("CARGO_TARGET_DIR", checkout::root().join("target")))?;
    Ok(Some(checkout::root().join("target/debug/examples/listing")))
}

/// Installs the wheel into a fresh environment, and runs the tests of the package there.
fn test(
    environment: &Environment,
    wheel: &Path,
    folder: &Path,
    setting: &Setting,
    listing: Option<&Path>,
) -> Result<()> {
    let name = environment.name;
    let venv = match Venv::with(&folder.join(name), environment.packages)? {
        Ok(venv) => venv,
        Err(reason) if environment.may_lack => {
            println!("{name}: not for this Python: {reason}");
            return Ok(());
        }
        Err(reason) => bail!("{name}: {reason}"),
    };
    venv.install(wheel)?;
    println!("{name}:");
    let mut pytest = venv.command("python");
    // The tests must use the installed package, not the sources beside them.
    pytest.args(["-m", "pytest", "-rs", "tests"]).current_dir(package());
    pytest.env("EVB_EVBD", &setting.evbd).env("PYTHONDONTWRITEBYTECODE", "1");
    if let Some(listing) = listing {
        pytest.env("EVB_LISTING", listing);
    }
    finish(&mut pytest)
}

/// Measures speeds and prints their ratios, which are no condition of success.
fn measure(wheel: &Path, folder: &Path, setting: &Setting, events: u64) -> Result<()> {
    let venv = match Venv::with(&folder.join("speed"), &RIVALS)? {
        Ok(venv) => venv,
        Err(reason) => bail!("speed: {reason}"),
    };
    venv.install(wheel)?;
    let mut speed = venv.command("python");
    speed.arg(package().join("tests/speed.py")).arg(folder.join("files")).arg(events.to_string());
    speed.arg(&setting.evbd).arg(checkout::root().join("bindings/python"));
    finish(&mut speed)
}

#[cfg(test)]
mod tests;
