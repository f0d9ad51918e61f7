//! Prints a verification as a table for people.

use std::fmt;

use evb_core::{
    event::{Cause, MissingSource},
    quantities::{counted, size},
    units::Bytes,
};

use super::{Listed, RunReport, VerifyReport, WithoutSource};

/// The largest number of findings of each kind that are printed; a count stands for the rest.
const SHOWN: usize = 10;

impl fmt::Display for VerifyReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for run in &self.runs {
            run.fmt(f)?;
        }
        for shared in &self.shared_numbers {
            let runs: Vec<String> = shared.runs.iter().map(ToString::to_string).collect();
            writeln!(
                f,
                "several runs have the number {}: {}; choose one with `--run`, by the first digits of its id",
                shared.run,
                runs.join(", ")
            )?;
        }
        for unreadable in &self.unreadable {
            writeln!(f, "unreadable: {}", unreadable.why)?;
        }
        writeln!(f, "{}", if self.is_clean() { "clean" } else { "NOT CLEAN" })
    }
}

impl fmt::Display for RunReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.table(f)?;
        self.findings(f)
    }
}

impl RunReport {
    /// Writes the counts of a run, one a line, each with a note on what it means.
    fn table(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes: Bytes = self.files.iter().map(|file| file.size).sum();
        write!(f, "run {}", self.run)?;
        if self.run_id.is_known() {
            write!(f, " ({})", self.run_id.short())?;
        }
        if self.begun.is_known() {
            write!(f, ", begun {}", self.begun)?;
        }
        writeln!(
            f,
            ": {}, {}, of which {} payload",
            counted(self.files.len(), "file"),
            size(bytes),
            size(self.payload)
        )?;
        self.description(f)?;
        let expected = match self.expected {
            Some(expected) if expected != self.events => format!("  EXPECTED {expected}"),
            Some(_) => "  as expected".to_owned(),
            None => String::new(),
        };
        let gaps = match self.gaps.total {
            0 => String::new(),
            1 => format!(
                "  in 1 gap up to event {}: inhibited triggers, lost, or in other files; the ledger in the run's summary counts them",
                self.highest
            ),
            gaps => format!(
                "  in {gaps} gaps up to event {}: inhibited triggers, lost, or in other files; the ledger in the run's summary counts them",
                self.highest
            ),
        };
        let torn = match (self.torn_tails.total, self.torn_and_built_again()) {
            (0, _) => String::new(),
            (all, again) if all == again => "  of events that have a whole record".to_owned(),
            (_, _) if self.expected == Some(self.events) => "  and no event is missing".to_owned(),
            (_, 0) => "  perhaps of events that are lost".to_owned(),
            (_, again) => format!("  of these, {again} of events that have a whole record"),
        };
        let complete = match &self.complete_without[..] {
            [] => String::new(),
            without => format!("  of these {}", sentence(without)),
        };
        let incomplete = match &self.incomplete_without[..] {
            without if without.iter().all(|without| without.cause == Cause::Unknown) => String::new(),
            without => format!("  {}", sentence(without)),
        };
        for (what, count, note) in [
            ("events", self.events, expected.as_str()),
            ("complete", self.complete, complete.as_str()),
            ("incomplete", self.incomplete.total, incomplete.as_str()),
            ("event ids in no file", self.absent, gaps.as_str()),
            ("superseded copies", self.superseded.total, ""),
            ("duplicates", self.duplicates.total, ""),
            ("CRC errors", self.damaged.total, ""),
            ("torn tails", self.torn_tails.total, torn.as_str()),
            ("foreign", self.foreign.total, ""),
            ("files without index", self.without_index.total, ""),
        ] {
            writeln!(f, "  {what:<20} {count:>12}{note}")?;
        }
        self.remarks(f)
    }

    /// Prints the counts that most runs do not have.
    fn remarks(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.misaligned > 0 {
            let by: Vec<String> = self.misaligned_by.iter().map(ToString::to_string).collect();
            let note =
                format!("  with a fragment whose timestamp disagrees with the others: {}", by.join(", "));
            writeln!(f, "  {:<20} {:>12}{note}", "misaligned", self.misaligned)?;
        }
        if self.lossy > 0 {
            let by: Vec<String> = self.lossy_by.iter().map(ToString::to_string).collect();
            let note = format!("  with a fragment that lacks packets, lost before evb: {}", by.join(", "));
            writeln!(f, "  {:<20} {:>12}{note}", "with lost packets", self.lossy)?;
        }
        if self.other_epochs > 0 {
            let note = "  not verified, because `--epoch` leaves them out";
            writeln!(f, "  {:<20} {:>12}{note}", "of other epochs", self.other_epochs)?;
        }
        Ok(())
    }

    /// Prints kind, comment and names of the run, if they are known.
    fn description(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (what, text) in [("kind", &self.kind), ("comment", &self.comment)] {
            if !text.is_empty() {
                writeln!(f, "  {what}: {text}")?;
            }
        }
        for (id, name) in &self.source_names {
            writeln!(f, "  source {id}: {name}")?;
        }
        for (id, name) in &self.builder_names {
            writeln!(f, "  builder {id}: {name}")?;
        }
        Ok(())
    }

    /// Writes the list of the findings of each kind.
    fn findings(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        list(f, &self.incomplete, |f, event| {
            write!(f, "incomplete: event {}, {}", event.event, named(&event.missing))
        })?;
        list(f, &self.gaps, |f, gap| match gap.last.number() - gap.first.number() {
            0 => write!(f, "in no file: event {}", gap.first),
            _ => write!(f, "in no file: events {} to {}", gap.first, gap.last),
        })?;
        list(f, &self.superseded, |f, copy| {
            write!(
                f,
                "superseded: event {} was built twice, because it was assigned again: the copy of epoch {} counts, not that of epoch {}",
                copy.event, copy.by, copy.epoch
            )
        })?;
        list(f, &self.duplicates, |f, copy| {
            write!(
                f,
                "duplicate: event {} (epoch {}) is in the files twice; its first copy counts",
                copy.event, copy.epoch
            )
        })?;
        list(f, &self.damaged, |f, damage| {
            write!(f, "CRC error: {}", damage.path.display())?;
            if damage.offset > 0 {
                write!(f, " at byte {}", damage.offset)?;
            }
            if let Some(event) = damage.event {
                write!(f, ", event {event}")?;
            }
            write!(f, ": {}", damage.what)
        })?;
        list(f, &self.torn_tails, |f, tail| {
            write!(f, "torn tail: {} at byte {}: {}", tail.path.display(), tail.offset, tail.length)?;
            match tail.event {
                Some(event) if tail.elsewhere => {
                    write!(f, " of event {event}, of which there is a whole record: nothing is lost")
                }
                Some(event) => {
                    write!(f, " of event {event}, which is lost unless another file has a whole record of it")
                }
                None => write!(f, " of an event whose id cannot be read, and which may be lost"),
            }
        })?;
        list(f, &self.foreign, |f, foreign| {
            write!(f, "foreign: {}: ", foreign.path.display())?;
            match foreign.event {
                Some(event) => {
                    write!(
                        f,
                        "event {event} of run {}, from another run or builder, is left out",
                        foreign.run
                    )
                }
                None => write!(
                    f,
                    "its name is that of run {}, but its header that of run {}, for which its events count: give it its old name again",
                    foreign.run, self.run
                ),
            }
        })?;
        list(f, &self.without_index, |f, file| {
            write!(
                f,
                "without index: {} was not closed; all its records were read, so nothing needs to be done",
                file.path.display()
            )
        })
    }
}

/// Returns the counts as a list of words.
fn sentence(without: &[WithoutSource]) -> String {
    without.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Names the missing sources of an event, with their causes if these are known.
pub(crate) fn named(missing: &[MissingSource]) -> String {
    let has_cause = missing.iter().any(|missing| missing.cause != Cause::Unknown);
    let one = |missing: &MissingSource| match has_cause {
        true => missing.to_string(),
        false => missing.source.to_string(),
    };
    let list: Vec<String> = missing.iter().map(one).collect();
    match (has_cause, missing.len()) {
        (true, _) => format!("missing: {}", list.join(", ")),
        (false, 1) => format!("missing source {}", list.join(", ")),
        (false, _) => format!("missing sources {}", list.join(", ")),
    }
}

/// Writes the first findings of a kind, and how many more there are.
fn list<T>(
    f: &mut fmt::Formatter<'_>,
    listed: &Listed<T>,
    mut show: impl FnMut(&mut fmt::Formatter<'_>, &T) -> fmt::Result,
) -> fmt::Result {
    let shown = listed.first.iter().take(SHOWN);
    let more = listed.total - shown.len() as u64;
    for finding in shown {
        f.write_str("  ")?;
        show(f, finding)?;
        f.write_str("\n")?;
    }
    if more > 0 { writeln!(f, "  … and {more} more of these") } else { Ok(()) }
}
