//! Checks what a run says about the timestamps of its events.

use std::collections::{BTreeMap, BTreeSet};

use evb_core::{
    id::{EventId, RunNumber, SourceId},
    ledger::RunReport,
};

use super::OfRun;
use crate::{
    boards::{Boards, ENOUGH, LEARNT, Slip},
    system::{
        disk::EventRecord,
        failure::{Check, Failure},
    },
};

/// Number of runs or fragments by what became of them.
pub(crate) type Found = BTreeMap<&'static str, u64>;

/// An explanation in a report that names a slip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Named {
    since: EventId,
    source: SourceId,
    shift: i64,
    /// True if the other side may have slipped by the contrary.
    is_disputed: bool,
    /// True if earlier events may be wrong, too.
    is_begin_lost: bool,
}

impl OfRun<'_> {
    /// Checks the states of fragments on the disks and what the report says about timestamps.
    pub(crate) fn check_boards(&self, report: &RunReport) -> (Found, Result<(), Failure>) {
        let mut found = Found::new();
        let Some(boards) = self.scenario.boards.as_ref().filter(|boards| boards.declared().can_compare())
        else {
            return (found, Ok(()));
        };
        let said: Vec<&str> = report.problems.iter().chain(&report.remarks).map(String::as_str).collect();
        let said: Vec<&str> = said.into_iter().filter(|text| is_about_timestamps(text)).collect();
        let checked = match boards.slip.filter(|slip| slip.run == self.run) {
            None => {
                *found.entry("healthy runs").or_default() += 1;
                self.check_healthy(&said)
            }
            Some(slip) => {
                let view = View::new(self, boards, slip);
                view.count_flags(&mut found);
                let outcome = view.judge(&said);
                let physics = if view.is_clear() { "clear" } else { "too short or too regular" };
                *found.entry(kind(physics, outcome)).or_default() += 1;
                *found.entry("right sources accused").or_default() += view.accused(&said);
                *found.entry("slips whose begin is lost").or_default() += u64::from(view.lacks_begin(&said));
                *found.entry("slips called harmless").or_default() += u64::from(view.is_absolved(&said));
                view.check(outcome, &said)
            }
        };
        (found, checked)
    }

    fn records(&self) -> impl Iterator<Item = (EventId, &EventRecord)> {
        let run = RunNumber::new(self.run + 1);
        let range = (run, EventId::new(0))..=(run, EventId::new(u64::MAX));
        self.files.range(range).flat_map(|((_, event), records)| records.iter().map(|one| (*event, one)))
    }

    fn check_healthy(&self, said: &[&str]) -> Result<(), Failure> {
        if let Some((event, record)) = self.records().find(|(_, record)| !record.disagree.is_empty()) {
            let what = format!("event {event} is right, and flagged: {record:?}; {}", said.join("; "));
            return Err(Failure::new(Check::Alignment, what));
        }
        match said.first() {
            None => Ok(()),
            Some(text) => Err(Failure::new(Check::Alignment, format!("nothing slipped: {text}"))),
        }
    }
}

/// Verdict of the report of a run on a slip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Exact,
    Unclear,
    Unseen,
    Wrong,
}

/// Returns the name under which a run is counted.
fn kind(physics: &str, outcome: Outcome) -> &'static str {
    match (physics == "clear", outcome) {
        (true, Outcome::Exact) => "clear slips named",
        (true, Outcome::Unclear) => "clear slips unclear",
        (true, Outcome::Unseen) => "clear slips not seen",
        (true, Outcome::Wrong) => "clear slips wrong",
        (false, Outcome::Exact) => "other slips named",
        (false, Outcome::Unclear) => "other slips unclear",
        (false, Outcome::Unseen) => "other slips not seen",
        (false, Outcome::Wrong) => "other slips wrong",
    }
}

/// The records of a run with a slip.
struct View<'a> {
    boards: &'a Boards,
    slip: Slip,
    records: Vec<(EventId, &'a EventRecord)>,
    /// Processes of builders that knew the clock when it slipped.
    knew: BTreeSet<u64>,
}

impl<'a> View<'a> {
    fn new(run: &'a OfRun<'_>, boards: &'a Boards, slip: Slip) -> Self {
        let records: Vec<_> = run.records().collect();
        let mut before: BTreeMap<u64, usize> = BTreeMap::new();
        for (_, record) in records.iter().filter(|(event, record)| {
            *event < slip.at && record.agree.contains(&slip.source) && record.agree.len() > 1
        }) {
            *before.entry(record.process).or_default() += 1;
        }
        let knew = before.into_iter().filter(|(_, count)| *count >= LEARNT).map(|(one, _)| one).collect();
        Self { boards, slip, records, knew }
    }

    /// Returns true if the record has the board's fragment, and that of another one.
    fn shows(&self, record: &EventRecord) -> bool {
        let clocks = |id: &&SourceId| self.boards.clocks[usize::from(id.number()) - 1].is_some();
        record.present.contains(&self.slip.source) && record.present.iter().filter(clocks).count() > 1
    }

    /// Returns true if all boards have a fragment in the record, so that whichever clock the
    /// supervisor compares with has one.
    fn has_all(&self, record: &EventRecord) -> bool {
        let boards = (1..).map(SourceId::new).zip(&self.boards.clocks);
        boards.filter(|(_, clock)| clock.is_some()).all(|(id, _)| record.present.contains(&id))
    }

    /// Returns true if the events on the disks say by how much the board slipped.
    fn is_clear(&self) -> bool {
        let events: BTreeSet<u64> =
            self.records.iter().filter(|(_, one)| self.shows(one)).map(|(event, _)| event.number()).collect();
        let at = self.slip.at.number();
        let after = events.range(at..);
        let compared = after
            .clone()
            .filter(|event| event.checked_add_signed(self.slip.shift).is_some_and(|of| events.contains(&of)));
        let by_known = self.records.iter().filter(|(event, one)| {
            *event >= self.slip.at && self.knew.contains(&one.process) && self.shows(one)
        });
        self.boards.spread > 0.0
            && after.count() >= ENOUGH
            && compared.count() >= ENOUGH / 2
            && by_known.count() >= 4
    }

    /// Counts the fragments of the board that are flagged.
    fn count_flags(&self, found: &mut Found) {
        for (event, record) in &self.records {
            if *event < self.slip.at || !self.shows(record) {
                continue;
            }
            let is_flagged = record.disagree.contains(&self.slip.source);
            let kind = match (self.knew.contains(&record.process), is_flagged) {
                (true, true) => "wrong fragments flagged",
                (true, false) => "wrong fragments not flagged",
                (false, true) => "wrong fragments flagged, of late builders",
                (false, false) => "wrong fragments not flagged, of late builders",
            };
            *found.entry(kind).or_default() += 1;
        }
    }

    /// Returns the number of sentences that accuse another source than the one that slipped.
    fn accused(&self, said: &[&str]) -> u64 {
        let one = format!("source {} ", self.slip.source);
        let is_other = |text: &&&str| !text.contains(&one) && !text.contains("did the contrary");
        said.iter().filter(is_other).count() as u64
    }

    /// Returns true if a sentence says that the events of the source that slipped are right.
    fn is_absolved(&self, said: &[&str]) -> bool {
        let one = format!(", source {} ", self.slip.source);
        said.iter().any(|text| text.contains(&one) && text.contains("are right"))
    }

    /// Returns true if a slip was named whose first event is not known.
    fn lacks_begin(&self, said: &[&str]) -> bool {
        said.iter().filter_map(|text| parse(text)).any(|named| named.is_begin_lost)
    }

    fn judge(&self, said: &[&str]) -> Outcome {
        let named: Vec<Named> = said.iter().filter_map(|text| parse(text)).collect();
        if named.iter().any(|one| !self.is_right(one)) {
            return Outcome::Wrong;
        }
        match (named.is_empty(), said.is_empty()) {
            (false, _) => Outcome::Exact,
            (true, false) => Outcome::Unclear,
            (true, true) => Outcome::Unseen,
        }
    }

    /// Returns true if what was named is what happened: no event on a disk lies between the
    /// beginning of the slip and the event that was named.
    fn is_right(&self, named: &Named) -> bool {
        let Slip { source, at, shift, .. } = self.slip;
        let is_same = named.source == source && named.shift == shift;
        let is_contrary = named.is_disputed && named.source != source && named.shift == -shift;
        // Seen from the other side, the first fragments fit no event that the board sent.
        let blind = if is_contrary { shift.unsigned_abs() } else { 0 };
        let is_between = |event: &EventId| at.number() + blind <= event.number() && *event < named.since;
        let skipped = self.records.iter().filter(|(event, one)| is_between(event) && self.has_all(one));
        let is_first = named.is_begin_lost || skipped.count() == 0;
        (is_same || is_contrary) && named.since >= at && is_first
    }

    fn check(&self, outcome: Outcome, said: &[&str]) -> Result<(), Failure> {
        let fail = |what: String| {
            let what = format!("{what}; {:?} slipped; {}", self.slip, said.join("; "));
            Err(Failure::new(Check::Alignment, what))
        };
        if outcome == Outcome::Wrong {
            return fail("a slip was named wrongly".to_owned());
        }
        let is_pair = self.boards.clocks.iter().flatten().count() == 2;
        for (event, record) in self.records.iter().filter(|(_, one)| self.knew.contains(&one.process)) {
            let is_wrong = |id: &SourceId| *event >= self.slip.at && (*id == self.slip.source || is_pair);
            // With two clocks that are known, either may be wrong.
            let is_tie = record.agree.len() + record.disagree.len() < 3;
            if record.disagree.iter().any(|id| !is_wrong(id)) && !is_tie {
                return fail(format!("event {event}: a right fragment is flagged: {record:?}"));
            }
        }
        Ok(())
    }
}

fn is_about_timestamps(text: &str) -> bool {
    text.contains("since event ")
}

/// Reads a slip from a sentence of the report.
fn parse(text: &str) -> Option<Named> {
    let rest = text.strip_prefix("since event ")?;
    let (since, rest) = rest.split_once(", source ")?;
    let (source, rest) = rest.split_once(' ')?;
    let (sign, rest) = match rest.strip_prefix("missed ") {
        Some(rest) => (1, rest),
        None => (-1, rest.strip_prefix("had ")?),
    };
    let count: i64 = rest.split_once(" trigger")?.0.parse().ok()?;
    Some(Named {
        since: EventId::new(since.parse().ok()?),
        source: SourceId::new(source.parse().ok()?),
        shift: sign * count,
        is_disputed: text.contains("did the contrary"),
        is_begin_lost: text.contains("perhaps since an earlier event"),
    })
}
