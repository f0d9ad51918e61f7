//! Compares the schema of the configuration with the reader.

use std::{fs, path::Path};

use anyhow::{Context as _, Result, bail};
use lab_base::{
    report::{Bound, Report},
    venv::Venv,
};

use super::Setting;

const SCRIPT: &str = include_str!("schema.py");
/// A validator, and a language server for editors.
const TOOLS: [&str; 2] = ["jsonschema>=4,<5", "taplo==0.9.3"];
/// In the quick test, one of this many changed configurations is tested.
const QUICK: &str = "7";

pub(super) fn check(setting: &Setting, quick: bool, folder: &Path, report: &mut Report) -> Result<()> {
    let place = setting.out.join("schema-tools");
    let venv = match Venv::with(&place, &TOOLS)? {
        Ok(venv) => venv,
        Err(reason) => bail!("{reason}"),
    };
    let (script, scratch) = (folder.join("schema.py"), folder.join("schema"));
    fs::create_dir_all(&scratch)?;
    fs::write(&script, SCRIPT)?;
    let mut python = venv.command("python");
    python.arg(&script).arg(checkout::root()).arg(&setting.evbd).arg(place.join("bin/taplo")).arg(&scratch);
    python.arg(if quick { QUICK } else { "1" });
    let output = python.output().context("python3")?;
    if !output.status.success() {
        bail!("schema.py: {}", String::from_utf8_lossy(&output.stderr));
    }
    let count = report.results(&String::from_utf8_lossy(&output.stdout));
    report.holds("comparisons of the schema with evbd and taplo", count as f64, Bound::AtLeast(5.0));
    Ok(())
}
