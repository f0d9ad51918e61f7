//! Counts the events of a run, and selects for each event the copy that counts.

use std::cmp::Reverse;

use evb_core::id::{Epoch, EventId};

use super::{Duplicate, Gap, IncompleteEvent, Listed, RunReport, Superseded};
use crate::format::Record;

/// The facts kept about one copy of an event, in 24 bytes.
#[derive(Clone, Copy, Debug)]
struct EventCopy {
    event: EventId,
    epoch: Epoch,
    complete: bool,
}

/// All copies of all events of a run.
#[derive(Debug, Default)]
pub(super) struct Tally {
    copies: Vec<EventCopy>,
    /// The missing sources of the first incomplete copies, at most as many as a report lists.
    incomplete: Vec<IncompleteEvent>,
}

impl Tally {
    pub(super) fn add(&mut self, record: Record) {
        let Record { event, epoch, .. } = record;
        let complete = record.is_complete();
        self.copies.push(EventCopy { event, epoch, complete });
        if !complete && self.incomplete.len() < Listed::<IncompleteEvent>::LIMIT {
            self.incomplete.push(IncompleteEvent {
                event,
                epoch,
                missing: record.missing.iter().map(|missing| missing.source).collect(),
            });
        }
    }

    /// Fills in the parts of the report that need the records of all files of the run.
    pub(super) fn finish(mut self, report: &mut RunReport) {
        // After the sort, the copy of an event that counts comes before its other copies.
        self.copies.sort_unstable_by_key(|copy| (copy.event, Reverse((copy.epoch, copy.complete))));
        let mut before = EventId::default();
        for copies in self.copies.chunk_by(|a, b| a.event == b.event) {
            let counted = copies[0];
            report.events += 1;
            if counted.complete {
                report.complete += 1;
            } else {
                report.incomplete.total += 1;
            }
            if counted.event > before.next() {
                let gap = Gap { first: before.next(), last: EventId::new(counted.event.number() - 1) };
                report.absent += gap.last.number() - gap.first.number() + 1;
                report.gaps.add(gap);
            }
            before = counted.event;
            copies_that_do_not_count(copies, report);
        }
        report.highest = before;
        for tail in &mut report.torn_tails.first {
            let is_there =
                |event: &EventId| self.copies.binary_search_by_key(event, |copy| copy.event).is_ok();
            tail.elsewhere = tail.event.as_ref().is_some_and(is_there);
        }
        self.incomplete.sort_by_key(|copy| (copy.event, copy.epoch));
        self.incomplete.dedup_by_key(|copy| (copy.event, copy.epoch));
        let copies = &self.copies;
        self.incomplete.retain(|listed| {
            let first = copies.partition_point(|copy| copy.event < listed.event);
            copies[first].epoch == listed.epoch && !copies[first].complete
        });
        report.incomplete.first = self.incomplete;
    }
}

fn copies_that_do_not_count(copies: &[EventCopy], report: &mut RunReport) {
    let by = copies[0].epoch;
    for pair in copies.windows(2) {
        let (event, epoch) = (pair[1].event, pair[1].epoch);
        if epoch == pair[0].epoch {
            report.duplicates.add(Duplicate { event, epoch });
        } else {
            report.superseded.add(Superseded { event, epoch, by });
        }
    }
}
