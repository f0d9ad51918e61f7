//! Why triggers are inhibited: each one is put down to a cause, and the cause names a culprit where there is one.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use super::{Phase, SupervisorCore, seats::BuilderSeat};
use crate::{
    id::{BuilderId, SourceId},
    ledger::DeadTimeCause,
    wire::{control::Load, journal::Blame},
};

/// Why a trigger could not be taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Cause {
    /// Somebody wanted it so.
    Paused,
    /// The supervisor was started anew and waited for its peers.
    Supervisor,
    /// What it decides could not be written down.
    Journal,
    /// Nobody would have sent a fragment.
    NoSource,
    /// Nobody would have built it.
    NoBuilder,
    /// Complete events wait for this builder's sink.
    Sink(BuilderId),
    /// Builders wait for this source's fragments.
    Source(SourceId),
    /// All slots are taken, and nobody stands out.
    #[default]
    Busy,
}

/// Inhibited triggers by their cause.
#[derive(Clone, Debug, Default)]
pub(super) struct DeadTime {
    inhibited: BTreeMap<Cause, u64>,
    /// What is not written down yet.
    fresh: BTreeMap<Cause, u64>,
    /// What it is put down to while all slots are taken, in equal parts: the cause of each builder that has one.
    culprits: Vec<Cause>,
    /// Whose turn it is to get what cannot be divided.
    turn: usize,
}

impl DeadTime {
    pub(super) fn add(&mut self, cause: Cause, count: u64) {
        *self.inhibited.entry(cause).or_default() += count;
        *self.fresh.entry(cause).or_default() += count;
    }

    /// Divides it among those who stand out.
    fn share(&mut self, count: u64) {
        let sharers = self.culprits.len();
        if sharers == 0 {
            return self.add(Cause::Busy, count);
        }
        let (each, rest) = (count / sharers as u64, count % sharers as u64);
        for place in 0..sharers {
            let part = each + u64::from((place as u64) < rest);
            if part > 0 {
                self.add(self.culprits[(self.turn + place) % sharers], part);
            }
        }
        self.turn = (self.turn + rest as usize) % sharers;
    }

    /// What has come since the last time, for the journal.
    pub(super) fn take_fresh(&mut self) -> Vec<Blame> {
        core::mem::take(&mut self.fresh).into_iter().map(|(cause, count)| cause.blame(count)).collect()
    }

    /// All of it, for the journal.
    pub(super) fn blames(&self) -> Vec<Blame> {
        self.inhibited.iter().map(|(cause, count)| cause.blame(*count)).collect()
    }

    /// Reads from the journal; what has no meaning there has none here.
    pub(super) fn recall(&mut self, blames: &[Blame]) {
        for blame in blames {
            *self.inhibited.entry(Cause::of(blame)).or_default() += blame.inhibited;
        }
    }

    /// For the report, the largest first.
    pub(super) fn causes(&self) -> Vec<DeadTimeCause> {
        let mut causes: Vec<_> =
            self.inhibited.iter().map(|(cause, inhibited)| (*cause, *inhibited)).collect();
        causes.sort_by_key(|(_, inhibited)| core::cmp::Reverse(*inhibited));
        causes
            .into_iter()
            .map(|(cause, inhibited)| DeadTimeCause { cause: cause.words(), inhibited })
            .collect()
    }
}

impl Cause {
    fn blame(self, inhibited: u64) -> Blame {
        let (cause, id) = match self {
            Self::Busy => (0, 0),
            Self::Paused => (1, 0),
            Self::Supervisor => (2, 0),
            Self::NoSource => (3, 0),
            Self::NoBuilder => (4, 0),
            Self::Sink(id) => (5, id.number()),
            Self::Source(id) => (6, id.number()),
            Self::Journal => (7, 0),
        };
        Blame { cause, id: id.into(), inhibited }
    }

    fn of(blame: &Blame) -> Self {
        let id = u16::try_from(blame.id).unwrap_or(0);
        match blame.cause {
            1 => Self::Paused,
            2 => Self::Supervisor,
            3 => Self::NoSource,
            4 => Self::NoBuilder,
            5 => Self::Sink(BuilderId::new(id)),
            6 => Self::Source(SourceId::new(id)),
            7 => Self::Journal,
            _ => Self::Busy,
        }
    }

    fn words(self) -> String {
        match self {
            Self::Paused => "paused".to_owned(),
            Self::Supervisor => "supervisor recovering".to_owned(),
            Self::Journal => "the journal's disk".to_owned(),
            Self::NoSource => "no source is up".to_owned(),
            Self::NoBuilder => "no builder is up".to_owned(),
            Self::Sink(id) => format!("sink of builder {id}"),
            Self::Source(id) => format!("source {id}"),
            Self::Busy => "builders are busy".to_owned(),
        }
    }
}

impl SupervisorCore {
    /// Puts triggers that are inhibited now down to a cause.
    pub(super) fn put_down(&mut self, count: u64) {
        let cause = match self.phase {
            _ if self.paused => Cause::Paused,
            _ if self.stalled.is_some() => Cause::Journal,
            Phase::Recovering { .. } => Cause::Supervisor,
            _ if self.up.is_empty() => Cause::NoSource,
            _ if self.builders.iter().all(|seat| !seat.is_active()) => Cause::NoBuilder,
            _ => return self.dead_time.share(count),
        };
        self.dead_time.add(cause, count);
    }

    /// What a builder's slots are taken by.
    pub(super) fn handle_load(&mut self, index: usize, load: Load) {
        self.builders[index].load = load;
        let active = self.builders.iter().filter(|seat| seat.is_active());
        self.dead_time.culprits = active.filter_map(|seat| self.culprit(seat)).collect();
    }

    /// Who holds at least half of a builder's slots: its sink, or a source that is waited for at least twice as often as others
    /// are. Where all are waited for alike the network is full, and nobody is to blame.
    ///
    /// Whoever stands out at one builder is to blame for the dead time of all. Other builders have no free slot either, but they
    /// build as many events as they can, and would have had less to do.
    fn culprit(&self, seat: &BuilderSeat) -> Option<Cause> {
        let (load, half) = (seat.load, self.plan.slots.div_ceil(2).max(1));
        if load.at_sink >= half {
            return Some(Cause::Sink(seat.id));
        }
        let stands_out = load.slowest_events >= half && load.slowest_events / 2 >= load.others_events;
        let slowest = u16::try_from(load.slowest).ok().filter(|_| stands_out).map(SourceId::new);
        slowest.filter(|id| self.source_index(*id).is_some()).map(Cause::Source)
    }
}
