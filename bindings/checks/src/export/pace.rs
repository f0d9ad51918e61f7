//! Speeds, as ratios within one run of the test.

use std::{path::Path, process::Command};

use anyhow::{Context as _, Result};
use lab_base::{
    commands::run as execute,
    report::{Bound, Report},
};
use serde_json::json;

use super::{Exports, runs::Run, tools::Tools};

/// Least allowed ratio of the speeds of an export and of `evbd verify`, if both read the files from
/// the disk. An export also writes as many bytes to the disk, so it cannot keep up with a `verify`
/// that reads memory.
const OF_VERIFY: f64 = 0.5;
/// Least allowed ratio of the speeds of an export and of `dd`, which copies the same files to the
/// same disk and waits for it.
const OF_COPY: f64 = 0.5;
/// Least allowed ratio of the time of a dataset for each fragment and of flat columns.
const OF_DATASETS: f64 = 50.0;

/// Measures exports, `evbd verify` and a copy in turns. The files are in memory, because evbd has
/// just written them and the Rust reader has read them.
pub(super) fn compare(
    tools: &Tools,
    run: &Run,
    exports: &Exports,
    rounds: usize,
    report: &mut Report,
) -> Result<()> {
    let mut verify = Command::new(&tools.evbd);
    verify.arg("verify").arg(&run.folder);
    let target = exports.hdf5.with_file_name("copy");
    let mut copy = Command::new("sh");
    copy.args(["-c", "cat \"$1\"/*.evb | dd bs=1M iflag=fullblock conv=fsync status=none of=\"$2\"", "sh"]);
    copy.arg(&run.folder).arg(&target);
    let mut seconds = Vec::new();
    println!("{:>9} {:>9} {:>9} {:>9}   MB/s of payload", "verify", "dd", "hdf5", "parquet");
    for _ in 0..rounds {
        let mut row = vec![tools.measure(&verify)?.seconds, tools.measure(&copy)?.seconds];
        std::fs::remove_file(&target)?;
        for (format, path) in exports.each() {
            row.push(tools.measure(&tools.export_of(&run.folder, format, path))?.seconds);
        }
        let rates: Vec<String> =
            row.iter().map(|s| format!("{:>9.0}", run.listing.bytes as f64 / s / 1e6)).collect();
        println!("{}", rates.join(" "));
        seconds.push(row);
    }
    report.attach("seconds of verify, dd, hdf5, parquet", json!(seconds));
    cold(tools, run, exports, &verify, rounds, report)?;
    for (place, (format, _)) in exports.each().into_iter().enumerate() {
        let ratio = |to: usize| median(seconds.iter().map(|row| row[to] / row[place + 2]).collect());
        report.note(format!(
            "{}, {format}: speed / speed of evbd verify, both from memory: {:.3}",
            run.name,
            ratio(0)?
        ));
        report.noisy(
            &format!("{}, {format}: speed / speed of dd to the same disk", run.name),
            ratio(1)?,
            Bound::AtLeast(OF_COPY),
        );
    }
    Ok(())
}

/// Compares exports with `evbd verify` while the files are not in memory.
fn cold(
    tools: &Tools,
    run: &Run,
    exports: &Exports,
    verify: &Command,
    rounds: usize,
    report: &mut Report,
) -> Result<()> {
    let forget = || -> Result<()> {
        let forget =
            "sync; for file in \"$1\"/*.evb; do dd if=\"$file\" iflag=nocache count=0 status=none; done";
        execute(Command::new("sh").args(["-c", forget, "sh"]).arg(&run.folder)).map(drop)
    };
    for (format, path) in exports.each() {
        let mut ratios = Vec::new();
        for _ in 0..rounds {
            forget()?;
            let of_verify = tools.measure(verify)?.seconds;
            forget()?;
            ratios.push(of_verify / tools.measure(&tools.export_of(&run.folder, format, path))?.seconds);
        }
        report.noisy(
            &format!("{}, {format}: speed / speed of evbd verify, both from disk", run.name),
            median(ratios)?,
            Bound::AtLeast(OF_VERIFY),
        );
    }
    Ok(())
}

fn median(mut values: Vec<f64>) -> Result<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().context("nothing was measured")
}

/// Compares reading all payloads by h5py with reading them from a dataset for each fragment.
pub(super) fn datasets(tools: &Tools, export: &Path, count: u64, report: &mut Report) -> Result<()> {
    let other = export.with_file_name("datasets.h5");
    let count = count.to_string();
    let said = tools.ask("datasets.py", &[export.as_os_str(), other.as_os_str(), count.as_ref()])?;
    let number = |name: &str| said[name].as_f64().with_context(|| format!("no {name} in {said}"));
    let (flat, datasets) = (number("flat_s")?, number("datasets_s")?);
    println!(
        "a fragment by h5py: {:.2} us from the export, {:.2} us from one of {} datasets",
        flat * 1e6,
        datasets * 1e6,
        said["datasets"]
    );
    report.noisy(
        "reading by h5py: time with a dataset for each fragment / time with the export",
        datasets / flat,
        Bound::AtLeast(OF_DATASETS),
    );
    Ok(())
}
