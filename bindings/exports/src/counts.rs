//! Counts of an export, and its findings.

#[cfg(test)]
mod tests;

use evb_core::id::EventId;
use evb_file::{MergeReport, few_of_each_file, format::Record};
use serde_json::{Value, json};

/// The largest number of gaps and of descriptions of damage that are listed.
const LISTED: usize = 1000;

/// Events and bytes of the output, and everything that is not in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Number of events.
    pub(crate) events: u64,
    /// Number of events without a missing source.
    pub(crate) complete: u64,
    /// Number of events without a missing or absent source, and without lost packets.
    pub(crate) whole: u64,
    /// Number of complete events with an absent source.
    pub(crate) without: u64,
    /// Number of events with a fragment that lost packets.
    pub(crate) lossy: u64,
    /// Number of events with a fragment that disagrees.
    pub(crate) misaligned: u64,
    /// Number of fragments.
    pub(crate) fragments: u64,
    /// Number of fragments that were expected and are missing.
    pub(crate) missing: u64,
    /// Total size of the payloads, in bytes.
    pub(crate) payload_bytes: u64,
    /// Number of event ids, from 1 to the highest one, that are not in the output.
    pub(crate) absent: u64,
    /// The first ranges of absent event ids.
    pub(crate) gaps: Vec<(u64, u64)>,
    /// Number of copies left out because the event was built again in a later epoch.
    pub(crate) superseded: u64,
    /// Number of copies left out because the same event and epoch is in the output already.
    pub(crate) duplicates: u64,
    /// Number of records left out because of the choice of epochs.
    pub(crate) other_epochs: u64,
    /// Number of damaged records and those of another run, of torn tails, and of files without a
    /// whole header.
    pub(crate) damaged: u64,
    /// Descriptions of the first of these.
    pub(crate) damage: Vec<String>,
    /// The highest event id.
    highest: u64,
}

impl Counts {
    /// Counts an event; events come in the order of their ids.
    pub(crate) fn add(&mut self, record: &Record) {
        self.events += 1;
        self.complete += u64::from(record.is_complete());
        self.whole += u64::from(record.is_whole());
        self.without += u64::from(record.is_complete() && !record.absent.is_empty());
        self.lossy += u64::from(record.lossy().next().is_some());
        self.misaligned += u64::from(!record.is_aligned());
        self.fragments += record.fragments.len() as u64;
        self.missing += record.missing.len() as u64;
        self.payload_bytes += record.payload_size().count();
        self.reached(record.event);
    }

    fn reached(&mut self, event: EventId) {
        let (first, event) = (self.highest + 1, event.number());
        if event > first {
            self.absent += event - first;
            if self.gaps.len() < LISTED {
                self.gaps.push((first, event - 1));
            }
        }
        self.highest = event;
    }

    /// Takes over what the merge left out.
    pub(crate) fn finish(&mut self, report: &MergeReport) {
        self.superseded = report.superseded;
        self.duplicates = report.duplicates;
        self.other_epochs = report.other_epochs;
        self.damaged = report.damaged.total;
        self.damage = report.damaged.first.iter().take(LISTED).cloned().collect();
    }

    /// Returns the number of events that lack a source.
    pub(crate) const fn incomplete(&self) -> u64 {
        self.events - self.complete
    }

    /// Returns true if nothing was damaged or double, and no event id is absent that may
    /// not be.
    pub(crate) const fn is_clean(&self, allow_gaps: bool) -> bool {
        self.damaged + self.duplicates == 0 && (allow_gaps || self.absent == 0)
    }

    /// Returns the counts with their names in the output.
    pub(crate) const fn named(&self) -> [(&'static str, u64); 13] {
        [
            ("events", self.events),
            ("complete", self.complete),
            ("whole", self.whole),
            ("incomplete", self.incomplete()),
            ("misaligned", self.misaligned),
            ("lossy", self.lossy),
            ("fragments", self.fragments),
            ("payload_bytes", self.payload_bytes),
            ("absent", self.absent),
            ("superseded", self.superseded),
            ("duplicates", self.duplicates),
            ("other_epochs", self.other_epochs),
            ("damaged", self.damaged),
        ]
    }

    /// Returns the gaps and the descriptions of damage as JSON, as far as they are listed.
    pub(crate) fn findings(&self) -> Value {
        json!({ "gaps": self.gaps, "damage": self.damage })
    }

    /// Returns the sentences that tell what is not in the output.
    pub(crate) fn sentences(&self) -> Vec<String> {
        const SHOWN: usize = 10;
        let mut said = Vec::new();
        for (count, [one, many], what) in [
            (
                self.incomplete(),
                ["event without a source", "events without a source"],
                "that owed a fragment: the output has their other fragments, and names the missing sources; check these before the next run",
            ),
            (
                self.without,
                ["complete event", "complete events"],
                "without an excluded or expendable source: nothing needs to be done",
            ),
            (
                self.misaligned,
                ["event with a fragment", "events with a fragment"],
                "that disagrees in its time: leave the fragments that the output names out of the analysis; `evbd verify --align CONFIG` says why",
            ),
            (
                self.lossy,
                ["event with a fragment", "events with a fragment"],
                "of which packets were lost before its source: `lost_packets` has their number",
            ),
            (self.other_epochs, ["record", "records"], "of other epochs left out, as --epoch asks"),
            (
                self.superseded,
                ["superseded copy", "superseded copies"],
                "left out, and nothing needs to be done: the newer copy of each such event is kept",
            ),
            (
                self.duplicates,
                ["duplicate", "duplicates"],
                "left out: the first copy of each such event is kept; check whether a file was given twice",
            ),
            (
                self.absent,
                ["event id", "event ids"],
                "in no file, because triggers were inhibited or rejected, events were lost, or not all files of the run were given; if all were given, --allow-gaps accepts that:",
            ),
        ] {
            if count > 0 {
                said.push(format!("{count} {} {what}", if count == 1 { one } else { many }));
            }
        }
        said.extend(self.gaps.iter().take(SHOWN).map(|(first, last)| match last - first {
            0 => format!("  event {first}"),
            _ => format!("  events {first} to {last}"),
        }));
        if self.gaps.len() > SHOWN {
            said.push("  …".to_owned());
        }
        if self.damaged > 0 {
            let what = if self.damaged == 1 { "damaged record or tail" } else { "damaged records or tails" };
            said.push(format!(
                "{} {what} left out, and all other events are in the output (restore these files from a copy, if there is one):",
                self.damaged
            ));
        }
        let shown = few_of_each_file(&self.damage);
        said.extend(shown.iter().map(|damage| format!("  {damage}")));
        if self.damaged > shown.len() as u64 {
            said.push(format!("  … and {} more of these", self.damaged - shown.len() as u64));
        }
        said
    }
}
