//! [`Survey`]: the state of all peers, for operators.

use serde::Serialize;

use super::{
    RunPlan,
    assigner::Assigner,
    books::Books,
    live::{BuilderLive, LatencySurvey, Lateness, Latest, SourceLive},
    roster::Roster,
    seats::BuilderSeat,
};
use crate::{
    id::SourceId,
    index::{BuilderIndex, Per, SourceIndex},
    ledger::{DeadTimeCause, EventCounts, fraction},
    live::Latencies,
    time::Instant,
};

/// The state of a run and all its peers.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Survey {
    /// The run number.
    pub run: u32,
    /// Its epoch.
    pub epoch: u64,
    /// Time since the run began, s; zero before.
    pub running_s: f64,
    /// Outcomes of the triggers so far.
    pub events: EventCounts,
    /// Events assigned and not settled.
    pub outstanding: u64,
    /// Inhibited triggers by their cause, the largest first.
    #[serde(rename = "dead_time_causes")]
    pub dead_time: Vec<DeadTimeCause>,
    /// Time from trigger to last fragment so far, at all builders.
    pub latency_us: Option<LatencySurvey>,
    /// Payload that sinks accepted so far.
    pub payload_bytes: u64,
    /// The histogram of latencies at all builders.
    #[serde(skip)]
    pub latencies: Latencies,
    /// Every source.
    pub sources: Vec<SourceSurvey>,
    /// Every builder.
    pub builders: Vec<BuilderSurvey>,
}

/// The presence of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Presence {
    /// The peer has not registered, or has left.
    Absent,
    /// The peer is registered, but its lanes are not all connected.
    Connecting,
    /// The peer takes part.
    Up,
    /// The peer is registered, but silent.
    Silent,
}

/// A source of the run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SourceSurvey {
    /// The source's id.
    pub id: u16,
    /// The source's presence.
    pub presence: Presence,
    /// The incarnation of its process, from 1; 0 if it never registered.
    pub incarnation: u32,
    /// Events that were closed without it.
    pub missing: u64,
    /// Events for which its fragment was the last.
    pub last: u64,
    /// Mean delay of these fragments behind the ones before, µs.
    pub last_by_us: f64,
    /// The source's latest interim report.
    pub live: Option<SourceLive>,
}

/// A builder of the run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BuilderSurvey {
    /// The builder's id.
    pub id: u16,
    /// The builder's presence.
    pub presence: Presence,
    /// The incarnation of its process, from 1; 0 if it never registered.
    pub incarnation: u32,
    /// The address at which sources reach it; empty before it has registered.
    pub listen: String,
    /// Its slots.
    pub slots: u32,
    /// Number of taken slots.
    pub outstanding: u64,
    /// Number of slots whose events wait for its sink, by its latest report.
    pub at_sink: u32,
    /// Events built with every expected source.
    pub complete: u64,
    /// Events built with sources missing.
    pub incomplete: u64,
    /// Events lost by it or with it.
    pub lost: u64,
    /// The builder's latest interim report.
    pub live: Option<BuilderLive>,
}

/// Returns the state of the run and all its peers.
pub(super) fn survey(
    plan: &RunPlan,
    roster: &Roster,
    assigner: &Assigner,
    books: &Books,
    now: Instant,
) -> Survey {
    let (times, lateness) = (books.times(), lateness(roster));
    let end = times.drained.unwrap_or(now);
    let source = |index: SourceIndex| {
        let (seat, Lateness { last, last_by_ns }) = (roster.source(index), lateness[index]);
        SourceSurvey {
            id: seat.id.number(),
            presence: match seat.connection {
                None => Presence::Absent,
                Some(_) if !seat.ready => Presence::Connecting,
                Some(_) if seat.down.is_some() || !roster.is_up(index) => Presence::Silent,
                Some(_) => Presence::Up,
            },
            incarnation: seat.incarnation,
            missing: books.missing(index),
            last,
            last_by_us: fraction(last_by_ns as f64 / 1e3, last as f64),
            live: seat.latest.as_ref().map(|latest| latest.survey(now)),
        }
    };
    let members = roster.builders().positions().filter(|index| roster.builder(*index).is_member());
    let builders: Vec<_> = members.map(|index| builder(index, plan, roster, books, now)).collect();
    let mut latencies = Latencies::new();
    builders
        .iter()
        .filter_map(|builder| builder.live.as_ref())
        .for_each(|live| latencies.add(&live.latencies));
    Survey {
        run: plan.run.number(),
        epoch: plan.epoch.number(),
        running_s: times.started.map_or(0.0, |started| end.since(started).as_secs_f64()),
        events: books.counts(),
        outstanding: assigner.outstanding(),
        dead_time: books.dead_time().causes(),
        latency_us: LatencySurvey::of(&latencies),
        payload_bytes: roster.builders().iter().map(BuilderSeat::payload_so_far).fold(0, u64::saturating_add),
        latencies,
        sources: roster.sources().positions().map(source).collect(),
        builders,
    }
}

fn builder(
    index: BuilderIndex,
    plan: &RunPlan,
    roster: &Roster,
    books: &Books,
    now: Instant,
) -> BuilderSurvey {
    let (seat, total) = (roster.builder(index), books.total(index));
    BuilderSurvey {
        id: seat.id.number(),
        presence: match seat.connection {
            None => Presence::Absent,
            Some(_) if seat.suspended => Presence::Silent,
            Some(_) => Presence::Up,
        },
        incarnation: seat.incarnation,
        listen: seat.listen.clone(),
        slots: plan.slots,
        outstanding: books.outstanding(index),
        at_sink: seat.load.at_sink,
        complete: total.complete,
        incomplete: total.incomplete,
        lost: total.all_lost(),
        live: seat.latest.as_ref().map(|latest| latest.survey(now)),
    }
}

/// Returns the lateness of each source, at all builders together.
fn lateness(roster: &Roster) -> Per<SourceIndex, Lateness> {
    let mut all: Per<_, Lateness> = roster.sources().iter().map(|_| Lateness::default()).collect();
    let lanes = roster.builders().iter().filter_map(|seat| seat.latest.as_ref());
    for lane in lanes.flat_map(Latest::lanes) {
        let id = u16::try_from(lane.source).ok().map(SourceId::new);
        if let Some(index) = id.and_then(|id| roster.source_index(id)) {
            all[index].last = all[index].last.saturating_add(lane.last);
            all[index].last_by_ns = all[index].last_by_ns.saturating_add(lane.last_by_ns);
        }
    }
    all
}
