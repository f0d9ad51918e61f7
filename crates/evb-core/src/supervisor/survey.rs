//! [`Survey`]: the state of a run and of all its peers, for operators.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{
    RunPlan, SupervisorCore,
    alignment::AlignmentSurvey,
    books::Books,
    lanes::LastFragments,
    live::{BuilderLive, LatencySurvey, Latest, SourceLive},
    roster::Roster,
    seats::BuilderSeat,
};
use crate::{
    event::Cause,
    id::{BuilderId, Peer, RunId, SourceId},
    index::{BuilderIndex, Per, SourceIndex},
    ledger::{DeadTimeCause, EventCounts, fraction},
    live::Latencies,
    time::Instant,
    trigger::numbers::AnnouncementCounts,
    wire::control::ReadoutStatus,
};

/// State of a run and of all its peers.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Survey {
    /// Run number.
    pub run: u32,
    /// Id of the run.
    pub run_id: RunId,
    /// Epoch of the run.
    pub epoch: u64,
    /// Time since the run began, in seconds; zero before it began.
    pub running_s: f64,
    /// Outcomes of the triggers so far.
    pub events: EventCounts,
    /// Counts of trigger announcements that did not simply announce the next trigger.
    pub triggers: AnnouncementCounts,
    /// Events that are assigned and not settled.
    pub outstanding: u64,
    /// Counts of inhibited triggers by cause, in descending order.
    #[serde(rename = "dead_time_causes")]
    pub dead_time: Vec<DeadTimeCause>,
    /// Percentiles of the time from an event's trigger to its last fragment, over all builders so
    /// far.
    pub latency_us: Option<LatencySurvey>,
    /// Payload bytes that sinks have accepted so far.
    pub payload_bytes: u64,
    /// Histogram of the times from an event's trigger to its last fragment, over all builders.
    #[serde(skip)]
    pub latencies: Latencies,
    /// State of every source.
    pub sources: Vec<SourceSurvey>,
    /// State of every builder.
    pub builders: Vec<BuilderSurvey>,
    /// State of every group of sources.
    pub groups: Vec<GroupSurvey>,
    /// While the run begins: the names of those that have not prepared for it yet.
    #[serde(skip)]
    pub preparing: Vec<String>,
}

/// State of a group of sources.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GroupSurvey {
    /// Name of the group.
    pub name: String,
    /// Ids of its sources.
    pub sources: Vec<u16>,
    /// Least number of sources with which the run takes triggers.
    pub at_least: u32,
    /// Number of sources that take part in the run.
    pub present: u32,
}

/// The presence of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Presence {
    /// The peer has not registered, or has left.
    Absent,
    /// The peer is registered, but its lanes are not all connected.
    Connecting,
    /// The peer takes part in the run.
    Up,
    /// The peer is registered, but sends no messages.
    Silent,
    /// The source takes part in the run, but its readout is silent or gone: events do not expect
    /// its fragments, unless the run waits for every source.
    #[serde(rename = "no readout")]
    NoReadout,
}

/// State of a source of the run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SourceSurvey {
    /// Id of the source.
    pub id: u16,
    /// Name of the source; empty if it has none.
    pub name: String,
    /// Presence of the source.
    pub presence: Presence,
    /// Reason why the source is absent; empty if not known.
    pub parting: String,
    /// Connections of the source's front ends; `None` if it has none.
    pub front_ends: Option<FrontEndSurvey>,
    /// Incarnation of the source's process, from 1; 0 if the source has never registered.
    pub incarnation: u32,
    /// Incomplete events without a fragment of the source.
    pub missing: u64,
    /// The number of these events by the cause for which the fragment is missing.
    pub missing_by_cause: BTreeMap<Cause, u64>,
    /// Complete events without a fragment of the source, which did not owe one.
    pub absent: u64,
    /// True if events are complete without the source.
    pub expendable: bool,
    /// True if the source sends fragments of some events only, and owes none.
    pub sporadic: bool,
    /// The operator's reason why the source owes no fragments now; `None` if it is not excluded.
    pub exclusion: Option<String>,
    /// Events to which the source contributed the last fragment.
    pub last: u64,
    /// Mean delay of these last fragments behind the event's previous fragment, µs.
    pub last_by_us: f64,
    /// Agreement of the timestamps with those of other sources; `None` if they are not compared.
    pub alignment: Option<AlignmentSurvey>,
    /// Latest interim report of the source.
    pub live: Option<SourceLive>,
}

/// Number of front ends that are connected to a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct FrontEndSurvey {
    /// Number of front ends that should be connected; 0 if they may come and go.
    pub expected: u32,
    /// Number of front ends that are connected.
    pub connected: u32,
}

impl FrontEndSurvey {
    fn of(status: ReadoutStatus) -> Option<Self> {
        let ReadoutStatus { expected, connected, .. } = status;
        (expected > 0 || connected > 0).then_some(Self { expected, connected })
    }
}

impl core::fmt::Display for FrontEndSurvey {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self.expected {
            0 => write!(f, "{}", self.connected),
            expected => write!(f, "{} of {expected}", self.connected),
        }
    }
}

/// State of a builder of the run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BuilderSurvey {
    /// Id of the builder.
    pub id: u16,
    /// Name of the builder; empty if it has none.
    pub name: String,
    /// Presence of the builder.
    pub presence: Presence,
    /// Reason why the builder is absent; empty if not known.
    pub parting: String,
    /// Incarnation of the builder's process, from 1; 0 if the builder has never registered.
    pub incarnation: u32,
    /// Address at which sources reach the builder; empty before the builder has registered.
    pub listen: String,
    /// Address at which onlookers get the builder's events; empty if it has no tap.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub tap: String,
    /// Number of the builder's slots.
    pub slots: u32,
    /// Number of slots that are taken.
    pub outstanding: u64,
    /// Number of slots whose events wait for the builder's sink, according to its latest heartbeat.
    pub at_sink: u32,
    /// Events that the builder built with a fragment of every source that owes one.
    pub complete: u64,
    /// Events that the builder built with sources missing.
    pub incomplete: u64,
    /// Events that the builder reported as lost, or that were lost when it died.
    pub lost: u64,
    /// Latest interim report of the builder.
    pub live: Option<BuilderLive>,
}

impl SourceSurvey {
    /// Returns the source with its name, if it has one: `source 3 (TPC crate 1)`.
    pub fn named(&self) -> String {
        Peer::Source(SourceId::new(self.id)).named(&self.name)
    }
}

impl BuilderSurvey {
    /// Returns the builder with its name, if it has one: `builder 2 (left rack)`.
    pub fn named(&self) -> String {
        Peer::Builder(BuilderId::new(self.id)).named(&self.name)
    }
}

/// Returns the state of the run and of all its peers.
pub(super) fn survey(core: &SupervisorCore, now: Instant) -> Survey {
    let SupervisorCore { plan, roster, assigner, books, .. } = core;
    let (times, lateness) = (books.times(), lateness(roster));
    let end = times.drained.unwrap_or(now);
    let source = |index: SourceIndex| {
        let (seat, LastFragments { last, last_by_ns }) = (roster.source(index), lateness[index]);
        SourceSurvey {
            id: seat.id.number(),
            name: plan.name_of(Peer::Source(seat.id)).to_owned(),
            presence: match seat.connection {
                None => Presence::Absent,
                Some(_) if !seat.ready => Presence::Connecting,
                Some(_) if seat.down.is_some() || !roster.is_up(index) => Presence::Silent,
                Some(_) if roster.readouts().is_quiet(index) => Presence::NoReadout,
                Some(_) => Presence::Up,
            },
            parting: seat.parting.clone(),
            front_ends: FrontEndSurvey::of(seat.readout),
            incarnation: seat.incarnation,
            missing: books.missing(index),
            missing_by_cause: books.missing_by_cause(index).clone(),
            absent: books.absent_by_cause(index).values().sum(),
            expendable: roster.owing().is_expendable(index),
            sporadic: roster.owing().is_sporadic(index),
            exclusion: roster
                .owing()
                .is_excluded(index)
                .then(|| books.findings().reason_of_exclusion(seat.id)),
            last,
            last_by_us: fraction(last_by_ns as f64 / 1e3, last as f64),
            alignment: core.watch.as_ref().and_then(|watch| watch.survey(seat.id)),
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
    let unprepared = core.phase.is_beginning().then(|| roster.waits_for_begun());
    let preparing = unprepared.unwrap_or_default().into_iter().map(|peer| plan.named(peer));
    let preparing = preparing
        .chain(
            (core.phase.is_beginning() && core.permission.is_awaited)
                .then(|| "the hook run_starts".to_owned()),
        )
        .collect();
    Survey {
        preparing,
        run: plan.run.number(),
        run_id: plan.run_id,
        epoch: plan.epoch.number(),
        running_s: times.started.map_or(0.0, |started| end.since(started).as_secs_f64()),
        events: books.counts(),
        triggers: core.intake.numbers.counts(),
        outstanding: assigner.outstanding(),
        dead_time: books.dead_time().causes(&plan.groups),
        latency_us: LatencySurvey::of(&latencies),
        payload_bytes: roster.builders().iter().map(BuilderSeat::payload_so_far).fold(0, u64::saturating_add),
        latencies,
        sources: roster.sources().positions().map(source).collect(),
        builders,
        groups: Vec::new(),
    }
}

/// Returns the state and the counts of a builder for the status.
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
        name: plan.name_of(Peer::Builder(seat.id)).to_owned(),
        presence: match seat.connection {
            None => Presence::Absent,
            Some(_) if seat.suspended => Presence::Silent,
            Some(_) => Presence::Up,
        },
        parting: seat.parting.clone(),
        incarnation: seat.incarnation,
        listen: seat.listen.clone(),
        tap: seat.tap.clone(),
        slots: plan.slots,
        outstanding: books.outstanding(index),
        at_sink: seat.load.at_sink,
        complete: total.complete,
        incomplete: total.incomplete,
        lost: total.all_lost(),
        live: seat.latest.as_ref().map(|latest| latest.survey(now)),
    }
}

/// Returns for each source how often and by how much it was last, summed over all builders.
fn lateness(roster: &Roster) -> Per<SourceIndex, LastFragments> {
    let mut all: Per<_, LastFragments> = roster.sources().iter().map(|_| LastFragments::default()).collect();
    let lanes = roster.builders().iter().filter_map(|seat| seat.latest.as_ref());
    for (index, lane) in lanes.flat_map(Latest::lateness) {
        let sum = &mut all[*index];
        sum.last = sum.last.saturating_add(lane.last);
        sum.last_by_ns = sum.last_by_ns.saturating_add(lane.last_by_ns);
    }
    all
}
