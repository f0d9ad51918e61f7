//! The state of a run in place of the entries that led to it: keeps a journal from growing without end.

#[cfg(test)]
mod tests;

use core::time::Duration;
use std::collections::BTreeMap;

use super::{
    SupervisorCore,
    journal::{What, differences, sums},
    outstanding::{BuilderIndex, HOMELESS, Place},
    recall::{Nonsense, count, listen, nonsense, ordinal, recalled_leaving, text, total},
    seats::{BuilderSeat, BuilderTally, Down, Leaving, SourceSeat},
};
use crate::{
    time::Instant,
    wire::{
        control::MAX_SLOTS,
        journal::{
            BuilderCounts, BuilderTotals, CauseOfLoss, Entry, Expectation, Finding, Held, SourceTotals,
            Totals, membership::Change,
        },
    },
};

impl SupervisorCore {
    /// Entries that stand for all that came out so far. Ask for them when [`poll`](Self::poll) has answered `None`, and
    /// replace the journal with them.
    pub fn snapshot(&self, now: Instant) -> Vec<Entry> {
        let entry = |what| Entry { at_ns: now.as_nanos(), what: Some(what) };
        let mut entries = vec![entry(What::Begun(self.begun()))];
        entries.push(entry(What::Epoch(self.epoch.number())));
        entries.push(entry(What::Totals(self.totals(now))));
        let (problems, failure) = self.findings.said();
        for problem in problems {
            let failure = failure == Some(problem);
            let finding = Finding { problem: problem.clone(), failure, ..Finding::default() };
            entries.push(entry(What::Finding(finding)));
        }
        for remark in self.findings.remarks() {
            let finding = Finding { problem: remark.clone(), remark: true, ..Finding::default() };
            entries.push(entry(What::Finding(finding)));
        }
        entries.push(entry(What::Paused(self.paused)));
        entries.extend(self.rate.map(|rate| entry(What::Rate(rate.hertz()))));
        if let Some(at) = self.tally.last_trigger_possible {
            entries.push(Entry { at_ns: at.as_nanos(), what: Some(What::Stopping("before".to_owned())) });
        }
        entries.extend(self.tally.exit_code.map(|code| entry(What::Ended(code.into()))));
        entries
    }

    fn totals(&self, now: Instant) -> Totals {
        let positions = |set: &crate::set::SourceSet| set.iter().map(|index| index as u32).collect();
        let with_builders: u64 = self.builders.iter().map(|seat| lost(&seat.total())).sum();
        let nanos = |at: Option<Instant>| at.map_or(0, Instant::as_nanos);
        let assigned = self.tally.triggered - self.tally.inhibited;
        Totals {
            triggered: self.tally.triggered,
            inhibited: self.tally.inhibited,
            lost: self.tally.lost - with_builders,
            roster_version: self.roster_version,
            expectations: self
                .expected
                .iter()
                .map(|(version, sources)| Expectation { version: *version, sources: positions(sources) })
                .collect(),
            up: positions(&self.up),
            awaited: positions(&self.awaited),
            sources: self.sources.iter().map(|seat| source_totals(seat, assigned, now)).collect(),
            builders: self.builders.iter().map(builder_totals).collect(),
            held: self.held(),
            blames: self.dead_time.blames(),
            losses: self
                .findings
                .losses()
                .map(|(cause, events)| CauseOfLoss { cause: cause.clone(), events: *events })
                .collect(),
            first_trigger_ns: nanos(self.tally.first_trigger),
            started_ns: nanos(self.tally.started),
            last_completion_ns: nanos(self.tally.last_completion),
        }
    }

    fn held(&self) -> Vec<Held> {
        let mut groups: BTreeMap<(BuilderIndex, u32), Vec<Place>> = BTreeMap::new();
        for place in self.outstanding.iter() {
            groups.entry((place.builder, place.version)).or_default().push(*place);
        }
        let group = |((builder, version), mut places): ((BuilderIndex, u32), Vec<Place>)| {
            places.sort_unstable_by_key(|place| place.event);
            Held {
                builder: if builder == HOMELESS { 0 } else { u32::from(builder) + 1 },
                version,
                events: differences(places.iter().map(|place| place.event)),
                triggered_ns: differences(places.iter().map(|place| place.triggered_ns)),
            }
        };
        groups.into_iter().map(group).collect()
    }

    /// Takes the state of before; nothing may have come before it.
    pub(super) fn recall_totals(&mut self, totals: &Totals, at: Instant) -> Result<(), Nonsense> {
        self.tally.triggered = count(totals.triggered)?;
        self.tally.inhibited = totals.inhibited;
        self.tally.lost = count(totals.lost)?;
        if totals.inhibited > totals.triggered {
            return nonsense("more triggers were inhibited than there were");
        }
        self.recall_instants(totals, at)?;
        self.outbox.recall(totals.triggered);
        self.roster_version = ordinal(totals.roster_version)?;
        for expectation in &totals.expectations {
            let sources = self.recalled_sources(&expectation.sources)?;
            self.expected.insert(ordinal(expectation.version)?, sources);
        }
        self.up = self.recalled_sources(&totals.up)?;
        self.awaited = self.recalled_sources(&totals.awaited)?;
        self.recall_sources(&totals.sources, at)?;
        for (position, own) in totals.builders.iter().enumerate() {
            self.recall_builder(position, own)?;
        }
        if totals.builders.len() != self.builders.len() {
            return nonsense("a builder has no totals");
        }
        for held in &totals.held {
            self.recall_held(held)?;
        }
        self.recall_blames(&totals.blames, totals.inhibited)?;
        self.check_books()?;
        if total(totals.losses.iter().map(|loss| loss.events))? > self.tally.lost {
            return nonsense("more events have a cause of their loss than were lost");
        }
        totals.losses.iter().for_each(|loss| self.findings.loss(text(&loss.cause), loss.events));
        Ok(())
    }

    fn recall_instants(&mut self, totals: &Totals, at: Instant) -> Result<(), Nonsense> {
        let instants = [totals.first_trigger_ns, totals.started_ns, totals.last_completion_ns];
        if instants.iter().any(|nanos| *nanos > at.as_nanos()) {
            return nonsense("something that is still to come has been");
        }
        if totals.started_ns == 0 && totals.triggered > 0 {
            return nonsense("triggers before the first one could come");
        }
        let [first, started, last] = instants.map(|nanos| (nanos > 0).then(|| Instant::from_nanos(nanos)));
        (self.tally.first_trigger, self.tally.started, self.tally.last_completion) = (first, started, last);
        Ok(())
    }

    fn recall_sources(&mut self, totals: &[SourceTotals], at: Instant) -> Result<(), Nonsense> {
        if totals.len() != self.sources.len() {
            return nonsense("totals of other sources");
        }
        let assigned = self.tally.triggered - self.tally.inhibited;
        for (index, (seat, own)) in self.sources.iter_mut().zip(totals).enumerate() {
            seat.incarnation = ordinal(own.incarnation)?;
            seat.max_fragment = own.max_fragment;
            seat.missing = count(own.missing)?;
            seat.down_time = Duration::from_nanos(own.down_ns);
            seat.events_without = count(own.events_without)?;
            let assigned = (!self.awaited.contains(index)).then_some(assigned);
            seat.down = own.down.then_some(Down { since: at, assigned });
        }
        Ok(())
    }

    fn recall_builder(&mut self, position: usize, own: &BuilderTotals) -> Result<(), Nonsense> {
        self.recall_seat(own.id)?;
        if self.recalled_builder(own.id)? != position {
            return nonsense("a builder is not where it was");
        }
        let seat = &mut self.builders[position];
        seat.incarnation = ordinal(own.incarnation)?;
        seat.listen = listen(&own.listen)?;
        seat.accounted = count(own.accounted)?;
        seat.over = own.over;
        seat.leaving = recalled_leaving(own.membership())?;
        seat.tally = tally(own.present.as_ref())?;
        seat.past.tally = tally(own.past.as_ref())?;
        if own.past_written > seat.past.tally.complete + seat.past.tally.incomplete {
            return nonsense("more events were written than were built");
        }
        seat.past.written = own.past_written;
        seat.past.payload_bytes = own.past_payload_bytes;
        let total = seat.total();
        self.tally.complete += total.complete;
        self.tally.incomplete += total.incomplete;
        self.tally.rejected += total.rejected;
        self.tally.lost += lost(&total);
        Ok(())
    }

    fn recall_held(&mut self, held: &Held) -> Result<(), Nonsense> {
        let builder = match held.builder {
            0 => HOMELESS,
            position if self.builders.get(position as usize - 1).is_some_and(BuilderSeat::is_alive) => {
                (position - 1) as BuilderIndex
            }
            _ => return nonsense("no such builder, or it was not there"),
        };
        if held.events.len() != held.triggered_ns.len() {
            return nonsense("events and trigger times differ in number");
        }
        for (event, time) in sums(&held.events).zip(sums(&held.triggered_ns)) {
            self.recall_place(event, time, held.version, builder)?;
            if builder == HOMELESS {
                self.homeless.insert(event);
            }
        }
        Ok(())
    }

    /// Every event is in the books once, and builders have what they are said to have.
    fn check_books(&self) -> Result<(), Nonsense> {
        if self.event_counts().open() != Some(self.outstanding.len() as u64) {
            return nonsense("the counts of events do not add up");
        }
        let mut held = vec![0; self.builders.len()];
        for place in self.outstanding.iter().filter(|place| place.builder != HOMELESS) {
            held[usize::from(place.builder)] += 1;
        }
        let fits = |(seat, held): (&BuilderSeat, &u64)| {
            seat.tally.outstanding() == *held && *held <= u64::from(MAX_SLOTS)
        };
        if self.builders.iter().zip(&held).all(fits) {
            Ok(())
        } else {
            nonsense("a builder has other events than those it was given")
        }
    }
}

/// How long it is down is added up: who reads that counts on from here.
fn source_totals(seat: &SourceSeat, assigned: u64, now: Instant) -> SourceTotals {
    let (down, without) =
        seat.down.map_or((Duration::ZERO, 0), |down| (now.since(down.since), down.events_without(assigned)));
    SourceTotals {
        incarnation: seat.incarnation,
        max_fragment: seat.max_fragment,
        missing: seat.missing,
        down_ns: u64::try_from((seat.down_time + down).as_nanos()).unwrap_or(u64::MAX),
        events_without: seat.events_without + without,
        down: seat.down.is_some(),
    }
}

fn builder_totals(seat: &BuilderSeat) -> BuilderTotals {
    let membership = match seat.leaving {
        Leaving::No => Change::Added,
        Leaving::Asked | Leaving::Finishing => Change::Leaving,
        Leaving::Gone => Change::Gone,
    };
    BuilderTotals {
        id: seat.id.number().into(),
        incarnation: seat.incarnation,
        listen: seat.listen.clone(),
        accounted: seat.accounted,
        over: seat.over,
        membership: membership.into(),
        present: Some(counts(&seat.tally)),
        past: Some(counts(&seat.past.tally)),
        past_written: seat.past.written,
        past_payload_bytes: seat.past.payload_bytes,
    }
}

fn lost(tally: &BuilderTally) -> u64 {
    tally.lost + tally.lost_with_it
}

fn counts(tally: &BuilderTally) -> BuilderCounts {
    BuilderCounts {
        assigned: tally.assigned,
        complete: tally.complete,
        incomplete: tally.incomplete,
        rejected: tally.rejected,
        lost: tally.lost,
        moved: tally.moved,
        lost_with_it: tally.lost_with_it,
        faults: tally.faults,
    }
}

fn tally(counts: Option<&BuilderCounts>) -> Result<BuilderTally, Nonsense> {
    let counts = counts.copied().unwrap_or_default();
    let BuilderCounts { assigned, complete, incomplete, rejected, lost, moved, lost_with_it, faults } =
        counts;
    if total([complete, incomplete, rejected, lost, moved, lost_with_it])? > count(assigned)? {
        return nonsense("a builder has settled more events than it was given");
    }
    let faults = count(faults)?;
    Ok(BuilderTally { assigned, complete, incomplete, rejected, lost, moved, lost_with_it, faults })
}
