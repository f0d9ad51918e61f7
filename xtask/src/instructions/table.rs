//! [`Table`]: instructions per byte, by code path and by fragment length.

use std::{collections::BTreeMap, fmt::Write as _};

use anyhow::{Context as _, Result};
use serde_json::Value;

/// Fragment lengths in bytes of payload, in the order of the benchmark's arguments.
const LENGTHS: [u64; 4] = [64_000, 8_000, 1455, 100];
/// Number of payload bytes that a benchmark processes, before it is rounded up to whole fragments
/// (`PAYLOAD` in `benches/instructions/machines.rs`).
const PAYLOAD: u64 = 256_000;
/// Largest accepted ratio of a count to the committed count, which may come from another compiler
/// version.
const GENEROUS: f64 = 1.2;
/// Code paths, each with the rows to subtract from it: the checksums, or for a path with a key
/// (`_psk`), the same path without a key, which leaves the cost of the key.
pub(super) const PATHS: [(&str, &[&str]); 8] = [
    ("datagrams_send", &["crc32c"]),
    ("datagrams_receive", &["crc32c", "crc64"]),
    ("stream_send", &[]),
    ("stream_receive", &["crc64"]),
    ("datagrams_send_psk", &["datagrams_send"]),
    ("datagrams_receive_psk", &["datagrams_receive"]),
    ("stream_send_psk", &["stream_send"]),
    ("stream_receive_psk", &["stream_receive"]),
];

/// Returns a label for the cost that remains after the subtraction of the rows in [`PATHS`].
fn what_is_left(path: &str) -> &'static str {
    if path.ends_with("_psk") { ", the key" } else { ", no sums" }
}

/// Instructions per payload byte, by function of the benchmark and by fragment length.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Table(BTreeMap<String, Vec<f64>>);

impl Table {
    /// Reads the output of the benchmark, which is a JSON object for each case.
    pub(super) fn read_benchmarks(said: &str) -> Result<Self> {
        let mut table = Self::default();
        for line in said.lines().filter(|line| line.starts_with('{')) {
            let case: Value = serde_json::from_str(line).context("the benchmark's report")?;
            let name = case["function_name"].as_str().context("a case without a function")?;
            let index = case["id"].as_str().and_then(|id| id.rsplit('_').next()?.parse::<usize>().ok());
            let index = index.filter(|index| *index < LENGTHS.len()).context("a case of no known length")?;
            let counted = &case["profiles"][0]["data"]["total"]["metrics"]["Ir"]["values"]["new"];
            let counted = counted.as_u64().with_context(|| format!("no instructions of {name}"))?;
            let bytes = PAYLOAD.div_ceil(LENGTHS[index]) * LENGTHS[index];
            let row = table.0.entry(name.to_owned()).or_insert_with(|| vec![f64::NAN; LENGTHS.len()]);
            row[index] = (1000.0 * counted as f64 / bytes as f64).round() / 1000.0;
        }
        let is_whole = |row: &Vec<f64>| row.iter().all(|cell| cell.is_finite());
        let missing = PATHS.iter().find(|(path, _)| !table.0.get(*path).is_some_and(is_whole));
        match missing {
            Some((path, _)) => anyhow::bail!("the benchmark did not measure all of {path}"),
            None => Ok(table),
        }
    }

    pub(super) fn from_json(text: &str) -> Result<Self> {
        Ok(Self(serde_json::from_str(text).context("the committed counts")?))
    }

    pub(super) fn to_json(&self) -> String {
        let rows: Vec<String> = self.0.iter().map(|(name, row)| format!("  {name:?}: {row:?}")).collect();
        format!("{{\n{}\n}}\n", rows.join(",\n"))
    }

    /// Formats the table, with changes relative to `committed`, and with rows for the costs without
    /// checksums and of the key.
    pub(super) fn show(&self, committed: &Self) -> String {
        let mut text = format!("{:<28}", "instructions per byte");
        LENGTHS.iter().for_each(|length| text.push_str(&format!("{:>18}", format!("{length} B"))));
        text.push('\n');
        for (name, row) in &self.0 {
            let _ = write!(text, "{name:<28}");
            for (index, cell) in row.iter().enumerate() {
                let before = committed.cell(name, index).unwrap_or(f64::NAN);
                let _ = write!(text, "{cell:>10.3} {:>+5.0} %", (cell / before - 1.0) * 100.0);
            }
            text.push('\n');
        }
        for (path, checksums) in PATHS.iter().filter(|(_, checksums)| !checksums.is_empty()) {
            let _ = write!(text, "{:<28}", format!("{path}{}", what_is_left(path)));
            for index in 0..LENGTHS.len() {
                let sums: f64 = checksums.iter().filter_map(|name| self.cell(name, index)).sum();
                let _ = write!(text, "{:>10.3}        ", self.cell(path, index).unwrap_or(f64::NAN) - sums);
            }
            text.push('\n');
        }
        text
    }

    /// Returns messages about the code paths that need many more instructions than committed.
    pub(super) fn worse_than(&self, committed: &Self) -> Vec<String> {
        let mut worse = Vec::new();
        for (name, row) in &self.0 {
            for (index, cell) in row.iter().enumerate() {
                match committed.cell(name, index) {
                    Some(before) if *cell <= before * GENEROUS => {}
                    Some(before) => worse.push(format!(
                        "{name}, {} B: {cell} instructions per byte, {before} committed: more than {GENEROUS} times as many",
                        LENGTHS[index]
                    )),
                    None => worse.push(format!("{name}, {} B: nothing is committed (--bless)", LENGTHS[index])),
                }
            }
        }
        worse
    }

    fn cell(&self, name: &str, index: usize) -> Option<f64> {
        self.0.get(name)?.get(index).copied()
    }
}
