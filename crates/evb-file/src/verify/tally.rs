//! Counts the events of a run, and selects for each event the copy that counts.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
};

use evb_core::{
    event::{Alignment, Cause, MissingSource},
    id::{Epoch, EventId, SourceId},
};

use super::{Duplicate, EventsOfSource, Gap, IncompleteEvent, RunReport, Superseded, WithoutSource};
use crate::format::Record;

/// The facts kept about one copy of an event, in 24 bytes.
#[derive(Clone, Copy, Debug)]
struct EventCopy {
    event: EventId,
    epoch: Epoch,
    /// The place of the copy's lists in [`Tally::lists`].
    lists: u32,
}

/// The missing and absent sources of an event, and those whose fragments disagree or lost packets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Lists {
    missing: Vec<MissingSource>,
    absent: Vec<MissingSource>,
    misaligned: Vec<SourceId>,
    lossy: Vec<SourceId>,
}

impl Lists {
    fn of(record: Record) -> Self {
        let disagrees = record.fragments.iter().filter(|part| part.alignment == Alignment::Disagrees);
        let misaligned = disagrees.map(|part| part.source).collect();
        let lossy = record.lossy().map(|part| part.source).collect();
        Self { missing: record.missing, absent: record.absent, misaligned, lossy }
    }
}

/// All copies of all events of a run.
#[derive(Debug)]
pub(super) struct Tally {
    copies: Vec<EventCopy>,
    /// The different lists; the first is empty.
    lists: Vec<Lists>,
    places: HashMap<Lists, u32>,
}

impl Default for Tally {
    fn default() -> Self {
        Self { copies: Vec::new(), lists: vec![Lists::default()], places: HashMap::new() }
    }
}

impl Tally {
    pub(super) fn add(&mut self, record: Record) {
        let (event, epoch, is_plain) = (record.event, record.epoch, record.is_whole() && record.is_aligned());
        let lists = if is_plain { 0 } else { self.place(Lists::of(record)) };
        self.copies.push(EventCopy { event, epoch, lists });
    }

    /// Returns the number of these lists. Equal lists have the same number, because most events
    /// have the same ones.
    fn place(&mut self, lists: Lists) -> u32 {
        if let Some(place) = self.places.get(&lists) {
            return *place;
        }
        let place = self.lists.len() as u32;
        self.lists.push(lists.clone());
        self.places.insert(lists, place);
        place
    }

    /// Fills in the parts of the report that need the records of all files of the run.
    pub(super) fn finish(mut self, report: &mut RunReport) {
        let lists = &self.lists;
        let is_complete = |copy: &EventCopy| lists[copy.lists as usize].missing.is_empty();
        // After the sort, the copy of an event that counts comes before its other copies. Copies of
        // one epoch stay in the order of the files, so that a merge takes the same one.
        self.copies.sort_by_key(|copy| (copy.event, Reverse(copy.epoch)));
        let mut before = EventId::default();
        let mut counts = vec![0_u64; lists.len()];
        for copies in self.copies.chunk_by(|a, b| a.event == b.event) {
            let counted = copies[0];
            report.events += 1;
            counts[counted.lists as usize] += 1;
            if is_complete(&counted) {
                report.complete += 1;
            } else {
                let missing = lists[counted.lists as usize].missing.clone();
                report.incomplete.add(IncompleteEvent {
                    event: counted.event,
                    epoch: counted.epoch,
                    missing,
                });
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
        let counted = || lists.iter().zip(&counts);
        report.incomplete_without = without(counted().map(|(lists, events)| (&lists.missing, *events)));
        let complete = counted().filter(|(lists, _)| lists.missing.is_empty());
        report.complete_without = without(complete.map(|(lists, events)| (&lists.absent, *events)));
        let misaligned = || counted().filter(|(lists, _)| !lists.misaligned.is_empty());
        report.misaligned = misaligned().map(|(_, events)| events).sum();
        report.misaligned_by = by_source(misaligned().map(|(lists, events)| (&lists.misaligned, *events)));
        let lossy = || counted().filter(|(lists, _)| !lists.lossy.is_empty());
        report.lossy = lossy().map(|(_, events)| events).sum();
        report.lossy_by = by_source(lossy().map(|(lists, events)| (&lists.lossy, *events)));
    }
}

/// Counts events by source and cause.
fn without<'a>(lists: impl Iterator<Item = (&'a Vec<MissingSource>, u64)>) -> Vec<WithoutSource> {
    let mut counts = BTreeMap::<(SourceId, Cause), u64>::new();
    for (list, events) in lists.filter(|(_, events)| *events > 0) {
        for missing in list {
            *counts.entry((missing.source, missing.cause)).or_default() += events;
        }
    }
    counts.into_iter().map(|((source, cause), events)| WithoutSource { source, cause, events }).collect()
}

/// Counts events by source.
fn by_source<'a>(lists: impl Iterator<Item = (&'a Vec<SourceId>, u64)>) -> Vec<EventsOfSource> {
    let mut counts = BTreeMap::<SourceId, u64>::new();
    for (list, events) in lists.filter(|(_, events)| *events > 0) {
        for source in list {
            *counts.entry(*source).or_default() += events;
        }
    }
    counts.into_iter().map(|(source, events)| EventsOfSource { source, events }).collect()
}

/// Reports all copies of an event but the first, which counts: copies of the same epoch are
/// duplicates, those of an earlier one are superseded.
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
