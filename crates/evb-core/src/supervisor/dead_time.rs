//! Causes of dead time: each inhibited trigger is counted under a cause, which names the peer at
//! fault if there is one.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use super::{Group, TooFew, groups::Shortage};
use crate::{
    id::{BuilderId, SourceId},
    ledger::DeadTimeCause,
    wire::journal::Blame,
};

/// Cause for which a trigger was inhibited.
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
    /// No source had a readout that was connected.
    NoReadout,
    /// Too few sources of a group took part.
    TooFew(Shortage),
    /// No builder was active.
    NoBuilder,
    /// Complete events occupy the slots and wait for this builder's sink.
    Sink(BuilderId),
    /// Events occupy the slots and wait for this source's fragments.
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

    /// Returns the counts as messages for the journal.
    pub(super) fn messages(&self) -> Vec<Blame> {
        self.0.iter().map(|(cause, count)| cause.blame(*count)).collect()
    }
}

/// Counts of the run's inhibited triggers, and the causes to which the next ones will be
/// attributed.
#[derive(Clone, Debug, Default)]
pub(super) struct DeadTime {
    inhibited: Blames,
    /// Causes of dead time while all slots are taken, at most one per builder. Triggers that are
    /// inhibited while all slots are taken are divided equally among the causes.
    culprits: Vec<Cause>,
    /// Index in `culprits` of the cause that gets the next trigger when the number of triggers
    /// cannot be divided equally.
    turn: usize,
}

impl DeadTime {
    /// Sets the causes that share the triggers inhibited while all slots are taken.
    pub(super) fn set_culprits(&mut self, culprits: Vec<Cause>) {
        self.culprits = culprits;
    }

    /// Counts triggers under a cause; triggers under [`Cause::Busy`] are shared among the causes
    /// set by [`Self::set_culprits`]. Also adds the counts to `fresh`, for the next journal entry.
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
        // What cannot be shared evenly goes to the culprits in turn.
        let (each, rest) = (count / sharers as u64, count % sharers as u64);
        for place in 0..sharers {
            let part = each + u64::from((place as u64) < rest);
            if part > 0 {
                add(self.culprits[(self.turn + place) % sharers], part);
            }
        }
        self.turn = (self.turn + rest as usize) % sharers;
    }

    /// Returns the number of triggers that are counted under a cause.
    pub(super) fn total(&self) -> u64 {
        self.inhibited.0.values().sum()
    }

    /// Returns all counts for the journal.
    pub(super) fn blames(&self) -> Vec<Blame> {
        self.inhibited.messages()
    }

    /// Adds counts from the journal. Causes that this version of evb does not know become
    /// [`Cause::Busy`].
    pub(super) fn recall(&mut self, blames: &[Blame]) {
        blames.iter().for_each(|blame| self.inhibited.add(Cause::of(blame), blame.inhibited));
    }

    /// Returns the causes for the report, in descending order of their counts.
    pub(super) fn causes(&self, groups: &[Group]) -> Vec<DeadTimeCause> {
        let mut causes: Vec<_> = self.inhibited.0.iter().map(|(cause, count)| (*cause, *count)).collect();
        causes.sort_by_key(|(_, inhibited)| core::cmp::Reverse(*inhibited));
        causes
            .into_iter()
            .map(|(cause, inhibited)| DeadTimeCause { cause: cause.words(groups), inhibited })
            .collect()
    }
}

impl Cause {
    /// Returns this cause with its number of inhibited triggers, as the journal and messages have
    /// it.
    fn blame(self, inhibited: u64) -> Blame {
        let (cause, id) = match self {
            Self::Busy => (0, 0),
            Self::Paused => (1, 0),
            Self::Supervisor => (2, 0),
            Self::NoSource => (3, 0),
            Self::NoBuilder => (4, 0),
            Self::Sink(id) => (5, id.number().into()),
            Self::Source(id) => (6, id.number().into()),
            Self::Journal => (7, 0),
            Self::NoReadout => (8, 0),
            Self::TooFew(Shortage { group, present }) => (9, u32::from(group) << 16 | u32::from(present)),
        };
        Blame { cause, id, inhibited }
    }

    /// Returns the cause that [`Self::blame`] has written. An unknown number counts as busy
    /// builders.
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
            8 => Self::NoReadout,
            9 => Self::TooFew(Shortage { group: (blame.id >> 16) as u16, present: blame.id as u16 }),
            _ => Self::Busy,
        }
    }

    /// Describes the cause for people, with the names of the groups.
    fn words(self, groups: &[Group]) -> String {
        match self {
            Self::Paused => "paused".to_owned(),
            Self::Supervisor => "the supervisor was restarted".to_owned(),
            Self::Journal => "the supervisor waits for the disk of its journal".to_owned(),
            Self::NoSource => "no source is up".to_owned(),
            Self::NoReadout => "no readout".to_owned(),
            Self::TooFew(shortage) => match shortage.named(groups) {
                Some(TooFew { group, present, at_least }) => {
                    format!("at_least {group}: {present} of {at_least}")
                }
                None => "too few sources of a group that is no longer in the configuration".to_owned(),
            },
            Self::NoBuilder => "no builder is up".to_owned(),
            Self::Sink(id) => format!("sink of builder {id}"),
            Self::Source(id) => format!("source {id}"),
            Self::Busy => "builders are busy".to_owned(),
        }
    }
}
