//! [`Books`] compares the event files of a run with the event counts in its summary.

#[path = "../../../crates/evb-daemon/tests/owed/mod.rs"]
mod owed;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};
use lab_base::{
    bench, disk,
    fleet::Fleet,
    network::Shape,
    report::{Bound, Report},
};
use serde_json::Value;

/// The run summary of the supervisor, and the output of `evbd verify` for the event files of all
/// builders.
pub(crate) struct Books {
    pub(crate) summary: Value,
    verified: Value,
    /// The folders of the event files.
    disks: Vec<PathBuf>,
    peaks: Vec<(&'static str, f64)>,
}

impl Books {
    pub(crate) fn read(evbd: &Path, folder: &Path, shape: Shape, fleet: &Fleet) -> Result<Self> {
        let missing = || format!("no summary of the supervisor\n{}", fleet.complaints());
        let summary = fs::read_to_string(folder.join("sup.json")).with_context(missing)?;
        let disks: Vec<_> = (1..=shape.builders).map(|builder| disk::folder(folder, builder)).collect();
        let said = Command::new(evbd).args(["verify", "--json"]).args(&disks).output()?;
        let verified = serde_json::from_slice(&said.stdout)
            .with_context(|| format!("evbd verify: {}", String::from_utf8_lossy(&said.stderr).trim()))?;
        let peaks = bench::peaks(fleet).into_iter().map(|(kind, kib)| (kind, kib as f64 / 1024.0)).collect();
        Ok(Self { summary: serde_json::from_str(&summary)?, verified, disks, peaks })
    }

    /// Returns the number of events of a kind, such as `complete`, in the run summary.
    pub(crate) fn events(&self, key: &str) -> f64 {
        self.summary["events"][key].as_f64().unwrap_or(f64::NAN)
    }

    fn files(&self, key: &str) -> f64 {
        self.verified.pointer(&format!("/runs/0/{key}")).and_then(Value::as_f64).unwrap_or(f64::NAN)
    }

    /// Checks that no event is lost, duplicated or damaged, that run summary and event files have
    /// the same numbers of events, and that every event names the sources without a fragment.
    pub(crate) fn judge(&self, name: &str, report: &mut Report) {
        let count = |key: &str| self.verified[key].as_array().map_or(f64::NAN, |all| all.len() as f64);
        let [complete, incomplete] = ["complete", "incomplete"].map(|key| self.events(key));
        let outcomes: f64 =
            ["inhibited", "complete", "incomplete", "lost"].map(|key| self.events(key)).iter().sum();
        let zeros = [
            ("events lost", self.events("lost")),
            ("events in no file", complete + incomplete - self.files("events")),
            (
                "events in the files that the ledger does not have",
                self.files("events") - complete - incomplete,
            ),
            ("complete in the ledger, not in the files", complete - self.files("complete")),
            ("twice in one epoch", self.files("duplicates/total")),
            ("damaged", self.files("damaged/total")),
            ("of another run", self.files("foreign/total")),
            ("files that cannot be read", count("unreadable")),
            ("the ledger: triggered less all outcomes", (self.events("triggered") - outcomes).abs()),
        ];
        for (what, measured) in zeros {
            report.holds(&format!("{name}: {what}"), measured, Bound::AtMost(0.0));
        }
        let contradictions = owed::contradictions(&self.disks, &self.summary);
        let what = format!("{name}: records and ledger against the fragments in the files");
        report.holds(&what, contradictions.len() as f64, Bound::AtMost(0.0));
        contradictions.iter().take(10).for_each(|what| report.note(format!("{name}: {what}")));
        report.holds(&format!("{name}: runs in the files"), count("runs"), Bound::AtMost(1.0));
        report.holds(&format!("{name}: events triggered"), self.events("triggered"), Bound::AtLeast(1.0));
        report.note(format!(
            "{name}: {} triggered, {} inhibited, {complete} complete, {incomplete} incomplete; files: {} superseded copies, {} torn tails",
            self.events("triggered"),
            self.events("inhibited"),
            self.files("superseded/total"),
            self.files("torn_tails/total"),
        ));
        report.note(format!("{name}: inhibited because of {}", self.summary["dead_time_causes"]));
        for (kind, mib) in &self.peaks {
            report.note(format!("{name}: largest {kind}: {mib:.1} MiB"));
        }
    }
}
