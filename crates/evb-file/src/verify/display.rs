//! Prints a verification as a table for people.

use std::fmt;

use evb_core::units::Bytes;

use super::{Listed, RunReport, VerifyReport};

/// The largest number of findings of each kind that are printed; a count stands for the rest.
const SHOWN: usize = 10;

impl fmt::Display for VerifyReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for run in &self.runs {
            run.fmt(f)?;
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
    fn table(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size: Bytes = self.files.iter().map(|file| file.size).sum();
        let count = self.files.len();
        let files = if count == 1 { "file" } else { "files" };
        writeln!(f, "run {}: {count} {files}, {size}, of which {} payload", self.run, self.payload)?;
        let expected = match self.expected {
            Some(expected) if expected != self.events => format!("  EXPECTED {expected}"),
            Some(_) => "  as expected".to_owned(),
            None => String::new(),
        };
        let gaps = match self.gaps.total {
            0 => String::new(),
            1 => format!("  in 1 gap up to event {}: inhibited triggers or lost", self.highest),
            gaps => format!("  in {gaps} gaps up to event {}: inhibited triggers or lost", self.highest),
        };
        let torn = match (self.torn_tails.total, self.torn_and_built_again()) {
            (0, _) => String::new(),
            (all, again) if all == again => "  of events that have a whole record".to_owned(),
            (_, _) if self.expected == Some(self.events) => "  and no event is missing".to_owned(),
            (_, 0) => "  perhaps of events that are lost".to_owned(),
            (_, again) => format!("  of these, {again} of events that have a whole record"),
        };
        for (what, count, note) in [
            ("events", self.events, expected.as_str()),
            ("complete", self.complete, ""),
            ("incomplete", self.incomplete.total, ""),
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
        Ok(())
    }

    fn findings(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        list(f, &self.incomplete, |f, event| {
            write!(f, "incomplete: event {}, missing source", event.event)?;
            if event.missing.len() > 1 {
                f.write_str("s")?;
            }
            for (place, source) in event.missing.iter().enumerate() {
                write!(f, "{} {source}", if place == 0 { "" } else { "," })?;
            }
            Ok(())
        })?;
        list(f, &self.gaps, |f, gap| match gap.last.number() - gap.first.number() {
            0 => write!(f, "in no file: event {}", gap.first),
            _ => write!(f, "in no file: events {} to {}", gap.first, gap.last),
        })?;
        list(f, &self.superseded, |f, copy| {
            write!(f, "superseded: event {} of epoch {}, by epoch {}", copy.event, copy.epoch, copy.by)
        })?;
        list(f, &self.duplicates, |f, copy| {
            write!(f, "duplicate: event {} of epoch {}", copy.event, copy.epoch)
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
                    write!(f, " of event {event}, of which there is a whole record")
                }
                Some(event) => write!(f, " of event {event}"),
                None => Ok(()),
            }
        })?;
        list(f, &self.foreign, |f, foreign| {
            write!(f, "foreign: {}: of run {}", foreign.path.display(), foreign.run)?;
            foreign.event.map_or(Ok(()), |event| write!(f, ", event {event} (another run or builder)"))
        })?;
        list(f, &self.without_index, |f, file| {
            write!(f, "without index (not closed): {}", file.path.display())
        })
    }
}

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
