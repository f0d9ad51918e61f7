//! Methods of [`Books`] that restore counts from the journal.

use super::{Books, Times};
use crate::{
    alignment::Episode,
    event::Cause,
    index::{BuilderIndex, SourceIndex},
    ledger::OwingChange,
    supervisor::nonsense::{Nonsense, count, nonsense, text, total},
    time::Instant,
    wire::{
        control::{self, Exclusion, MAX_SLOTS},
        journal::{Blame, BuilderTotals, Finding, SourceTotals, Totals},
    },
};

impl Books {
    /// Restores the counts of the run as a whole from the totals in the journal.
    pub(in crate::supervisor) fn recall(&mut self, totals: &Totals, at: Instant) -> Result<(), Nonsense> {
        self.tally.triggered = count(totals.triggered)?;
        self.tally.inhibited = totals.inhibited;
        self.tally.lost = count(totals.lost)?;
        if totals.inhibited > totals.triggered {
            return nonsense("more triggers are inhibited than were taken");
        }
        let instants = [totals.first_trigger_ns, totals.started_ns, totals.last_completion_ns];
        if instants.iter().any(|nanos| Instant::from_nanos(*nanos) > at) {
            return nonsense("a time in the totals is later than the entry");
        }
        if totals.started_ns == 0 && totals.triggered > 0 {
            return nonsense("there are triggers before the start of the run");
        }
        let [first_trigger, started, last_completion] =
            instants.map(|nanos| (nanos > 0).then(|| Instant::from_nanos(nanos)));
        self.times = Times { first_trigger, started, last_completion, ..self.times };
        Ok(())
    }

    /// Restores what was counted for a source, from an entry of the journal. Missing fragments
    /// without a cause, as an older evb wrote them, have the cause unknown.
    pub(in crate::supervisor) fn recall_source(
        &mut self,
        index: SourceIndex,
        own: &SourceTotals,
    ) -> Result<(), Nonsense> {
        for [code, events] in own.absent_by_cause.as_chunks::<2>().0 {
            let Ok(code) = u8::try_from(*code) else { return nonsense("a cause is above 255") };
            self.absent[index].insert(Cause::from_code(code), count(*events)?);
        }
        let (pairs, rest) = own.missing_by_cause.as_chunks::<2>();
        if !rest.is_empty() {
            return nonsense("the missing fragments of a source have a cause without a number");
        }
        let mut unknown = count(own.missing)?;
        for [code, events] in pairs {
            let Ok(code) = u8::try_from(*code) else { return nonsense("a cause is above 255") };
            let Some(left) = unknown.checked_sub(*events) else {
                return nonsense("more fragments of a source are missing by cause than in total");
            };
            unknown = left;
            *self.missing[index].entry(Cause::from_code(code)).or_default() += events;
        }
        if unknown > 0 {
            *self.missing[index].entry(Cause::Unknown).or_default() += unknown;
        }
        Ok(())
    }

    /// Restores what was counted for a builder, from an entry of the journal.
    pub(in crate::supervisor) fn recall_builder(
        &mut self,
        index: BuilderIndex,
        own: &BuilderTotals,
    ) -> Result<(), Nonsense> {
        let books = &mut self.builders[index];
        books.accounted = count(own.accounted)?;
        books.present = own.present.unwrap_or_default().checked()?;
        books.past = own.past.unwrap_or_default().checked()?;
        if own.past_written > books.past.accepted() {
            return nonsense("more events are written than were accepted");
        }
        books.past_written = own.past_written;
        let total = books.past.plus(&books.present);
        self.tally.complete += total.complete;
        self.tally.incomplete += total.incomplete;
        self.tally.rejected += total.rejected;
        self.tally.lost += total.all_lost();
        Ok(())
    }

    /// Restores the causes of losses. Call `recall_losses` after all losses have been restored.
    pub(in crate::supervisor) fn recall_losses(&mut self, totals: &Totals) -> Result<(), Nonsense> {
        if total(totals.losses.iter().map(|loss| loss.events))? > self.tally.lost {
            return nonsense("the causes of lost events add up to more than were lost");
        }
        totals.losses.iter().for_each(|loss| self.findings.loss(text(&loss.cause), loss.events));
        Ok(())
    }

    /// Restores the causes of dead time, which may cover `inhibited` triggers at most.
    pub(in crate::supervisor) fn recall_blames(
        &mut self,
        blames: &[Blame],
        inhibited: u64,
    ) -> Result<(), Nonsense> {
        if total(blames.iter().map(|blame| blame.inhibited))? > inhibited {
            return nonsense("the causes of inhibited triggers add up to more than were inhibited");
        }
        self.dead_time.recall(blames);
        Ok(())
    }

    /// Adds decided triggers from the journal, `inhibited` of which were inhibited.
    pub(in crate::supervisor) fn recall_triggers(
        &mut self,
        triggers: u64,
        inhibited: u64,
    ) -> Result<(), Nonsense> {
        self.tally.triggered = count(self.tally.triggered + triggers)?;
        self.tally.inhibited += inhibited;
        Ok(())
    }

    /// Counts one more event as assigned to a builder.
    pub(in crate::supervisor) fn recall_assignment(&mut self, builder: BuilderIndex) -> Result<(), Nonsense> {
        let tally = &mut self.builders[builder].present;
        tally.assigned = count(tally.assigned + 1)?;
        if tally.outstanding() > u64::from(MAX_SLOTS) {
            return nonsense("a builder has more outstanding events than it can have slots");
        }
        Ok(())
    }

    /// Returns true if a builder's next completion has the number `before`.
    pub(in crate::supervisor) fn goes_on_from(&self, builder: BuilderIndex, before: u64) -> bool {
        self.builders[builder].accounted == before
    }

    pub(in crate::supervisor) fn recall_episode(&mut self, told: &control::Episode) {
        Episode::of_message(told).into_iter().for_each(|episode| self.findings.note_episode(episode));
    }

    pub(in crate::supervisor) fn recall_exclusion(&mut self, entry: &Exclusion) {
        OwingChange::of_entry(entry).into_iter().for_each(|change| self.findings.note_exclusion(change));
    }

    /// Restores a finding, from an entry of the journal.
    pub(in crate::supervisor) fn recall_finding(&mut self, finding: &Finding) {
        let problem = text(&finding.problem);
        if finding.remark {
            self.findings.remark(problem);
        } else if finding.failure {
            self.findings.fail(problem);
        } else {
            self.findings.problem(problem);
        }
    }

    /// Converts all times to a clock that is `nanos` ahead of the present one.
    pub(in crate::supervisor) fn shift_times(&mut self, nanos: i64) {
        let times = &mut self.times;
        [
            &mut times.started,
            &mut times.first_trigger,
            &mut times.last_trigger_possible,
            &mut times.last_completion,
        ]
        .into_iter()
        .flatten()
        .for_each(|at| *at = at.shifted(nanos));
    }
}
