//! Why triggers are inhibited: each one is put down to a cause, and the cause names a culprit where there is one.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use crate::{
    id::{BuilderId, SourceId},
    ledger::DeadTimeCause,
    wire::journal::Blame,
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
pub(super) struct Blames(BTreeMap<Cause, u64>);

impl Blames {
    fn add(&mut self, cause: Cause, count: u64) {
        *self.0.entry(cause).or_default() += count;
    }

    /// Returns them for the journal.
    pub(super) fn messages(&self) -> Vec<Blame> {
        self.0.iter().map(|(cause, count)| cause.blame(*count)).collect()
    }
}

/// All inhibited triggers of the run, and what further ones are put down to.
#[derive(Clone, Debug, Default)]
pub(super) struct DeadTime {
    inhibited: Blames,
    /// What they are put down to while all slots are taken, in equal parts: the cause of each builder that has one.
    culprits: Vec<Cause>,
    /// Whose turn it is to get what cannot be divided.
    turn: usize,
}

impl DeadTime {
    /// Sets what further triggers are put down to while all slots are taken.
    pub(super) fn set_culprits(&mut self, culprits: Vec<Cause>) {
        self.culprits = culprits;
    }

    /// Puts triggers down to a cause, [`Cause::Busy`] to those who stand out; what is to be written down is added to `fresh`.
    pub(super) fn add(&mut self, cause: Cause, count: u64, mut fresh: Option<&mut Blames>) {
        let mut add = |cause, count| {
            self.inhibited.add(cause, count);
            if let Some(fresh) = &mut fresh {
                fresh.add(cause, count);
            }
        };
        let sharers = self.culprits.len();
        if sharers == 0 || cause != Cause::Busy {
            return add(cause, count);
        }
        let (each, rest) = (count / sharers as u64, count % sharers as u64);
        for place in 0..sharers {
            let part = each + u64::from((place as u64) < rest);
            if part > 0 {
                add(self.culprits[(self.turn + place) % sharers], part);
            }
        }
        self.turn = (self.turn + rest as usize) % sharers;
    }

    /// Returns how many triggers were put down to something.
    pub(super) fn total(&self) -> u64 {
        self.inhibited.0.values().sum()
    }

    /// Returns all of it, for the journal.
    pub(super) fn blames(&self) -> Vec<Blame> {
        self.inhibited.messages()
    }

    /// Reads from the journal; what has no meaning there has none here.
    pub(super) fn recall(&mut self, blames: &[Blame]) {
        blames.iter().for_each(|blame| self.inhibited.add(Cause::of(blame), blame.inhibited));
    }

    /// For the report, the largest first.
    pub(super) fn causes(&self) -> Vec<DeadTimeCause> {
        let mut causes: Vec<_> = self.inhibited.0.iter().map(|(cause, count)| (*cause, *count)).collect();
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
