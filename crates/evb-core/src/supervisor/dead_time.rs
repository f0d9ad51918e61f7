//! The causes of dead time: each inhibited trigger is counted under a cause, which names the peer
//! at fault if there is one.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use crate::{
    id::{BuilderId, SourceId},
    ledger::DeadTimeCause,
    wire::journal::Blame,
};

/// The cause of an inhibited trigger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Cause {
    /// An operator paused the run.
    Paused,
    /// A restarted supervisor waited for its peers.
    Supervisor,
    /// The journal could not be written.
    Journal,
    /// No source was up.
    NoSource,
    /// No builder was active.
    NoBuilder,
    /// Complete events wait for this builder's sink.
    Sink(BuilderId),
    /// Builders wait for this source's fragments.
    Source(SourceId),
    /// All slots are taken, and no peer stands out.
    #[default]
    Busy,
}

/// Counts of inhibited triggers by their cause.
#[derive(Clone, Debug, Default)]
pub(super) struct Blames(BTreeMap<Cause, u64>);

impl Blames {
    fn add(&mut self, cause: Cause, count: u64) {
        *self.0.entry(cause).or_default() += count;
    }

    /// Returns the counts for the journal.
    pub(super) fn messages(&self) -> Vec<Blame> {
        self.0.iter().map(|(cause, count)| cause.blame(*count)).collect()
    }
}

/// All inhibited triggers of the run, and the causes of further ones.
#[derive(Clone, Debug, Default)]
pub(super) struct DeadTime {
    inhibited: Blames,
    /// The causes of triggers inhibited while all slots are taken, at most one for each builder;
    /// they share these triggers equally.
    culprits: Vec<Cause>,
    /// Position of the cause that gets the next trigger that cannot be divided.
    turn: usize,
}

impl DeadTime {
    /// Sets the causes that share the triggers inhibited while all slots are taken.
    pub(super) fn set_culprits(&mut self, culprits: Vec<Cause>) {
        self.culprits = culprits;
    }

    /// Counts triggers under a cause, or under the causes set for [`Cause::Busy`]. Adds to `fresh`
    /// what the journal still lacks.
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

    /// Returns the number of triggers that have a cause.
    pub(super) fn total(&self) -> u64 {
        self.inhibited.0.values().sum()
    }

    /// Returns all counts for the journal.
    pub(super) fn blames(&self) -> Vec<Blame> {
        self.inhibited.messages()
    }

    /// Takes counts from the journal; causes that this version does not know become
    /// [`Cause::Busy`].
    pub(super) fn recall(&mut self, blames: &[Blame]) {
        blames.iter().for_each(|blame| self.inhibited.add(Cause::of(blame), blame.inhibited));
    }

    /// Returns the causes for the report, the largest first.
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
