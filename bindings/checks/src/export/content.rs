//! Compares what others read in an export with what the Rust reader reads in the event files.

use std::{path::Path, process::Command};

use anyhow::Result;
use lab_base::{
    commands::run as execute,
    report::{Bound, Report},
};

use super::{
    Exports,
    runs::Run,
    tools::{MEMORY, Tools},
};

/// The size beyond which offsets of 32 bits do not reach, in bytes.
const BEYOND: u64 = 1 << 32;
/// The datasets of an HDF5 export, with the types that h5dump prints.
const DATASETS: [(&str, &str); 21] = [
    ("absent", "H5T_STD_U16LE"),
    ("absent_cause", "H5T_STD_U8LE"),
    ("alignment", "H5T_STD_U8LE"),
    ("builder", "H5T_STD_U16LE"),
    ("checksum", "H5T_STD_U64LE"),
    ("data", "H5T_STD_U8LE"),
    ("epoch", "H5T_STD_U64LE"),
    ("event", "H5T_STD_U64LE"),
    ("event_row", "H5T_STD_U64LE"),
    ("first_absent", "H5T_STD_U64LE"),
    ("first_fragment", "H5T_STD_U64LE"),
    ("first_missing", "H5T_STD_U64LE"),
    ("length", "H5T_STD_U32LE"),
    ("lost_packets", "H5T_STD_U32LE"),
    ("missing", "H5T_STD_U16LE"),
    ("missing_cause", "H5T_STD_U8LE"),
    ("offset", "H5T_STD_U64LE"),
    ("source", "H5T_STD_U16LE"),
    ("timestamp", "H5T_STD_U64LE"),
    ("triggered_ns", "H5T_STD_U64LE"),
    ("utc_ns", "H5T_STD_U64LE"),
];

/// Exports a run in both formats, reads the exports with h5py and pyarrow, and compares.
pub(super) fn check(tools: &Tools, run: &Run, exports: &Exports, report: &mut Report) -> Result<()> {
    for (format, path) in exports.each() {
        let (name, expected) = (format!("{}, {format}", run.name), &run.listing);
        let measured = tools.measure(&tools.export_of(&run.folder, format, path))?;
        report.holds(&format!("{name}: peak memory, MiB"), measured.memory, Bound::AtMost(MEMORY));
        let said = tools.ask("content.py", &[format.as_ref(), path.as_os_str()])?;
        let number = |name: &str| said[name].as_u64();
        report.holds(
            &format!("{name}: fragments whose checksum is wrong"),
            number("wrong").map_or(f64::NAN, |wrong| wrong as f64),
            Bound::AtMost(0.0),
        );
        report.holds(
            &format!("{name}: fragments read"),
            number("fragments").map_or(f64::NAN, |fragments| fragments as f64),
            Bound::AtLeast(expected.fragments as f64),
        );
        let same = number("events") == Some(expected.events)
            && number("fragments") == Some(expected.fragments)
            && number("bytes") == Some(expected.bytes)
            && number("digest") == Some(expected.digest)
            && number("missing") == Some(expected.missing)
            && number("absent") == Some(expected.absent);
        report.yes(&format!("{name}: the events and fragments of the event files"), same);
        if !same {
            report.note(format!("{name}: expected {expected:?}, found {said}"));
        }
        let told = said["attributes"]["events"].as_str() == Some(expected.events.to_string().as_str());
        report.yes(&format!("{name}: its attributes tell the number of events"), told);
        let size = path.metadata()?.len();
        if expected.bytes > BEYOND {
            report.holds(&format!("{name}: size, bytes"), size as f64, Bound::AtLeast(BEYOND as f64));
        }
    }
    Ok(())
}

/// Compares the structure that `h5dump -H` prints with the documented one.
pub(super) fn structure(path: &Path, report: &mut Report) -> Result<()> {
    let text = execute(Command::new("h5dump").arg("-H").arg(path))?;
    let mut found: Vec<(&str, &str)> = text
        .split("DATASET \"")
        .skip(1)
        .filter_map(|part| {
            let (name, rest) = part.split_once('"')?;
            let kind = rest.split_once("DATATYPE")?.1.split_whitespace().next()?;
            rest.contains("H5S_UNLIMITED").then_some((name, kind))
        })
        .collect();
    found.sort_unstable();
    let same = found == DATASETS && text.contains("ATTRIBUTE \"events\"");
    report.yes("h5dump -H shows the documented datasets, however many fragments there are", same);
    if !same {
        report.note(format!("h5dump -H: {found:?}"));
    }
    Ok(())
}
