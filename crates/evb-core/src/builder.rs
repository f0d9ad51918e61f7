//! [`BuilderCore`]: fragments to events, and grants to sources.
//!
//! ```text
//!   supervisor: assignments, roster ──►┌─────────────┐──► Output::Event       to filter and sink
//!   lanes: announcements, data ───────►│ BuilderCore │──► Output::Lane        grants and commits to a source
//!   sink: written, rejected, failed ──►└─────────────┘──► Output::Supervisor  completions, heartbeats
//! ```

mod assembly;
mod clock;
mod lease;
mod counters;
mod unaccounted;
mod roster;
mod table;
mod later;
mod lanes;
mod segments;
mod datagrams;
mod rebase;
mod assigning;
mod load;

#[cfg(test)]
mod tests;

use core::time::Duration;
use std::collections::VecDeque;

pub use assembly::LARGE_FRAGMENT;
pub use counters::DatagramCounters;
pub use roster::RosterError;
pub use segments::Segments;

use assembly::{Assembly, Pool, State};
use assigning::exception_of;
use clock::PeerClock;
use counters::Counters;
use lanes::Lanes;
use lease::Lease;
use roster::Rosters;
use table::EventTable;
use unaccounted::Unaccounted;

use crate::{
    event::Event,
    grant::GrantPolicy,
    id::{BuilderId, Epoch, EventId, RunNumber, SourceId},
    live::ReportTimer,
    time::{Instant, earlier},
    undo,
    units::Bytes,
    wire::control::{
        Accepted, BuilderReport, Control, DatagramReport, Exception, Heartbeat, Report, control, exception,
        report,
    },
};

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
    Lane(usize),
    /// To the supervisor.
    Supervisor(Control),
}

/// The builder's machine. `P` decides when which source may send.
///
/// Law: after inputs that share one `now`, call `poll` until `None`.
#[derive(Debug)]
pub struct BuilderCore<P> {
    config: BuilderConfig,
    policy: P,
    lanes: Lanes,
    rosters: Rosters,
    table: EventTable,
    slots: Vec<Assembly>,
    free: Vec<usize>,
    pool: Pool,
    /// Slots whose event is over, in the order in which they ended.
    over: VecDeque<usize>,
    /// Deadlines in the order of time: of assignment, or of what put them off.
    deadlines: VecDeque<(Instant, EventId)>,
    /// The highest event id that was ever assigned to us: below it, what is not open is closed.
    highest: EventId,
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
    counters: Counters,
    spare_events: Vec<Event>,
    next_sweep: Instant,
    memory_peak: usize,
    /// What the small fragments of one event can take.
    arena_room: usize,
    /// Whether anything happened that may let the policy grant.
    grants_due: bool,
}

/// How often slots are looked through for events that nobody assigned, and memory is summed up.
const SWEEP: Duration = Duration::from_millis(100);

/// A builder whose last slot is taken says at once by what, but no more often than so many times within a heartbeat's time:
/// from then on triggers may be inhibited for it.
const FULL_HEARTBEATS: u32 = 5;

impl<P: GrantPolicy> BuilderCore<P> {
    /// A builder with empty slots. Every expected source is up until the supervisor says otherwise.
    pub fn new(config: BuilderConfig, policy: P, now: Instant) -> Self {
        let sources = config.sources.len();
        Self {
            lanes: Lanes::new(&config.max_fragment),
            rosters: Rosters::new(sources),
            table: EventTable::new(config.slots),
            slots: (0..config.slots).map(|_| Assembly::default()).collect(),
            free: (0..config.slots).rev().collect(),
            pool: Pool::new(sources, config.slots),
            over: VecDeque::new(),
            deadlines: VecDeque::new(),
            highest: EventId::default(),
            unaccounted: Unaccounted::default(),
            accepted: None,
            is_supervised: true,
            lease: Lease::new(config.lease),
            is_sink_open: true,
            clock: PeerClock::new(config.shared_clock),
            last_heartbeat: now,
            next_heartbeat: now,
            reports: ReportTimer::new(config.report_period, config.id.number(), now),
            counters: Counters::new(&config.sources),
            spare_events: Vec::new(),
            next_sweep: now,
            memory_peak: 0,
            arena_room: arena_room(&config),
            grants_due: false,
            config,
            policy,
        }
    }

    /// The most payload memory that the slots can take.
    pub fn memory_bound(config: &BuilderConfig) -> Bytes {
        slot_memory(config.max_fragment.iter().copied()) * config.slots as u64
    }

    /// A heartbeat of the supervisor's. One that answers one of ours renews the lease (docs/protocol.md RUN-31).
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
        let Some(slot) = self.table.slot(event.id) else { return };
        self.counters.last_commit = Some(now);
        self.counters.written += 1;
        self.counters.payload_bytes += event.payload_size().count();
        if event.is_complete() {
            self.counters.complete += 1;
            self.release(slot, event, None);
        } else {
            self.counters.incomplete += 1;
            let exception = exception_of(&event, exception::Outcome::Incomplete, "");
            self.release(slot, event, Some(exception));
        }
    }

    /// The filter rejected the event.
    pub fn handle_rejected(&mut self, event: Event, _now: Instant) {
        let Some(slot) = self.table.slot(event.id) else { return };
        self.counters.rejected += 1;
        let exception = exception_of(&event, exception::Outcome::Rejected, "");
        self.release(slot, event, Some(exception));
    }

    /// The sink failed to take the event: it is lost, and the ledger says why.
    pub fn handle_failed(&mut self, event: Event, cause: &str, _now: Instant) {
        let Some(slot) = self.table.slot(event.id) else { return };
        self.counters.lost += 1;
        let exception = exception_of(&event, exception::Outcome::Lost, cause);
        self.release(slot, event, Some(exception));
    }

    /// Time passed: deadlines, stalled lanes (docs/protocol.md LANE-15).
    pub fn handle_timeout(&mut self, now: Instant) {
        self.policy.handle_timeout(now);
        self.grants_due = true;
        self.expire_datagrams(now);
        self.expire_deadlines(now);
        if self.next_sweep <= now {
            self.next_sweep = now + SWEEP;
            self.evict_provisional(now);
            self.give_up_broken_lanes(now);
            let arenas: usize = self.slots.iter().map(Assembly::arena_capacity).sum();
            self.memory_peak = self.memory_peak.max(arenas + self.pool.peak);
        }
    }

    /// When `handle_timeout` or `poll` has something to do without further input.
    pub fn next_timeout(&self) -> Option<Instant> {
        let deadline = self.deadlines.front().map(|(deadline, _)| *deadline);
        let heartbeat =
            earlier(Some(self.next_heartbeat), self.reports.next()).filter(|_| self.is_supervised);
        let regular = earlier(heartbeat, Some(self.next_sweep));
        let lanes = earlier(self.lanes.say_at(), self.lanes.next_datagram());
        earlier(earlier(deadline, self.policy.next_timeout()), earlier(lanes, regular))
    }

    /// What is to be done next.
    pub fn poll(&mut self, now: Instant) -> Option<Output> {
        if self.is_sink_open
            && self.lease.holds(now)
            && let Some(slot) = self.over.pop_front()
        {
            return Some(Output::Event(self.take_event(slot)));
        }
        if core::mem::take(&mut self.grants_due) {
            while let Some(grant) = self.policy.poll(self.lanes.demands(), now) {
                self.lanes.grant(grant, now);
            }
        }
        if let Some(lane) = self.lanes.take_dirty(now) {
            return Some(Output::Lane(lane));
        }
        let message = self.is_supervised.then(|| self.next_message(now)).flatten()?;
        Some(Output::Supervisor(Control { message: Some(message) }))
    }

    /// Events that are open or with the sink.
    pub fn slots_used(&self) -> usize {
        self.config.slots - self.free.len()
    }

    /// Events that are over and not in the supervisor's ledger.
    pub fn unaccounted(&self) -> usize {
        self.unaccounted.len()
    }

    /// The policy, for its counters.
    pub fn policy(&self) -> &P {
        &self.policy
    }

    /// Checks what always holds, for tests, the simulator and fuzz targets.
    ///
    /// # Panics
    /// Where it does not hold: a defect of evb.
    pub fn invariants(&self) {
        for reception in &self.lanes.lanes {
            reception.lane.invariants();
            reception.datagrams.iter().for_each(|datagrams| datagrams.recovery.invariants());
        }
        let is_free = |slot: usize| self.slots[slot].state == State::Free;
        assert!(self.free.iter().all(|slot| is_free(*slot)), "{:?}", self.free);
        assert_eq!((0..self.slots.len()).filter(|slot| is_free(*slot)).count(), self.free.len());
        for (slot, assembly) in self.slots.iter().enumerate().filter(|(_, slot)| slot.state == State::Open) {
            assert_eq!(self.table.slot(assembly.event), Some(slot), "an open event is found: {assembly:?}");
        }
    }

    /// What is known of this builder.
    pub fn config(&self) -> &BuilderConfig {
        &self.config
    }

    /// Returns the lane offset up to which a source was granted.
    pub fn granted(&self, lane: usize) -> u64 {
        self.lanes.lanes[lane].lane.granted()
    }

    /// Counts a sample of the builder's write: from a grant to the end of the write that carries it.
    pub fn record_grant_write(&mut self, took: Duration) {
        self.counters.stages.write.record(took);
    }

    /// Counts a sample of the builder's wake-up: from the kernel's receipt of data to its read.
    pub fn record_data_wake(&mut self, took: Duration) {
        self.counters.stages.wake.record(took);
    }

    /// The final counters, for the supervisor.
    pub fn report(&self) -> Control {
        self.report_with(None)
    }

    /// The same of a builder whose lanes go by datagrams: with what their common socket has seen.
    pub fn report_with(&self, datagrams: Option<DatagramReport>) -> Control {
        let mut counters: BuilderReport = BuilderReport {
            datagrams,
            times: Some(self.datagram_times().report()),
            ..self.counters.report()
        };
        let granted = self.policy.counters();
        for (lane, stalls) in counters.lanes.iter_mut().zip(&granted.stalls) {
            lane.stalls = *stalls;
        }
        for (index, lane) in counters.lanes.iter_mut().enumerate() {
            self.datagram_counters(index).report(lane);
        }
        counters.grant_delay_us = granted.last_byte.pairs();
        counters.grant_first_byte_us = granted.first_byte.pairs();
        counters.memory_peak_bytes = self.memory_peak as u64;
        counters.clock_error_ns = u64::try_from(self.clock.error().as_nanos()).unwrap_or(u64::MAX);
        let report = Report { report: Some(report::Report::Builder(counters)), live: None };
        Control { message: Some(control::Message::Report(report)) }
    }

    /// The counters so far.
    fn report_so_far(&self, now: Instant) -> Report {
        let mut counters = self.counters.report_so_far();
        for (lane, stalls) in counters.lanes.iter_mut().zip(&self.policy.counters().stalls) {
            lane.stalls = *stalls;
        }
        counters.memory_peak_bytes = self.memory_peak as u64;
        let live = Some(self.counters.live(&self.load(), now));
        Report { report: Some(report::Report::Builder(counters)), live }
    }

    /// What the supervisor is to hear next.
    fn next_message(&mut self, now: Instant) -> Option<control::Message> {
        if let Some(answer) = self.accepted.take() {
            return Some(control::Message::Accepted(Accepted { answer }));
        }
        if let Some(completions) = self.unaccounted.next_message() {
            return Some(control::Message::Completions(completions));
        }
        if self.next_heartbeat > now {
            return self.reports.ring(now).then(|| control::Message::Report(self.report_so_far(now)));
        }
        self.last_heartbeat = now;
        self.next_heartbeat = now + self.config.heartbeat;
        let heartbeat = Heartbeat { load: Some(self.load()), ..self.clock.heartbeat(now) };
        Some(control::Message::Heartbeat(heartbeat))
    }

    fn open(&mut self, slot: usize, event: EventId, now: Instant) -> usize {
        self.slots[slot].open(event, self.config.sources.len(), self.arena_room, now);
        self.table.insert(event, slot);
        if self.free.is_empty() {
            let soon = self.last_heartbeat + self.config.heartbeat / FULL_HEARTBEATS;
            self.next_heartbeat = self.next_heartbeat.min(soon);
        }
        slot
    }

    fn finish_if_over(&mut self, slot: usize, now: Instant) {
        if !self.slots[slot].is_over() {
            if !undo::is_undone(undo::Fix::Cccd56c) {
                self.resume_deadline(slot, now);
            }
            return;
        }
        let assembly = &mut self.slots[slot];
        let triggered = assembly.assigned.map_or(now, |assigned| assigned.triggered);
        let missing = assembly.missing();
        for source in missing.iter() {
            self.counters.lanes[source].missing += 1;
        }
        if missing.is_empty() && !assembly.arrived.is_empty() {
            self.counters.record_latency(now.since(triggered).as_nanos() as u64);
            let arrivals = assembly.arrivals;
            let last = &mut self.counters.lanes[arrivals.last];
            last.last += 1;
            if arrivals.previous_at != Instant::ZERO {
                last.last_by_ns += arrivals.last_at.since(arrivals.previous_at).as_nanos() as u64;
            }
        }
        // What was announced and is not here: the bytes will be discarded when they come.
        for source in assembly.announced.without(&assembly.arrived).iter() {
            self.lanes.settle(source, assembly.parts[source].start);
        }
        assembly.state = State::Writing;
        self.over.push_back(slot);
    }

    fn take_event(&mut self, slot: usize) -> Event {
        let assembly = &mut self.slots[slot];
        let mut event = self.spare_events.pop().unwrap_or_default();
        event.id = assembly.event;
        event.run = self.config.run;
        event.epoch = assembly.assigned.map_or(self.config.epoch, |assigned| assigned.epoch);
        event.builder = self.config.id;
        event.triggered = assembly.assigned.map(|assigned| assigned.triggered).unwrap_or_default();
        event.missing.clear();
        event.missing.extend(assembly.missing().iter().map(|index| self.config.sources[index]));
        assembly.fill(&mut event, &self.config.sources, &mut self.pool);
        event
    }

    /// The sink is done with the event: its slot is free. Its sources may forget it when the ledger has it.
    fn release(&mut self, slot: usize, mut event: Event, exception: Option<Exception>) {
        let assembly = &mut self.slots[slot];
        let starts = assembly.arrived.iter().map(|source| (source, assembly.parts[source].start));
        match exception {
            None => self.unaccounted.complete(event.id, starts),
            Some(exception) => self.unaccounted.except(exception, starts),
        }
        assembly.recycle(&mut event, &self.config.sources, &mut self.pool);
        assembly.close();
        self.table.remove(event.id);
        self.free.push(slot);
        if self.spare_events.len() < self.config.slots {
            self.spare_events.push(event);
        }
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
