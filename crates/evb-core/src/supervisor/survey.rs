//! [`Survey`]: a look at everybody, for people who lead the run.

use serde::Serialize;

use super::{
    SupervisorCore,
    live::{BuilderLive, LatencySurvey, SourceLive},
    seats::BuilderSeat,
};
use crate::{
    ledger::{DeadTimeCause, EventCounts, fraction},
    live::Latencies,
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
    /// Trigger to last fragment so far, of all builders.
    pub latency_us: Option<LatencySurvey>,
    /// Payload that sinks accepted so far.
    pub payload_bytes: u64,
    /// The histogram of latencies, of all builders.
    #[serde(skip)]
    pub latencies: Latencies,
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
    /// How often its fragment was the last of an event.
    pub last: u64,
    /// By how much after the one before, in the mean, µs.
    pub last_by_us: f64,
    /// What it said of itself last.
    pub live: Option<SourceLive>,
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
    /// What it said of itself last.
    pub live: Option<BuilderLive>,
}

impl SupervisorCore {
    /// A look at everybody; costs more than [`progress`](Self::progress).
    pub fn survey(&self, now: Instant) -> Survey {
        let end = self.tally.drained.unwrap_or(now);
        let lateness = self.lateness();
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
            last: lateness[index].last,
            last_by_us: fraction(lateness[index].last_by_ns as f64 / 1e3, lateness[index].last as f64),
            live: seat.latest.as_ref().map(|latest| latest.survey(now)),
        });
        let members = self.builders.iter().filter(|seat| seat.is_member());
        let builders: Vec<_> = members.map(|seat| self.builder_survey(seat, now)).collect();
        let mut latencies = Latencies::new();
        builders
            .iter()
            .filter_map(|builder| builder.live.as_ref())
            .for_each(|live| latencies.add(&live.latencies));
        Survey {
            run: self.plan.run.number(),
            epoch: self.plan.epoch.number(),
            running_s: self.tally.started.map_or(0.0, |started| end.since(started).as_secs_f64()),
            events: self.event_counts(),
            outstanding: self.outstanding.len() as u64,
            dead_time: self.dead_time.causes(),
            latency_us: LatencySurvey::of(&latencies),
            payload_bytes: self.builders.iter().map(BuilderSeat::payload_so_far).fold(0, u64::saturating_add),
            latencies,
            sources: sources.collect(),
            builders,
        }
    }

    fn builder_survey(&self, seat: &BuilderSeat, now: Instant) -> BuilderSurvey {
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
            live: seat.latest.as_ref().map(|latest| latest.survey(now)),
        }
    }
}
