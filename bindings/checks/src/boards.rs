//! Boards at evbd: emulators of the boards in `examples/boards`, and heaps that spead2 sends, also
//! with lost packets. `evb_read.py` compares every byte with what was sent.

use anyhow::{Result, bail, ensure};
use checkout::SKIPPED;
use clap::Args;
use lab_base::{needs::Need, report::Report, setting::Setting, venv::Venv};

pub const NEEDS: &[Need] = &[Need { program: "python3", package: "python3" }];

/// The sender of heaps; NumPy makes their items.
const PACKAGES: [&str; 2] = ["spead2==4.5.1", "numpy"];

const SCRIPT: &str = "bindings/checks/src/boards/boards.py";

/// Number of results of the script.
const RESULTS: usize = 21;

#[derive(Args)]
pub struct BoardsArgs {
    /// Number of events of each example; streams of spead2 have fewer.
    #[arg(long, default_value_t = 100_000)]
    events: u64,
}

/// Runs the script, and returns 0 if all checks passed, else 1.
pub fn run(setting: &Setting, args: &BoardsArgs, require: bool) -> Result<u8> {
    let folder = setting.folder("boards")?;
    let venv = match Venv::with(&setting.out.join("boards-tools"), &PACKAGES)? {
        Ok(venv) => venv,
        Err(reason) if require => bail!("{reason}"),
        Err(reason) => {
            eprintln!("SKIP: {reason}");
            return Ok(SKIPPED);
        }
    };
    let mut report = Report::bare("boards");
    let mut python = venv.command("python");
    python.arg(checkout::root().join(SCRIPT)).arg(&setting.evbd);
    python.arg(checkout::root().join("examples/boards")).arg(folder).arg(args.events.to_string());
    let output = python.output()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let complaints = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{SCRIPT} fails:\n{said}\n{complaints}");
    ensure!(report.results(&said) == RESULTS, "{SCRIPT} has not made all checks:\n{said}\n{complaints}");
    Ok(u8::from(!report.finish(&setting.out)?))
}
