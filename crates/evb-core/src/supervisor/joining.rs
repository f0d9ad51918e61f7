//! Builders that come to a run which goes on, and builders that are to leave it.

use core::time::Duration;

use super::{
    ChangeError, Phase, Recipients, SupervisorCore,
    journal::What,
    outstanding::BuilderIndex,
    seats::{BuilderSeat, Leaving},
};
use crate::{
    id::BuilderId,
    time::Instant,
    undo::{self, Fix},
    wire::{
        control::{Finish, MAX_BUILDERS, RunEnd, control::Message},
        journal::{Membership, membership::Change},
    },
};

/// After so long, a builder gets events though not every source has said that it is connected to it.
const CONNECTING: Duration = Duration::from_secs(1);

impl SupervisorCore {
    /// One builder more may register, in a run that goes on as well.
    ///
    /// # Errors
    /// [`ChangeError`]: it is one already, there are too many, or the run is over.
    pub fn add_builder(&mut self, id: BuilderId, now: Instant) -> Result<(), ChangeError> {
        if !matches!(self.phase, Phase::Gathering { .. } | Phase::Running { .. } | Phase::Recovering { .. }) {
            return Err(ChangeError::NotRunning);
        }
        match self.builder_index(id) {
            Some(index) => match self.builders[index].leaving {
                Leaving::No => return Err(ChangeError::KnownBuilder(id)),
                Leaving::Asked | Leaving::Finishing if undo::is_undone(Fix::C8b484b) => {
                    return Err(ChangeError::KnownBuilder(id));
                }
                Leaving::Asked | Leaving::Finishing => return Err(ChangeError::LeavingBuilder(id)),
                Leaving::Gone => self.builders[index].leaving = Leaving::No,
            },
            None if self.builders.len() >= MAX_BUILDERS => return Err(ChangeError::TooManyBuilders),
            None if !self.plan.fits(self.builders.len() + 1) => {
                return Err(ChangeError::TooManyOutstanding(self.plan.slots));
            }
            None => self.seat_builder(id),
        }
        self.journal_membership(id, Change::Added, now);
        Ok(())
    }

    /// The builder gets no more events. When it has none left it reports and leaves.
    ///
    /// # Errors
    /// [`ChangeError`]: it is none, it is the last one, or the run is over.
    pub fn remove_builder(&mut self, id: BuilderId, now: Instant) -> Result<(), ChangeError> {
        if !matches!(self.phase, Phase::Gathering { .. } | Phase::Running { .. } | Phase::Recovering { .. }) {
            return Err(ChangeError::NotRunning);
        }
        let member = |seat: &&BuilderSeat| seat.leaving == Leaving::No;
        let index = self.builder_index(id).filter(|index| member(&&self.builders[*index]));
        let index = index.ok_or(ChangeError::UnknownBuilder(id))?;
        // While the run goes on, those that are dead do not stand in for it.
        let gathering = matches!(self.phase, Phase::Gathering { .. });
        let stays = |seat: &&BuilderSeat| {
            member(seat) && seat.id != id && (gathering || seat.is_alive() || undo::is_undone(Fix::C33dca9c))
        };
        let is_needed = gathering || self.builders[index].is_alive();
        if is_needed && !self.builders.iter().any(|seat| stays(&seat)) {
            return Err(ChangeError::LastBuilder(id));
        }
        tracing::info!(builder = %id, "is to leave");
        self.builders[index].leaving = Leaving::Asked;
        self.journal_membership(id, Change::Leaving, now);
        self.offer_slots(index, now);
        if !self.builders[index].is_alive() {
            self.leave(index, now);
        }
        Ok(())
    }

    pub(super) fn seat_builder(&mut self, id: BuilderId) {
        self.builders.push(BuilderSeat::new(id));
        self.slots.add_builder();
        self.outbox.add_builder(id);
    }

    /// Asks those that are to leave for their report, once they have nothing left.
    pub(super) fn dismiss_builders(&mut self) {
        for index in 0..self.builders.len() {
            let seat = &self.builders[index];
            let ready = seat.leaving == Leaving::Asked
                && seat.connection.is_some()
                && seat.tally.outstanding() == 0
                && self.is_under_way();
            if ready {
                self.builders[index].leaving = Leaving::Finishing;
                self.send(Recipients::Builder(self.builders[index].id), Message::Finish(Finish {}));
            }
        }
    }

    /// Its report is here: it leaves, and lanes to it end.
    pub(super) fn dismiss(&mut self, index: usize, now: Instant) {
        let end = RunEnd { exit_code: 0, verdict: "it has left the run".to_owned() };
        self.send(Recipients::Builder(self.builders[index].id), Message::RunEnd(end));
        let seat = &mut self.builders[index];
        seat.connection = None;
        seat.over = true;
        let id = seat.id.number();
        self.slots.set(index as BuilderIndex, 0, now);
        self.journal(What::Over(id.into()), now);
        self.leave(index, now);
        if !undo::is_undone(Fix::C33dca9c) {
            self.note_absence_of_builders(false, now);
        }
        self.publish_roster(now);
        self.send_holdings(self.connected_sources());
    }

    pub(super) fn leave(&mut self, index: usize, now: Instant) {
        let id = self.builders[index].id;
        self.builders[index].leaving = Leaving::Gone;
        tracing::info!(builder = %id, "has left");
        self.journal_membership(id, Change::Gone, now);
    }

    /// A builder comes while the run goes on: it gets events when lanes to it are connected.
    pub(super) fn begin_joining(&mut self, index: usize, now: Instant) {
        self.builders[index].joining = Some(now);
        self.sources.iter_mut().for_each(|seat| seat.reaches_all = false);
        self.pulse.give_up_builders = None;
        self.prolong_drain(now);
    }

    /// Gives builders their slots when all sources have said that they are connected, or have had the time.
    pub(super) fn check_joining(&mut self, now: Instant) {
        let connected = self.up.iter().all(|index| self.sources[index].reaches_all);
        for index in 0..self.builders.len() {
            let Some(since) = self.builders[index].joining else { continue };
            if connected || self.is_over(since + CONNECTING, now) {
                self.builders[index].joining = None;
                self.offer_slots(index, now);
            }
        }
    }

    fn journal_membership(&mut self, id: BuilderId, change: Change, now: Instant) {
        let what = Membership { builder: id.number().into(), change: change.into() };
        self.journal(What::Membership(what), now);
    }
}
