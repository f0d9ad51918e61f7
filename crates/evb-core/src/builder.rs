//! [`BuilderCore`]: fragments to events, and grants to sources.
//!
//! ```text
//!   supervisor: assignments, roster ──►┌─────────────┐──► Output::Event       to filter and sink
//!   lanes: announcements, data ───────►│ BuilderCore │──► Output::Lane        grants and commits to a source
//!   sink: written, rejected, failed ──►└─────────────┘──► Output::Supervisor  completions, heartbeats
//! ```

mod pool;
mod assembly;
mod clock;
mod lease;
mod counters;
mod latency;
mod unaccounted;
mod roster;
mod table;
mod load;
mod slots;
mod later;
mod segments;
mod reception;
mod lanes;
mod receiving;
mod assigning;

#[cfg(test)]
mod tests;

use core::time::Duration;

pub use assembly::LARGE_FRAGMENT;
pub use counters::DatagramCounters;
pub use roster::RosterError;
pub use segments::Segments;

use assigning::exception_of;
use clock::PeerClock;
use lanes::Lanes;
use lease::Lease;
use slots::Slots;
use unaccounted::Unaccounted;

use crate::{
    event::Event,
    grant::GrantPolicy,
    id::{BuilderId, Epoch, RunNumber, SourceId},
    index::{LaneIndex, SlotIndex},
    lane::StageTimes,
    live::ReportTimer,
    time::{Instant, earlier},
    undo::{self, Fix},
    units::Bytes,
    wire::control::{
        Accepted, BuilderReport, Control, DatagramReport, Heartbeat, Live, Load, Message, Outcome, Report,
        RoleReport,
    },
};

/// How often a sink that takes no events is tried.
pub const SINK_RETRY: Duration = Duration::from_millis(200);

/// What a builder has to know before the first event.
#[derive(Clone, Debug)]
pub struct BuilderConfig {
    /// Which builder.
    pub id: BuilderId,
    /// Which run.
    pub run: RunNumber,
    /// Which life of the run.
    pub epoch: Epoch,
    /// Events that may be open at once.
    pub slots: usize,
    /// How long an event waits, from its assignment, for sources that have announced nothing.
    pub deadline: Duration,
    /// How often the supervisor hears of us at least.
    pub heartbeat: Duration,
    /// How long events may be given to the sink after a heartbeat of ours that the supervisor answered; zero: for ever.
    pub lease: Duration,
    /// Whether the supervisor's clock is ours.
    pub shared_clock: bool,
    /// All sources of the run, ascending; a source's position is its index.
    pub sources: Vec<SourceId>,
    /// The largest payload of each source, in the same order.
    pub max_fragment: Vec<Bytes>,
    /// Time for which data of a lane over datagrams may wait in the builder's port: no timer takes it for lost before.
    pub queue: Duration,
    /// Interval of reports so far; zero: none.
    pub report_period: Duration,
}

/// What a builder wants done.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "it is rare, never kept, and boxed would cost an allocation each"
)]
pub enum Output {
    /// An event is over: filter it, write it, and say so by `handle_written`, `handle_rejected` or `handle_failed`.
    Event(Event),
    /// The lane of that source index has records to be sent: call [`BuilderCore::write_records`], or over datagrams
    /// [`BuilderCore::write_datagram`].
    Lane(LaneIndex),
    /// To the supervisor.
    Supervisor(Control),
}

/// The builder's machine. `P` decides when which source may send.
///
/// Law: after inputs that share one `now`, call `poll` until `None`.
#[derive(Debug)]
pub struct BuilderCore<P> {
    config: BuilderConfig,
    lanes: Lanes<P>,
    slots: Slots,
    unaccounted: Unaccounted,
    /// The latest assignments that asked for an answer, and have none.
    accepted: Option<u32>,
    /// Whether there is a connection to the supervisor.
    is_supervised: bool,
    lease: Lease,
    /// Whether the sink takes events.
    is_sink_open: bool,
    clock: PeerClock,
    last_heartbeat: Instant,
    next_heartbeat: Instant,
    reports: ReportTimer,
    counters: BuilderReport,
    last_commit: Option<Instant>,
    /// Its part of the way from a grant to its data.
    stages: StageTimes,
    next_sweep: Instant,
}

/// How often slots are looked through for events that nobody assigned, and memory is summed up.
const SWEEP: Duration = Duration::from_millis(100);

/// A builder whose last slot is taken says at once by what, but no more often than so many times within a heartbeat's time:
/// from then on triggers may be inhibited for it.
const FULL_HEARTBEATS: u32 = 5;

impl<P: GrantPolicy> BuilderCore<P> {
    /// A builder with empty slots. Every expected source is up until the supervisor says otherwise.
    pub fn new(config: BuilderConfig, policy: P, now: Instant) -> Self {
        Self {
            lanes: Lanes::new(&config, policy),
            slots: Slots::new(&config),
            unaccounted: Unaccounted::default(),
            accepted: None,
            is_supervised: true,
            lease: Lease::new(config.lease),
            is_sink_open: true,
            clock: PeerClock::new(config.shared_clock),
            last_heartbeat: now,
            next_heartbeat: now,
            reports: ReportTimer::new(config.report_period, config.id.number(), now),
            counters: BuilderReport::default(),
            last_commit: None,
            stages: StageTimes::default(),
            next_sweep: now,
            config,
        }
    }

    /// The most payload memory that the slots can take.
    pub fn memory_bound(config: &BuilderConfig) -> Bytes {
        slot_memory(config.max_fragment.iter().copied()) * config.slots as u64
    }

    /// A heartbeat of the supervisor's. One that answers one of ours renews the lease (docs/reference/protocol.md
    /// RUN-31).
    pub fn handle_heartbeat(&mut self, heartbeat: &Heartbeat, now: Instant) {
        self.clock.handle(heartbeat, now);
        if heartbeat.echo_ns != 0 {
            self.lease.renew(Instant::from_nanos(heartbeat.echo_ns).min(now));
        }
    }

    /// Whether events may go to the sink: not while it is busy with those of an earlier life. They wait in their slots.
    pub fn open_sink(&mut self, is_open: bool) {
        self.is_sink_open = is_open;
    }

    /// The sink accepted the event: its slot is free, and its sources may forget it when the ledger has it.
    pub fn handle_written(&mut self, event: Event, now: Instant) {
        let Some(slot) = self.slots.find(event.id) else { return };
        self.last_commit = Some(now);
        self.counters.written += 1;
        self.counters.payload_bytes += event.payload_size().count();
        let is_complete = event.is_complete();
        self.counters.complete += u64::from(is_complete);
        self.counters.incomplete += u64::from(!is_complete);
        self.release(slot, event, (!is_complete).then_some(Outcome::Incomplete), "");
    }

    /// The filter rejected the event.
    pub fn handle_rejected(&mut self, event: Event, _now: Instant) {
        let Some(slot) = self.slots.find(event.id) else { return };
        self.counters.rejected += 1;
        self.release(slot, event, Some(Outcome::Rejected), "");
    }

    /// The sink failed to take the event: it is lost, and the ledger says why.
    pub fn handle_failed(&mut self, event: Event, cause: &str, _now: Instant) {
        let Some(slot) = self.slots.find(event.id) else { return };
        self.counters.lost += 1;
        self.release(slot, event, Some(Outcome::Lost), cause);
    }

    /// Time passed: deadlines, stalled lanes (docs/reference/protocol.md LANE-15).
    pub fn handle_timeout(&mut self, now: Instant) {
        self.lanes.handle_timeout(now);
        self.slots.expire(now, |ended| self.lanes.note_end(ended));
        if self.next_sweep <= now {
            self.next_sweep = now + SWEEP;
            self.slots.evict_provisional(now, |evicted| self.lanes.note_eviction(evicted));
            self.give_up_broken_lanes(now);
            self.slots.sum_memory();
        }
    }

    /// When `handle_timeout` or `poll` has something to do without further input.
    pub fn next_timeout(&self) -> Option<Instant> {
        let heartbeat =
            earlier(Some(self.next_heartbeat), self.reports.next()).filter(|_| self.is_supervised);
        let regular = earlier(heartbeat, Some(self.next_sweep));
        earlier(earlier(self.slots.next_deadline(), self.lanes.next_timeout()), regular)
    }

    /// What is to be done next.
    pub fn poll(&mut self, now: Instant) -> Option<Output> {
        if self.is_sink_open
            && self.lease.holds(now)
            && let Some(event) = self.slots.take_event(&self.config)
        {
            return Some(Output::Event(event));
        }
        if let Some(lane) = self.lanes.poll(now) {
            return Some(Output::Lane(lane));
        }
        let message = self.is_supervised.then(|| self.next_message(now)).flatten()?;
        Some(Output::Supervisor(Control { message: Some(message) }))
    }

    /// Events that are open or with the sink.
    pub fn slots_used(&self) -> usize {
        self.slots.used()
    }

    /// Events that are over and not in the supervisor's ledger.
    pub fn unaccounted(&self) -> usize {
        self.unaccounted.len()
    }

    /// Whether all that came in on all lanes is committed and told.
    pub fn is_idle(&self) -> bool {
        self.slots.used() == 0 && self.unaccounted.is_empty() && self.lanes.is_idle()
    }

    /// The policy, for its counters.
    pub fn policy(&self) -> &P {
        self.lanes.policy()
    }

    /// Checks what always holds, for tests, the simulator and fuzz targets.
    ///
    /// # Panics
    /// Where it does not hold: a defect of evb.
    pub fn invariants(&self) {
        self.lanes.invariants();
        self.slots.invariants();
    }

    /// What is known of this builder.
    pub fn config(&self) -> &BuilderConfig {
        &self.config
    }

    /// Counts a sample of the builder's write: from a grant to the end of the write that carries it.
    pub fn record_grant_write(&mut self, took: Duration) {
        self.stages.write.record(took);
    }

    /// Counts a sample of the builder's wake-up: from the kernel's receipt of data to its read.
    pub fn record_data_wake(&mut self, took: Duration) {
        self.stages.wake.record(took);
    }

    /// The final counters, for the supervisor.
    pub fn report(&self) -> Control {
        self.report_with(None)
    }

    /// The same of a builder whose lanes go by datagrams: with what their common socket has seen.
    pub fn report_with(&self, datagrams: Option<DatagramReport>) -> Control {
        let granted = self.policy().counters();
        let mut counters = BuilderReport {
            datagrams,
            times: Some(self.lanes.datagram_times().report()),
            stages: self.stages.report(),
            lanes: self.lanes.reports(),
            grant_delay_us: granted.last_byte.pairs(),
            grant_first_byte_us: granted.first_byte.pairs(),
            clock_error_ns: u64::try_from(self.clock.error().as_nanos()).unwrap_or(u64::MAX),
            ..self.counters_so_far()
        };
        self.slots.latency().report(&mut counters);
        let report = Report { report: Some(RoleReport::Builder(counters)), live: None };
        Control { message: Some(Message::Report(report)) }
    }

    /// What costs little to say again and again; without that of the lanes.
    fn counters_so_far(&self) -> BuilderReport {
        BuilderReport {
            latency_max_us: self.slots.latency().max(),
            memory_peak_bytes: self.slots.memory_peak() as u64,
            ..self.counters.clone()
        }
    }

    /// The counters so far.
    fn report_so_far(&self, now: Instant) -> Report {
        let counters = BuilderReport { lanes: self.lanes.reports_so_far(), ..self.counters_so_far() };
        let load = self.load();
        let since_commit = self.last_commit.map_or(0, |last| now.since(last).as_nanos().max(1));
        let live = Live {
            building: load.building,
            at_sink: load.at_sink,
            since_commit_ns: u64::try_from(since_commit).unwrap_or(u64::MAX),
            latency: self.slots.latency().coarse().pairs(),
            ..Live::default()
        };
        Report { report: Some(RoleReport::Builder(counters)), live: Some(live) }
    }

    /// What the slots are taken by.
    fn load(&self) -> Load {
        self.slots.load(&self.config.sources)
    }

    /// What the supervisor is to hear next.
    fn next_message(&mut self, now: Instant) -> Option<Message> {
        if let Some(answer) = self.accepted.take() {
            return Some(Message::Accepted(Accepted { answer }));
        }
        if let Some(completions) = self.unaccounted.next_message() {
            return Some(Message::Completions(completions));
        }
        if self.next_heartbeat > now {
            return self.reports.ring(now).then(|| Message::Report(self.report_so_far(now)));
        }
        self.last_heartbeat = now;
        self.next_heartbeat = now + self.config.heartbeat;
        let heartbeat = Heartbeat { load: Some(self.load()), ..self.clock.heartbeat(now) };
        Some(Message::Heartbeat(heartbeat))
    }

    /// Where the last slot was taken just now, the supervisor soon hears by what.
    fn hasten_if_full(&mut self) {
        if self.slots.take_newly_full() {
            let soon = self.last_heartbeat + self.config.heartbeat / FULL_HEARTBEATS;
            self.next_heartbeat = self.next_heartbeat.min(soon);
        }
    }

    /// Waits no more for what was announced on lanes that have been broken for the deadline: their sources may still speak
    /// to the supervisor, and would hold every slot (docs/reference/protocol.md LANE-15).
    fn give_up_broken_lanes(&mut self, now: Instant) {
        if undo::is_undone(Fix::Ac5e2f5) {
            return;
        }
        for lane in LaneIndex::all(self.config.sources.len()) {
            let is_broken = self.lanes.lane(lane).is_broken(self.config.deadline, now);
            if is_broken && !self.slots.rosters().awaited().contains(lane.get()) {
                self.slots.give_up(lane.get(), now, |ended| self.lanes.note_end(ended));
            }
        }
    }

    /// The sink is done with the event: its slot is free. Its sources may forget it when the ledger has it. `outcome`: what is
    /// to be said of one that is not simply complete.
    fn release(&mut self, slot: SlotIndex, event: Event, outcome: Option<Outcome>, cause: &str) {
        let starts = self.slots.starts(slot);
        match outcome {
            None => self.unaccounted.complete(event.id, starts),
            Some(outcome) => self.unaccounted.except(exception_of(&event, outcome, cause), starts),
        }
        self.slots.release(slot, event, &self.config.sources);
    }
}

/// The most payload memory that a slot can take: Σ `max_fragment` of all sources, where one whose fragments may be large or small
/// counts [`LARGE_FRAGMENT`] more, for the small ones.
pub fn slot_memory(max_fragment: impl IntoIterator<Item = Bytes>) -> Bytes {
    let of_one = |limit: Bytes| match limit.as_usize() >= LARGE_FRAGMENT {
        true => limit + Bytes::new(LARGE_FRAGMENT as u64),
        false => limit,
    };
    max_fragment.into_iter().map(of_one).sum()
}

fn arena_room(config: &BuilderConfig) -> usize {
    config.max_fragment.iter().map(|limit| limit.as_usize().min(LARGE_FRAGMENT)).sum()
}
