//! Programs of `examples` between evb and other systems, with the real other system: events that
//! are handed over to NATS JetStream or Kafka, files that are uploaded to S3 and XRootD, while both
//! sides are killed, and process variables of EPICS. S3 is the server of moto, and Kafka the mock
//! cluster of librdkafka. The packages come from PyPI; if it is out of reach, the test is skipped.

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
pub const UPLOAD_NEEDS: &[Need] = &[
    Need { program: "python3", package: "python3" },
    Need { program: "xrootd", package: "xrootd-server" },
    Need { program: "xrdcp", package: "xrootd-client" },
];
/// Needs of the parts whose other programs all come from PyPI.
pub const PYTHON_NEEDS: &[Need] = &[Need { program: "python3", package: "python3" }];

#[derive(Args)]
pub struct KillsArgs {
    /// Number of times that each program is killed that the test kills.
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
pub fn run_nats(setting: &Setting, args: &KillsArgs, require: bool) -> Result<u8> {
    run_killed(setting, ("nats", &["pytest", "nats-py>=2.7,<3"]), args, require)
}

/// Runs the test that kills the program that hands events over to Kafka.
pub fn run_kafka(setting: &Setting, args: &KillsArgs, require: bool) -> Result<u8> {
    run_killed(setting, ("kafka", &["pytest", "confluent-kafka>=2.6,<3"]), args, require)
}

/// Runs the test that kills the servers to which files are uploaded.
pub fn run_upload(setting: &Setting, args: &KillsArgs, require: bool) -> Result<u8> {
    let packages = ["pytest", "boto3[crt]>=1.36,<2", "moto[s3]>=5.1,<6", "flask>=3,<4", "flask-cors>=5"];
    run_killed(setting, ("upload", &packages), args, require)
}

/// Runs a test that kills programs.
fn run_killed(setting: &Setting, test: (&str, &[&str]), args: &KillsArgs, require: bool) -> Result<u8> {
    run(setting, test, &args.package, require, |pytest| {
        pytest.env("EVB_KILLS", args.kills.to_string());
    })
}

/// Runs the tests that read, write and record process variables.
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
