//! The recipes of the guide, which must run as they are printed.

use std::{fs, os::unix::fs::symlink};

use anyhow::{Context as _, Result, ensure};
use lab_base::{
    commands::run as execute,
    report::{Bound, Report},
};

use super::{Exports, tools::Tools};

const PAGE: &str = "docs/how-to/export.md";

/// Runs all Python programs of the page on an export, and reads the ROOT file that one of them
/// writes.
pub(super) fn check(tools: &Tools, exports: &Exports, report: &mut Report) -> Result<()> {
    let page = fs::read_to_string(checkout::root().join(PAGE)).context(PAGE)?;
    let programs: Vec<&str> =
        page.split("```python\n").skip(1).filter_map(|rest| Some(rest.split_once("```")?.0)).collect();
    ensure!(programs.len() >= 3, "{PAGE} has {} Python programs", programs.len());
    let folder = exports.hdf5.with_file_name("recipes");
    fs::create_dir_all(&folder)?;
    symlink(&exports.hdf5, folder.join("run.h5"))?;
    symlink(&exports.parquet, folder.join("run.parquet"))?;
    for (place, program) in programs.iter().enumerate() {
        let path = folder.join(format!("recipe{place}.py"));
        fs::write(&path, program)?;
        let outcome = execute(tools.program().arg(&path).current_dir(&folder));
        if let Err(error) = &outcome {
            report.note(format!("{error:#}"));
        }
        report.yes(&format!("{PAGE}: Python program {}", place + 1), outcome.is_ok());
    }
    let root = folder.join("run.root");
    let said = tools.ask("root.py", &[exports.parquet.as_os_str(), root.as_os_str()])?;
    let number = |name: &str| said[name].as_f64().unwrap_or(f64::NAN);
    report.holds("ROOT: fragments that differ", number("different"), Bound::AtMost(0.0));
    report.holds("ROOT: fragments of the TTree", number("fragments"), Bound::AtLeast(1.0));
    fs::remove_file(root)?;
    Ok(())
}
