//! Lives of processes: who goes on, who begins anew, when a builder's life is over, and which completions are in the ledger
//! already.

use super::{
    Output, Phase, Recipients, SupervisorCore, journal::What, outstanding::BuilderIndex, seats::Leaving,
};
use crate::{
    id::Peer,
    time::Instant,
    wire::control::{Accounted, Completions, Hello, control::Message},
};

/// Completions that do not follow those before them: some are missing, and nothing later can be told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it numbered completions from {before}, and {accounted} are known")]
pub(super) struct Gap {
    before: u64,
    accounted: u64,
}

/// Whether the peer is the process that had the seat before.
pub(super) fn goes_on(hello: &Hello, incarnation: u32) -> bool {
    incarnation != 0 && hello.incarnation == incarnation
}

impl SupervisorCore {
    /// How many of these completions are in the ledger already, and are to be skipped (docs/protocol.md RUN-20).
    pub(super) fn known_completions(&self, index: usize, completions: &Completions) -> Result<usize, Gap> {
        let (before, accounted) = (completions.before, self.builders[index].accounted);
        if before > accounted {
            return Err(Gap { before, accounted });
        }
        Ok(usize::try_from(accounted - before).unwrap_or(usize::MAX))
    }

    /// Tells builders once in a turn what is in the ledger: their fragments may be forgotten.
    pub(super) fn answer_completions(&mut self) {
        for index in 0..self.builders.len() {
            let seat = &mut self.builders[index];
            if core::mem::take(&mut seat.unanswered) && seat.connection.is_some() {
                let accounted = Accounted { completions: seat.accounted };
                self.send(Recipients::Builder(self.builders[index].id), Message::Accounted(accounted));
            }
        }
    }

    /// How long a builder may still give events to its sink after it was heard, and as long again.
    pub(super) fn two_leases(&self) -> core::time::Duration {
        self.plan.lease.saturating_mul(2)
    }

    /// A builder's life in the run is over: what it had is given to others (docs/protocol.md RUN-22).
    pub(super) fn end_incarnation(&mut self, index: usize, cause: &str, now: Instant) {
        self.close_batches();
        let seat = &mut self.builders[index];
        let (id, silent) = (seat.id, seat.connection.take().is_some());
        seat.over = true;
        seat.joining = None;
        self.slots.set(index as BuilderIndex, 0, now);
        if silent {
            self.outbox.push(Output::Drop { peer: Peer::Builder(id), reason: cause.to_owned() });
        }
        let moved = self.unhouse(index);
        self.journal(What::Over(id.number().into()), now);
        self.raise_epoch(now);
        self.builders[index].tally.moved += moved;
        let remark =
            format!("builder {id} left the run: {cause}; {moved} events of its were given to others");
        tracing::warn!(builder = %id, cause, moved, "over");
        if self.builders[index].leaving != Leaving::No {
            self.leave(index, now);
        }
        // Who is gone before its two leases are over, with nothing in hand, is noticed when the others have reported already.
        let is_missed =
            matches!(self.phase, Phase::Reporting { .. }) && self.builders[index].report.is_none();
        if is_missed || self.is_under_way() {
            self.remark(remark, now);
        }
        if self.is_under_way() {
            self.publish_roster(now);
            self.send_holdings(self.connected_sources());
            self.note_absence_of_builders(silent, now);
        }
        self.close_if_all_reported(now);
    }

    /// Assignments from now on are told from all before.
    pub(super) fn raise_epoch(&mut self, now: Instant) {
        self.epoch = crate::id::Epoch::new(self.epoch.number() + 1);
        self.journal(What::Epoch(self.epoch.number()), now);
    }

    /// No builder: the run waits for one, longer where it may be the network alone that is gone.
    pub(super) fn note_absence_of_builders(&mut self, silent: bool, now: Instant) {
        if self.builders.iter().any(super::seats::BuilderSeat::is_alive) {
            return;
        }
        let until = now + self.absence_limit(silent);
        self.pulse.give_up_builders = Some(until);
        if let Phase::Draining { until: end } = &mut self.phase {
            *end = until.max(*end);
        }
    }
}
