//! Methods of [`Roster`] that restore its state from the journal.

use core::time::Duration;
use std::collections::BTreeSet;

use super::{Audience, Readouts, Roster, Seat};
use crate::{
    id::SourceId,
    index::{BuilderIndex, SourceIndex},
    set::SourceSet,
    supervisor::{
        nonsense::{Nonsense, builder_id, listen, nonsense, ordinal},
        seats::Leaving,
    },
    time::Instant,
    wire::{
        control::Role,
        journal::{BuilderTotals, Change, Registered, RosterChange, SourceTotals, Totals},
    },
};

impl Roster {
    pub(in crate::supervisor) fn recalled_builder(&self, id: u32) -> Result<BuilderIndex, Nonsense> {
        self.builder_index(builder_id(id)?).map_or_else(|| nonsense("the run has no such builder"), Ok)
    }

    /// Returns the position of a builder, if the builder may get events.
    pub(in crate::supervisor) fn recalled_alive(&self, id: u32) -> Result<BuilderIndex, Nonsense> {
        let index = self.recalled_builder(id)?;
        if self.builders[index].is_alive() {
            Ok(index)
        } else {
            nonsense("the entry gives events to a builder that takes no part")
        }
    }

    fn recalled_sources(&self, positions: &[u32]) -> Result<SourceSet, Nonsense> {
        if positions.iter().any(|position| *position as usize >= self.sources.len()) {
            return nonsense("the run has no such source");
        }
        Ok(positions.iter().map(|position| *position as usize).collect())
    }

    /// Restores the registration of a peer. Returns the peer's seat, and true if it is a new
    /// process of a builder.
    pub(in crate::supervisor) fn recall_registration(
        &mut self,
        registered: &Registered,
    ) -> Result<(Seat, bool), Nonsense> {
        let Ok(id) = u16::try_from(registered.id) else { return nonsense("a peer id is above 65535") };
        let incarnation = ordinal(registered.incarnation)?;
        match registered.role {
            Role::Source => {
                let Some(index) = self.source_index(SourceId::new(id)) else {
                    return nonsense("the run has no such source");
                };
                let seat = &mut self.sources[index];
                seat.incarnation = incarnation;
                seat.max_fragment = registered.max_fragment;
                Ok((Seat::Source(index), false))
            }
            Role::Builder => {
                let index = self.recalled_builder(registered.id)?;
                let seat = &mut self.builders[index];
                if incarnation < seat.incarnation.max(1) {
                    return nonsense("an earlier incarnation of a builder registers again");
                }
                let is_new = incarnation > seat.incarnation;
                if is_new {
                    seat.begin_incarnation();
                    seat.incarnation = incarnation;
                }
                seat.listen = listen(&registered.listen)?;
                seat.note_highest(registered.highest_run);
                Ok((Seat::Builder(index), is_new))
            }
            _ => nonsense("a peer registers in an unknown role"),
        }
    }

    /// Restores a roster version. `used` contains the versions of outstanding events; `is_started`
    /// is false before the run began.
    pub(in crate::supervisor) fn recall_change(
        &mut self,
        change: &RosterChange,
        used: &BTreeSet<u32>,
        is_started: bool,
        at: Instant,
    ) -> Result<(), Nonsense> {
        let up = self.recalled_sources(&change.up)?;
        if ordinal(change.version)? <= self.version {
            return nonsense("the roster version is not higher than the last one");
        }
        let awaited = self.recalled_sources(&change.awaited)?;
        self.readouts = Readouts::quiet_at(self.recalled_sources(&change.quiet)?);
        let released = self.recalled_sources(&change.released)?;
        self.owing.recall(self.recalled_sources(&change.excluded)?, released)?;
        for (index, seat) in self.sources.iter_mut().enumerate() {
            // The journal does not have the times of these changes, so that of the entry counts.
            match (up.contains(index), seat.down) {
                (false, None) if is_started => seat.down = Some(at),
                (true, Some(_)) => seat.end_absence(at),
                _ => {}
            }
        }
        (self.up, self.awaited, self.version) = (up, awaited, change.version);
        self.remember_audience(used);
        Ok(())
    }

    /// Restores that a builder has ended its part in the run.
    pub(in crate::supervisor) fn recall_over(&mut self, builder: u32) -> Result<BuilderIndex, Nonsense> {
        let index = self.recalled_builder(builder)?;
        if !self.builders[index].is_alive() {
            return nonsense("the entry ends a builder that takes no part");
        }
        self.builders[index].over = true;
        Ok(index)
    }

    /// Restores that a builder was added, leaves or is gone.
    pub(in crate::supervisor) fn recall_membership(
        &mut self,
        builder: u32,
        change: Change,
    ) -> Result<(), Nonsense> {
        let index = self.recalled_builder(builder)?;
        let leaving = match change {
            Change::Unspecified => return nonsense("the change of a builder's membership is unknown"),
            Change::Added => Leaving::No,
            Change::Leaving => Leaving::Asked,
            Change::Gone => Leaving::Gone,
        };
        self.set_leaving(index, leaving);
        Ok(())
    }

    /// Restores from the totals the sources that were up or awaited, and the sources that
    /// outstanding events concern.
    pub(in crate::supervisor) fn recall(&mut self, totals: &Totals) -> Result<(), Nonsense> {
        self.version = ordinal(totals.roster_version)?;
        for expectation in &totals.expectations {
            let expected = self.recalled_sources(&expectation.sources)?;
            let quiet = self.recalled_sources(&expectation.quiet)?;
            let excluded = self.recalled_sources(&expectation.excluded)?;
            self.audiences.insert(ordinal(expectation.version)?, Audience { expected, quiet, excluded });
        }
        self.up = self.recalled_sources(&totals.up)?;
        self.awaited = self.recalled_sources(&totals.awaited)?;
        let released = self.recalled_sources(&totals.released)?;
        self.owing.recall(self.recalled_sources(&totals.excluded)?, released)?;
        if totals.sources.len() != self.sources.len() {
            return nonsense("the totals are of another number of sources");
        }
        Ok(())
    }

    /// Restores the seat of a source from totals, which were written at the time `at`.
    pub(in crate::supervisor) fn recall_source(
        &mut self,
        index: SourceIndex,
        own: &SourceTotals,
        at: Instant,
    ) -> Result<(), Nonsense> {
        let seat = &mut self.sources[index];
        seat.incarnation = ordinal(own.incarnation)?;
        seat.max_fragment = own.max_fragment;
        seat.down_time = Duration::from_nanos(own.down_ns);
        seat.down = own.down.then_some(at);
        Ok(())
    }

    /// Restores the seat of a builder from totals.
    pub(in crate::supervisor) fn recall_builder(
        &mut self,
        index: BuilderIndex,
        own: &BuilderTotals,
    ) -> Result<(), Nonsense> {
        let seat = &mut self.builders[index];
        seat.incarnation = ordinal(own.incarnation)?;
        seat.listen = listen(&own.listen)?;
        seat.over = own.over;
        seat.past_payload_bytes = own.past_payload_bytes;
        seat.note_highest(own.highest_run);
        self.recall_membership(own.id, own.membership)
    }

    /// Converts all times to a clock that is `nanos` ahead of the present one.
    pub(in crate::supervisor) fn shift_times(&mut self, nanos: i64) {
        let downs = self.sources.iter_mut().filter_map(|seat| seat.down.as_mut());
        downs.for_each(|since| *since = since.shifted(nanos));
    }
}
