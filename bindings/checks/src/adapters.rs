//! Programs of `examples` between evb and other systems, with the real other system: events that
//! are handed over to NATS JetStream while both sides are killed, and runs as process variables of
//! EPICS. The packages come from PyPI; if it is out of reach, the test is skipped.

use std::process::Command;

use anyhow::{Result, bail};
use checkout::{SKIPPED, finish};
use clap::Args;
use lab_base::{needs::Need, setting::Setting, venv::Venv};

use crate::python;

pub const NATS_NEEDS: &[Need] = &[
    Need { program: "python3", package: "python3" },
    Need { program: "nats-server", package: "nats-server" },
];
pub const EPICS_NEEDS: &[Need] = &[Need { program: "python3", package: "python3" }];

#[derive(Args)]
pub struct NatsArgs {
    /// Number of times that each of the two programs is killed.
    #[arg(long, default_value_t = 20)]
    kills: u32,
    #[command(flatten)]
    package: PackageArgs,
}

#[derive(Args)]
pub struct EpicsArgs {
    #[command(flatten)]
    package: PackageArgs,
}

#[derive(Args)]
struct PackageArgs {
    /// Build the Python package without optimization.
    #[arg(long)]
    quick: bool,
}

/// Runs the test that kills NATS and the program that hands events over.
pub fn run_nats(setting: &Setting, args: &NatsArgs, require: bool) -> Result<u8> {
    let packages = ["pytest", "nats-py>=2.7,<3"];
    run(setting, ("nats", &packages), &args.package, require, |pytest| {
        pytest.env("EVB_KILLS", args.kills.to_string());
    })
}

/// Runs the test that reads and writes process variables.
pub fn run_epics(setting: &Setting, args: &EpicsArgs, require: bool) -> Result<u8> {
    run(setting, ("epics", &["pytest", "p4p>=4.1,<5"]), &args.package, require, |_| {})
}

/// Runs the test `tests/test_NAME.py` of the Python package, with other packages beside it.
fn run(
    setting: &Setting,
    (name, packages): (&str, &[&str]),
    args: &PackageArgs,
    require: bool,
    set: impl FnOnce(&mut Command),
) -> Result<u8> {
    let folder = setting.folder(name)?;
    let with_tools = match Venv::with(&folder.join("venv"), packages)? {
        Ok(_) => python::installed(&setting.out, &folder, args.quick)?,
        Err(reason) => Err(reason),
    };
    let venv = match with_tools {
        Ok(venv) => venv,
        Err(reason) if require => bail!("{reason}"),
        Err(reason) => {
            eprintln!("SKIP: {reason}");
            return Ok(SKIPPED);
        }
    };
    let mut pytest = venv.command("python");
    pytest.args(["-m", "pytest", "-s"]).arg(format!("tests/test_{name}.py"));
    pytest.current_dir(checkout::root().join("bindings/python"));
    pytest.env("EVB_EVBD", &setting.evbd).env("PYTHONDONTWRITEBYTECODE", "1");
    set(&mut pytest);
    finish(&mut pytest)?;
    Ok(0)
}
