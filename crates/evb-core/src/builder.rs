//! [`BuilderCore`]: fragments to events, and grants to sources.
//!
//! ```text
//!   supervisor: assignments, roster ──►┌─────────────┐──► Output::Event       to filter and sink
//!   lanes: announcements, data ───────►│ BuilderCore │──► Output::Lane        grants and commits to a source
//!   sink: written, rejected, failed ──►└─────────────┘──► Output::Supervisor  completions, heartbeats
//! ```

mod assembly;
mod clock;
mod counters;
mod lanes;
mod datagrams;
mod roster;
mod table;

#[cfg(test)]
mod tests;

use core::time::Duration;
use std::collections::VecDeque;

pub use assembly::LARGE_FRAGMENT;
pub use counters::DatagramCounters;
pub use roster::RosterError;

use assembly::{Assembly, Pool, State};
use clock::PeerClock;
use counters::Counters;
use lanes::Lanes;
use roster::Rosters;
use table::EventTable;

use crate::{
    event::Event,
    grant::GrantPolicy,
    id::{BuilderId, Epoch, EventId, RunNumber, SourceId},
    set::SourceSet,
    time::{Instant, earlier},
    units::Bytes,
    wire::control::{
        Assignments, BuilderReport, Completions, Control, DatagramReport, Exception, Heartbeat, MAX_CAUSE,
        MAX_EXCEPTIONS, Report, control, exception, report,
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
    /// Whether the supervisor's clock is ours.
    pub shared_clock: bool,
    /// All sources of the run, ascending; a source's position is its index.
    pub sources: Vec<SourceId>,
    /// The largest payload of each source, in the same order.
    pub max_fragment: Vec<Bytes>,
}

/// What a builder wants done.
#[derive(Debug)]
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
    /// Deadlines in the order of assignment, which is their order in time.
    deadlines: VecDeque<(Instant, EventId)>,
    /// The highest event id that was ever assigned to us: below it, what is not open is closed.
    highest: EventId,
    completions: Completions,
    last_completion: EventId,
    clock: PeerClock,
    next_heartbeat: Instant,
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
            completions: Completions::default(),
            last_completion: EventId::default(),
            clock: PeerClock::new(config.shared_clock),
            next_heartbeat: now,
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

    /// The most payload memory that the slots can take: `slots × Σ max_fragment`, where a source whose fragments may be
    /// large or small counts [`LARGE_FRAGMENT`] more, for the small ones.
    pub fn memory_bound(config: &BuilderConfig) -> Bytes {
        let large = |limit: &&Bytes| limit.as_usize() >= LARGE_FRAGMENT;
        let large = config.max_fragment.iter().filter(large).copied().sum::<Bytes>();
        (large + Bytes::new(arena_room(config) as u64)) * config.slots as u64
    }

    /// The supervisor assigned events to us.
    pub fn handle_assignments(&mut self, assignments: &Assignments, now: Instant) -> Result<(), RosterError> {
        let events = assignments.events()?;
        let (count, slots) = (events.len(), self.config.slots);
        if count > slots {
            return Err(RosterError::BeyondSlots { count, slots });
        }
        let expected = self.rosters.expected(assignments.roster_version)?;
        for (event, triggered_ns) in events {
            self.assign(event, self.clock.ours(triggered_ns), expected, now);
        }
        Ok(())
    }

    /// The supervisor published a roster: which sources are up from that version on.
    pub fn handle_roster(&mut self, version: u32, up: SourceSet, now: Instant) {
        let down = self.rosters.publish(version, up);
        if down.is_empty() {
            return;
        }
        for slot in 0..self.slots.len() {
            if self.slots[slot].state == State::Open && self.slots[slot].assigned.is_some() {
                let lost = down.without(&self.slots[slot].arrived);
                self.slots[slot].given_up = self.slots[slot].given_up.union(&lost);
                self.finish_if_over(slot, now);
            }
        }
    }

    /// A heartbeat of the supervisor's.
    pub fn handle_heartbeat(&mut self, heartbeat: &Heartbeat, now: Instant) {
        self.clock.handle(heartbeat, now);
    }

    /// The sink accepted the event: its slot is free, its sources may forget it.
    pub fn handle_written(&mut self, event: Event, _now: Instant) {
        self.counters.written += 1;
        self.counters.payload_bytes += event.payload_size().count();
        if event.is_complete() {
            self.counters.complete += 1;
            self.completions.add(&mut self.last_completion, event.id);
        } else {
            self.counters.incomplete += 1;
            self.except(&event, exception::Outcome::Incomplete, String::new());
        }
        self.release(event);
    }

    /// The filter rejected the event.
    pub fn handle_rejected(&mut self, event: Event, _now: Instant) {
        self.counters.rejected += 1;
        self.except(&event, exception::Outcome::Rejected, String::new());
        self.release(event);
    }

    /// The sink failed to take the event: it is lost, and the ledger says why.
    pub fn handle_failed(&mut self, event: Event, cause: String, _now: Instant) {
        self.counters.lost += 1;
        self.except(&event, exception::Outcome::Lost, cause);
        self.release(event);
    }

    /// Time passed: deadlines, stalled lanes (docs/protocol.md LANE-15).
    pub fn handle_timeout(&mut self, now: Instant) {
        self.policy.handle_timeout(now);
        self.grants_due = true;
        self.expire_datagrams(now);
        while let Some((deadline, event)) = self.deadlines.front().copied() {
            if deadline > now {
                break;
            }
            self.deadlines.pop_front();
            let Some(slot) = self.table.slot(event) else { continue };
            let assembly = &mut self.slots[slot];
            if let (State::Open, Some((_, expected))) = (assembly.state, assembly.assigned) {
                let silent = expected.without(&assembly.announced);
                assembly.given_up = assembly.given_up.union(&silent);
                self.finish_if_over(slot, now);
            }
        }
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
        let regular = Some(self.next_heartbeat.min(self.next_sweep));
        let lanes = earlier(self.lanes.commit_at(), self.lanes.next_datagram());
        earlier(earlier(deadline, self.policy.next_timeout()), earlier(lanes, regular))
    }

    /// What is to be done next.
    pub fn poll(&mut self, now: Instant) -> Option<Output> {
        if let Some(slot) = self.over.pop_front() {
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
        let message = if !self.completions.complete.is_empty() || !self.completions.exceptions.is_empty() {
            self.last_completion = EventId::default();
            let mut message = core::mem::take(&mut self.completions);
            let rest = message.exceptions.len().min(MAX_EXCEPTIONS);
            self.completions.exceptions = message.exceptions.split_off(rest);
            control::Message::Completions(message)
        } else if self.next_heartbeat <= now {
            self.next_heartbeat = now + self.config.heartbeat;
            control::Message::Heartbeat(self.clock.heartbeat(now))
        } else {
            return None;
        };
        Some(Output::Supervisor(Control { message: Some(message) }))
    }

    /// Events that are open or with the sink.
    pub fn slots_used(&self) -> usize {
        self.config.slots - self.free.len()
    }

    /// The policy, for its counters.
    pub fn policy(&self) -> &P {
        &self.policy
    }

    /// What is known of this builder.
    pub fn config(&self) -> &BuilderConfig {
        &self.config
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
        let mean_delay = granted.grant_delay.as_micros() as u64 / granted.grants.max(1);
        counters.grant_delay_us = vec![mean_delay, granted.grants];
        counters.memory_peak_bytes = self.memory_peak as u64;
        counters.clock_error_ns = u64::try_from(self.clock.error().as_nanos()).unwrap_or(u64::MAX);
        let report = Report { report: Some(report::Report::Builder(counters)) };
        Control { message: Some(control::Message::Report(report)) }
    }

    fn assign(&mut self, event: EventId, triggered: Instant, expected: SourceSet, now: Instant) {
        self.highest = self.highest.max(event);
        let slot = match self.table.slot(event) {
            Some(slot) if self.slots[slot].assigned.is_none() => slot,
            Some(_) => return,
            None => match self.free.pop().or_else(|| self.evict_one(now)) {
                Some(slot) => self.open(slot, event, now),
                None => {
                    let cause = "assigned while no slot was free".to_owned();
                    self.counters.lost += 1;
                    self.except(&Event { id: event, ..Event::default() }, exception::Outcome::Lost, cause);
                    return;
                }
            },
        };
        let assembly = &mut self.slots[slot];
        assembly.assigned = Some((triggered, expected));
        let gone = expected.without(&self.rosters.up()).without(&assembly.arrived);
        // A fragment that came damaged before the assignment was given up then.
        assembly.given_up = assembly.given_up.union(&gone);
        self.deadlines.push_back((now + self.config.deadline, event));
        if self.deadlines.len() > 2 * self.config.slots {
            let (table, slots) = (&self.table, &self.slots);
            let is_open = |event| table.slot(event).is_some_and(|slot| slots[slot].state == State::Open);
            self.deadlines.retain(|(_, event)| is_open(*event));
        }
        self.finish_if_over(slot, now);
    }

    fn open(&mut self, slot: usize, event: EventId, now: Instant) -> usize {
        self.slots[slot].open(event, self.config.sources.len(), self.arena_room, now);
        self.table.insert(event, slot);
        slot
    }

    fn finish_if_over(&mut self, slot: usize, now: Instant) {
        if !self.slots[slot].is_over() {
            return;
        }
        let assembly = &mut self.slots[slot];
        let triggered = assembly.assigned.map_or(now, |(triggered, _)| triggered);
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
        event.epoch = self.config.epoch;
        event.builder = self.config.id;
        event.triggered = assembly.assigned.map(|(triggered, _)| triggered).unwrap_or_default();
        event.missing.clear();
        event.missing.extend(assembly.missing().iter().map(|index| self.config.sources[index]));
        assembly.fill(&mut event, &self.config.sources, &mut self.pool);
        event
    }

    /// The event is accounted for: its sources may forget it, its slot is free.
    fn release(&mut self, mut event: Event) {
        let Some(slot) = self.table.slot(event.id) else { return };
        let assembly = &mut self.slots[slot];
        for source in assembly.arrived.iter() {
            self.lanes.settle(source, assembly.parts[source].start);
        }
        assembly.recycle(&mut event, &self.config.sources, &mut self.pool);
        assembly.close();
        self.table.remove(event.id);
        self.free.push(slot);
        if self.spare_events.len() < self.config.slots {
            self.spare_events.push(event);
        }
    }

    fn except(&mut self, event: &Event, outcome: exception::Outcome, cause: String) {
        let missing = event.missing.iter().map(|source| source.number().into()).collect();
        let outcome = outcome.into();
        let cause = cause.chars().take(MAX_CAUSE).collect();
        self.completions.exceptions.push(Exception { event: event.id.number(), outcome, missing, cause });
    }
}

fn arena_room(config: &BuilderConfig) -> usize {
    config.max_fragment.iter().map(|limit| limit.as_usize().min(LARGE_FRAGMENT)).sum()
}
