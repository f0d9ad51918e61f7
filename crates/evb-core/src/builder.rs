//! [`BuilderCore`]: builds events from fragments, and grants bytes to sources.
//!
//! ```text
//! supervisor: assignments, roster ──►┌─────────────┐──► Output::Event      for filter and sink
//! lanes: announcements, data ───────►│ BuilderCore │──► Output::Lane       grants and commits
//! sink: written, rejected, failed ──►└─────────────┘──► Output::Supervisor completions, heartbeats
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
mod alignment;
mod refusals;
mod slots;
mod delayed_lanes;
mod segments;
mod reception;
mod interim;
mod lanes;
mod receiving;
mod stream_reader;
mod datagram_ends;
mod assigning;

#[cfg(test)]
mod tests;

use core::time::Duration;

pub use assembly::LARGE_FRAGMENT;
pub use counters::DatagramCounters;
pub use datagram_ends::{DatagramEnds, Noted};
pub use roster::{RosterError, Standing};
pub use segments::Segments;
pub use stream_reader::{ReadTarget, StreamReader};

pub(crate) use alignment::EventGuard;
use assigning::exception_of;
use clock::PeerClock;
use lanes::Lanes;
use lease::Lease;
use slots::Slots;
use unaccounted::Unaccounted;

use crate::{
    alignment::GuardedClocks,
    event::Event,
    grant::GrantPolicy,
    id::{BuilderId, Epoch, EventId, RunId, RunNumber, SourceId},
    index::{LaneIndex, SlotIndex},
    lane::StageTimes,
    live::{FEW_HEARTBEATS, ReportTimer, nanos_since, on_grid},
    set::SourceSet,
    time::{Instant, earlier},
    units::Bytes,
    wire::control::{
        Accepted, Begin, BuilderReport, Control, DatagramReport, Heartbeat, Live, Load, Message, Outcome,
        Report, RoleReport,
    },
};

/// Interval at which the builder retries a sink that takes no events.
pub const SINK_RETRY: Duration = Duration::from_millis(200);

/// Configuration of a builder, fixed before the first event.
#[derive(Clone, Debug)]
pub struct BuilderCoreConfig {
    /// Id of the builder.
    pub id: BuilderId,
    /// Id of the run that the builder belongs to.
    pub run_id: RunId,
    /// Number of the run that the builder belongs to.
    pub run: RunNumber,
    /// Epoch of the run that the builder belongs to.
    pub epoch: Epoch,
    /// Most events that may be open in the builder or with its sink at once.
    pub slots: usize,
    /// Time, from its assignment, for which an event waits for sources that have announced nothing.
    pub deadline: Duration,
    /// Longest time between two heartbeats to the supervisor.
    pub heartbeat: Duration,
    /// Time for which events may go to the sink after the builder sent a heartbeat that the
    /// supervisor answered. A lease of zero means that there is no limit.
    pub lease: Duration,
    /// True if the builder and the supervisor read the same clock.
    pub shared_clock: bool,
    /// All sources of the run, ascending; a source's position is its index.
    pub sources: Vec<SourceId>,
    /// Largest payload of each source, in the order of `sources`.
    pub max_fragment: Vec<Bytes>,
    /// Longest time that data of a lane over datagrams may wait in the queue of the builder's
    /// switch port. No timer declares data lost before this time is over.
    pub queue_delay: Duration,
    /// Interval of the periodic reports; zero for no periodic reports.
    pub report_period: Duration,
}

/// Action that the driver is to take.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "a builder handles outputs one at a time and keeps none; a box would cost an allocation for each event"
)]
pub enum Output {
    /// A built event. The driver filters and writes the event, and reports the outcome by
    /// `handle_written`, `handle_rejected` or `handle_failed`.
    Event(Event),
    /// The lane of that source index has records to be sent. Call [`BuilderCore::write_records`]
    /// for a lane over a stream, [`BuilderCore::write_datagram`] for a lane over datagrams.
    Lane(LaneIndex),
    /// A message to send to the supervisor.
    Supervisor(Control),
}

/// State machine of a builder. The grant policy `P` decides which source may send, and when.
///
/// After all inputs that share one `now`, call `poll` until it returns `None`.
#[derive(Debug)]
pub struct BuilderCore<P> {
    config: BuilderCoreConfig,
    lanes: Lanes<P>,
    slots: Slots,
    unaccounted: Unaccounted,
    /// The supervisor's latest request to confirm assignments that the builder has not answered
    /// yet.
    accepted: Option<u32>,
    /// True while the connection to the supervisor is up.
    is_supervised: bool,
    lease: Lease,
    /// True while the sink takes events.
    is_sink_open: bool,
    clock: PeerClock,
    last_heartbeat: Instant,
    next_heartbeat: Instant,
    reports: ReportTimer,
    counters: BuilderReport,
    last_commit: Option<Instant>,
    /// Durations of the stages between a grant and its data, as this builder measured them.
    stages: StageTimes,
    next_sweep: Instant,
    /// Comparison of the timestamps of each event, if the run has clocks.
    guard: Option<Box<EventGuard>>,
}

/// Interval at which the builder searches its slots for unassigned events and sums up their memory.
const SWEEP: Duration = Duration::from_millis(100);

/// Most early heartbeats per heartbeat interval. A builder whose last free slot has been taken
/// reports its load early, because the supervisor may have to inhibit triggers from then on.
const FULL_HEARTBEATS: u32 = 5;

impl<P: GrantPolicy> BuilderCore<P> {
    /// Returns a builder with empty slots. Every expected source is up until the supervisor reports
    /// otherwise.
    pub fn new(config: BuilderCoreConfig, policy: P, now: Instant) -> Self {
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
            guard: None,
            config,
        }
    }

    /// Returns the most payload memory that the slots can take.
    pub fn memory_bound(config: &BuilderCoreConfig) -> Bytes {
        slot_memory(config.max_fragment.iter().copied()) * config.slots as u64
    }

    /// Handles a heartbeat of the supervisor. A heartbeat that answers one of this builder's
    /// heartbeats renews the lease (docs/reference/protocol.md RUN-31).
    pub fn handle_heartbeat(&mut self, heartbeat: &Heartbeat, now: Instant) {
        self.clock.handle(heartbeat, now);
        if heartbeat.echo_ns != 0 {
            self.lease.renew(Instant::from_nanos(heartbeat.echo_ns).min(now));
        }
    }

    /// Opens the sink to events, or closes it while it is busy with events of an earlier
    /// incarnation. While the sink is closed, events wait in their slots.
    pub fn open_sink(&mut self, is_open: bool) {
        self.is_sink_open = is_open;
    }

    /// Frees the slot of an event that the sink accepted. The sources of the event may forget its
    /// fragments once the supervisor's ledger has the event.
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

    /// Frees the slot of an event that the filter rejected.
    pub fn handle_rejected(&mut self, event: Event, _now: Instant) {
        let Some(slot) = self.slots.find(event.id) else { return };
        self.counters.rejected += 1;
        self.release(slot, event, Some(Outcome::Rejected), "");
    }

    /// Frees the slot of an event that the sink failed to take. The event is lost, and the
    /// completion tells the supervisor the cause.
    pub fn handle_failed(&mut self, event: Event, cause: &str, _now: Instant) {
        let Some(slot) = self.slots.find(event.id) else { return };
        self.counters.lost += 1;
        self.release(slot, event, Some(Outcome::Lost), cause);
    }

    /// Restarts the time for which events wait, because this process stood still, and what arrived
    /// meanwhile is unread.
    pub fn handle_standstill(&mut self, now: Instant) {
        self.slots.wait_anew(now);
    }

    /// Handles event deadlines, lost datagrams, and lanes whose connection stays broken
    /// (docs/reference/protocol.md LANE-15).
    pub fn handle_timeout(&mut self, now: Instant) {
        self.lanes.handle_timeout(now);
        self.slots.expire(now, |ended| self.lanes.note_end(ended));
        if self.sweep_time().is_some_and(|due| due <= now) {
            self.next_sweep = now + SWEEP;
            self.slots.evict_provisional(now, |evicted| self.lanes.note_eviction(evicted));
            self.give_up_broken_lanes(now);
            self.slots.sum_memory();
        }
    }

    /// Returns the time at which to call `handle_timeout` and `poll` if no other input comes
    /// before.
    pub fn next_timeout(&self) -> Option<Instant> {
        let heartbeat =
            earlier(Some(self.next_heartbeat), self.reports.next()).filter(|_| self.is_supervised);
        let doubts = self.guard.as_ref().and_then(|guard| guard.next_time()).filter(|_| self.is_supervised);
        let regular = earlier(earlier(heartbeat, doubts), self.sweep_time());
        earlier(earlier(self.slots.next_deadline(), self.lanes.next_timeout()), regular)
    }

    /// Returns the next action.
    pub fn poll(&mut self, now: Instant) -> Option<Output> {
        if self.is_sink_open
            && self.lease.holds(now)
            && let Some(mut event) = self.slots.take_event(&self.config)
        {
            let sources = &self.config.sources;
            if let Some(guard) = &mut self.guard {
                guard.observe(&mut event, |source| self.lanes.note_disagreement(source, sources));
            }
            if event.is_complete() && event.has_lost_packets() {
                self.lanes.note_lost_packets(&event, sources);
            }
            return Some(Output::Event(event));
        }
        if let Some(lane) = self.lanes.poll(now) {
            return Some(Output::Lane(lane));
        }
        let message = self.is_supervised.then(|| self.next_message(now)).flatten()?;
        Some(Output::Supervisor(Control { message: Some(message) }))
    }

    /// Returns the number of events that are open in the builder or with its sink.
    pub fn slots_used(&self) -> usize {
        self.slots.used()
    }

    /// Returns the number of events that are over and not yet in the supervisor's ledger.
    pub fn unaccounted(&self) -> usize {
        self.unaccounted.len()
    }

    /// Returns true if the builder has committed everything that arrived on all lanes and has told
    /// the sources so.
    pub fn is_idle(&self) -> bool {
        self.slots.used() == 0 && self.unaccounted.is_empty() && self.lanes.is_idle()
    }

    /// Returns the events that may not wait for as long as a source is away, for tests and the
    /// simulator. Each comes with the lanes on which it lacks announced fragments, and with those
    /// on which it lacks fragments that are not announced.
    pub fn waiting(&self) -> impl Iterator<Item = (EventId, SourceSet, SourceSet)> {
        self.slots.waiting()
    }

    /// Returns the grant policy, for its counters.
    pub fn policy(&self) -> &P {
        self.lanes.policy()
    }

    /// Checks the invariants, for tests, the simulator and fuzz targets.
    ///
    /// # Panics
    /// Panics if an invariant does not hold, which is a defect of evb.
    pub fn invariants(&self) {
        self.lanes.invariants();
        self.slots.invariants();
        self.guard.iter().for_each(|guard| guard.invariants());
    }

    /// Changes the number of the run, which is final only when the run begins.
    pub fn set_run(&mut self, run: RunNumber) {
        self.config.run = run;
    }

    /// Compares the timestamps of all later events, by the clocks of the run. The same clocks
    /// again, as at a further registration, change nothing.
    pub fn guard(&mut self, begin: &Begin) {
        let clocks = GuardedClocks::of(begin);
        if self.guard.as_ref().is_none_or(|guard| *guard.clocks() != clocks) {
            let guard = EventGuard::new(clocks, begin.relations.as_ref(), self.config.heartbeat);
            self.guard = guard.map(Box::new);
        }
    }

    /// Takes the timestamps of a source behind the event `after` as the right ones.
    pub fn learn(&mut self, source: SourceId, after: EventId) {
        self.guard.iter_mut().for_each(|guard| guard.learn(source, after));
    }

    /// Returns the doubts about timestamps of which the supervisor was not told yet.
    pub fn last_doubts(&mut self) -> Option<Control> {
        let report = self.guard.as_mut()?.last_report()?;
        Some(Control { message: Some(Message::Alignment(report)) })
    }

    /// Returns the builder's configuration.
    pub fn config(&self) -> &BuilderCoreConfig {
        &self.config
    }

    /// Counts a sample of the write time: from a grant to the end of the write that carries it.
    pub fn record_grant_write(&mut self, took: Duration) {
        self.stages.write.record(took);
    }

    /// Counts a sample of the wake-up time: from the kernel's receipt of data to its read.
    pub fn record_data_wake(&mut self, took: Duration) {
        self.stages.wake.record(took);
    }

    /// Returns the message with the final counters for the supervisor.
    pub fn report(&self) -> Control {
        self.report_with(None)
    }

    /// Returns the message with the final counters of a builder whose lanes use datagrams.
    /// `datagrams` are the counters of the UDP socket that all lanes share.
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

    /// Returns the counters that are small enough for periodic reports, without those of the lanes.
    fn counters_so_far(&self) -> BuilderReport {
        BuilderReport {
            latency_max_us: self.slots.latency().max(),
            memory_peak_bytes: self.slots.memory_peak() as u64,
            ..self.counters.clone()
        }
    }

    /// Returns a periodic report with the counters so far.
    fn report_so_far(&mut self, now: Instant) -> Report {
        let lanes = self.lanes.changes();
        let sum = Some(Box::new(self.lanes.sum_so_far()));
        let counters = BuilderReport { lanes, sum, ..self.counters_so_far() };
        let load = self.load();
        let live = Live {
            building: load.building,
            at_sink: load.at_sink,
            since_commit_ns: nanos_since(self.last_commit, now),
            latency: self.slots.latency().coarse().pairs(),
            ..Live::default()
        };
        Report { report: Some(RoleReport::Builder(counters)), live: Some(live) }
    }

    /// Returns the number of events that occupy slots, by what they wait for.
    fn load(&self) -> Load {
        self.slots.load(&self.config.sources)
    }

    /// Returns the next message to the supervisor.
    fn next_message(&mut self, now: Instant) -> Option<Message> {
        if let Some(answer) = self.accepted.take() {
            return Some(Message::Accepted(Accepted { answer }));
        }
        if let Some(report) = self.guard.as_mut().and_then(|guard| guard.next_report(now)) {
            return Some(Message::Alignment(report));
        }
        if let Some(completions) = self.unaccounted.next_message() {
            return Some(Message::Completions(completions));
        }
        if self.next_heartbeat > now {
            return self
                .reports
                .ring(self.next_heartbeat, now)
                .then(|| Message::Report(self.report_so_far(now)));
        }
        self.last_heartbeat = now;
        let (heartbeat, sources) = (self.config.heartbeat, self.config.sources.len());
        self.next_heartbeat =
            if sources > FEW_HEARTBEATS { on_grid(now, heartbeat) } else { now + heartbeat };
        let heartbeat = Heartbeat { load: Some(self.load()), ..self.clock.heartbeat(now) };
        Some(Message::Heartbeat(heartbeat))
    }

    /// Brings the next heartbeat forward if the last free slot has just been taken.
    fn hasten_if_full(&mut self) {
        if self.slots.take_newly_full() {
            let soon = self.last_heartbeat + self.config.heartbeat / FULL_HEARTBEATS;
            self.next_heartbeat = self.next_heartbeat.min(soon);
        }
    }

    /// Returns the time of the next look for what waits in vain; `None` if no event waits.
    fn sweep_time(&self) -> Option<Instant> {
        (self.slots.used() > 0).then_some(self.next_sweep)
    }

    /// Gives up fragments that were announced on lanes whose connection has been gone for as long
    /// as the deadline. The sources of such lanes may still reach the supervisor, so that they
    /// count as up, and their fragments would otherwise hold every slot (docs/reference/protocol.md
    /// LANE-15).
    fn give_up_broken_lanes(&mut self, now: Instant) {
        for lane in LaneIndex::all(self.config.sources.len()) {
            let is_broken = self.lanes.lane(lane).is_broken(self.config.deadline, now);
            if is_broken && !self.slots.rosters().awaited().contains(lane.get()) {
                self.slots.give_up(lane.get(), now, |ended| self.lanes.note_end(ended));
            }
        }
    }

    /// Frees the slot of an event that has passed filter and sink. `outcome` is `None` for a
    /// complete event that the sink accepted.
    fn release(&mut self, slot: SlotIndex, event: Event, outcome: Option<Outcome>, cause: &str) {
        let starts = self.slots.starts(slot);
        match outcome {
            None => self.unaccounted.complete(event.id, &event.absent, starts),
            Some(outcome) => self.unaccounted.except(exception_of(&event, outcome, cause), starts),
        }
        self.slots.release(slot, event, &self.config.sources);
    }
}

/// Returns the most payload memory that a slot can take: the sum of `max_fragment` of all sources.
/// A source with large fragments counts [`LARGE_FRAGMENT`] more, as its small fragments go to other
/// memory.
pub fn slot_memory(max_fragment: impl IntoIterator<Item = Bytes>) -> Bytes {
    let of_one = |limit: Bytes| match limit.as_usize() >= LARGE_FRAGMENT {
        true => limit + Bytes::new(LARGE_FRAGMENT as u64),
        false => limit,
    };
    max_fragment.into_iter().map(of_one).sum()
}

fn arena_room(config: &BuilderCoreConfig) -> usize {
    config.max_fragment.iter().map(|limit| limit.as_usize().min(LARGE_FRAGMENT)).sum()
}
