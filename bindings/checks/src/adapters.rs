//! The hand-over of events to NATS JetStream: NATS and the program that hands events over are
//! killed again and again, and no event is lost or doubled. The packages come from PyPI; if it is
//! out of reach, the test is skipped.

use anyhow::{Result, bail};
use checkout::{SKIPPED, finish};
use clap::Args;
use lab_base::{needs::Need, setting::Setting, venv::Venv};

use crate::python;

pub const NEEDS: &[Need] = &[
    Need { program: "python3", package: "python3" },
    Need { program: "nats-server", package: "nats-server" },
];

const PACKAGES: [&str; 2] = ["pytest", "nats-py>=2.7,<3"];

#[derive(Args)]
pub struct NatsArgs {
    /// Number of times that each of the two programs is killed.
    #[arg(long, default_value_t = 20)]
    kills: u32,
    /// Build the Python package without optimization.
    #[arg(long)]
    quick: bool,
}

/// Runs the test of the Python package that kills both programs.
pub fn run(setting: &Setting, args: &NatsArgs, require: bool) -> Result<u8> {
    let folder = setting.folder("nats")?;
    let with_tools = match Venv::with(&folder.join("venv"), &PACKAGES)? {
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
    pytest.args(["-m", "pytest", "-s", "tests/test_nats.py"]);
    pytest.current_dir(checkout::root().join("bindings/python"));
    pytest.env("EVB_EVBD", &setting.evbd).env("EVB_KILLS", args.kills.to_string());
    finish(pytest.env("PYTHONDONTWRITEBYTECODE", "1"))?;
    Ok(0)
}
