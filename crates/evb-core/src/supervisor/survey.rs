//! [`Survey`]: a look at everybody, for people who lead the run.

use serde::Serialize;

use super::{SupervisorCore, seats::BuilderSeat};
use crate::{
    ledger::{DeadTimeCause, EventCounts},
    time::Instant,
};

/// Who takes part, and how they are.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Survey {
    /// The run.
    pub run: u32,
    /// Its epoch.
    pub epoch: u64,
    /// Since the run began, s; zero before.
    pub running_s: f64,
    /// What became of the triggers so far.
    pub events: EventCounts,
    /// Assigned and not settled.
    pub outstanding: u64,
    /// Inhibited triggers by their cause, the largest first.
    #[serde(rename = "dead_time_causes")]
    pub dead_time: Vec<DeadTimeCause>,
    /// Every source.
    pub sources: Vec<SourceSurvey>,
    /// Every builder.
    pub builders: Vec<BuilderSurvey>,
}

/// Whether a peer is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Presence {
    /// It has not registered, or has left.
    Absent,
    /// It is registered; lanes are still to be connected.
    Connecting,
    /// It takes part.
    Up,
    /// It is registered and silent.
    Silent,
}

/// A source of the run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SourceSurvey {
    /// Its id.
    pub id: u16,
    /// Whether it is there.
    pub presence: Presence,
    /// Which life of its process this is, from 1; 0: it never registered.
    pub incarnation: u32,
    /// Events that were closed without it.
    pub missing: u64,
}

/// A builder of the run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BuilderSurvey {
    /// Its id.
    pub id: u16,
    /// Whether it is there.
    pub presence: Presence,
    /// Which life of its process this is, from 1; 0: it never registered.
    pub incarnation: u32,
    /// Where sources reach it; empty before it has registered.
    pub listen: String,
    /// Its slots.
    pub slots: u32,
    /// Of these, taken.
    pub outstanding: u64,
    /// Of these, by events that wait for its sink, as it said last.
    pub at_sink: u32,
    /// Built with every expected source.
    pub complete: u64,
    /// Built with sources missing.
    pub incomplete: u64,
    /// Lost by it or with it.
    pub lost: u64,
}

impl SupervisorCore {
    /// A look at everybody; costs more than [`progress`](Self::progress).
    pub fn survey(&self, now: Instant) -> Survey {
        let end = self.tally.drained.unwrap_or(now);
        let sources = self.sources.iter().enumerate().map(|(index, seat)| SourceSurvey {
            id: seat.id.number(),
            presence: match seat.connection {
                None => Presence::Absent,
                Some(_) if !seat.ready => Presence::Connecting,
                Some(_) if seat.down.is_some() || !self.up.contains(index) => Presence::Silent,
                Some(_) => Presence::Up,
            },
            incarnation: seat.incarnation,
            missing: seat.missing,
        });
        Survey {
            run: self.plan.run.number(),
            epoch: self.plan.epoch.number(),
            running_s: self.tally.started.map_or(0.0, |started| end.since(started).as_secs_f64()),
            events: self.event_counts(),
            outstanding: self.outstanding.len() as u64,
            dead_time: self.dead_time.causes(),
            sources: sources.collect(),
            builders: self
                .builders
                .iter()
                .filter(|seat| seat.is_member())
                .map(|seat| self.builder_survey(seat))
                .collect(),
        }
    }

    fn builder_survey(&self, seat: &BuilderSeat) -> BuilderSurvey {
        BuilderSurvey {
            id: seat.id.number(),
            presence: match seat.connection {
                None => Presence::Absent,
                Some(_) if seat.suspended => Presence::Silent,
                Some(_) => Presence::Up,
            },
            incarnation: seat.incarnation,
            listen: seat.listen.clone(),
            slots: self.plan.slots,
            outstanding: seat.tally.outstanding(),
            at_sink: seat.load.at_sink,
            complete: seat.total().complete,
            incomplete: seat.total().incomplete,
            lost: seat.total().lost + seat.total().lost_with_it,
        }
    }
}
