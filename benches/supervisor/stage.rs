//! The supervisor's state machine with peers that settle all events at once.

use core::time::Duration;
use std::collections::BTreeMap;

use evb_core::{
    id::{BuilderId, Epoch, EventId, Peer, RunNumber, SourceId},
    supervisor::{Output, Recipients, RunPlan, RunState, SupervisorCore},
    time::Instant,
    trigger::TriggerKind,
    units::Frequency,
    wire::{
        control::{
            Assignments, Begun, BuilderReport, Completions, Control, Heartbeat, Hello, LaneReport, Load,
            Message, Ready, Report, RoleReport, SourceReport,
        },
        encoding::Encoding,
    },
};

const TURN: Duration = Duration::from_millis(1);
/// Triggers per second.
const RATE: f64 = 10_000.0;

/// Messages and bytes so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Count {
    pub(crate) decisions: u64,
    /// Messages to and from all peers.
    pub(crate) messages: u64,
    /// Bytes to and from all peers.
    pub(crate) bytes: u64,
    /// Bytes of the messages that each peer receives.
    pub(crate) bytes_of_a_peer: u64,
}

impl Count {
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            decisions: self.decisions - before.decisions,
            messages: self.messages - before.messages,
            bytes: self.bytes - before.bytes,
            bytes_of_a_peer: self.bytes_of_a_peer - before.bytes_of_a_peer,
        }
    }

    fn add(&mut self, message: &Control, recipients: usize) {
        self.messages += recipients as u64;
        self.bytes += (message.encoded_len() * recipients) as u64;
    }
}

/// The supervisor and its peers.
#[derive(Debug)]
pub(crate) struct Stage {
    core: SupervisorCore,
    now: Instant,
    sources: u16,
    builders: u16,
    heartbeat: Duration,
    /// Peers in the order of their heartbeats, and the number of heartbeats so far.
    peers: Vec<Peer>,
    /// Time between two heartbeats of each peer, as a multiple of `heartbeat`.
    periods: Vec<usize>,
    beats: usize,
    began: Instant,
    /// Events to be settled in the next turn, by builder.
    assigned: BTreeMap<BuilderId, Vec<EventId>>,
    completed: Vec<u64>,
    count: Count,
    ended: bool,
}

impl Stage {
    /// Registers all peers, and makes them ready.
    pub(crate) fn running(sources: u16, builders: u16) -> Self {
        let now = Instant::from_nanos(1_000_000_000);
        let (of_sources, of_builders) =
            ((1..=sources).map(SourceId::new).collect(), (1..=builders).map(BuilderId::new).collect());
        let mut plan = RunPlan::new(RunNumber::new(1), Epoch::new(1), of_sources, of_builders);
        plan.trigger = TriggerKind::Periodic { rate: Frequency::from_hertz(RATE).unwrap() };
        let heartbeat = plan.heartbeat;
        let core = SupervisorCore::new(plan, 1, now).unwrap();
        let mut stage = Self {
            peers: core.peers(),
            periods: Vec::new(),
            core,
            now,
            sources,
            builders,
            heartbeat,
            beats: 0,
            began: now,
            assigned: BTreeMap::new(),
            completed: vec![0; usize::from(builders) + 1],
            count: Count::default(),
            ended: false,
        };
        for peer in stage.peers.clone() {
            let listen = "192.0.2.100:47000".to_owned();
            let hello = Hello { listen, max_fragment: 100_000, ..Hello::new(peer, Peer::Supervisor) };
            let welcome = stage.core.register(&hello, now).unwrap();
            let beat = Duration::from_nanos(welcome.parameters.unwrap().heartbeat_ns);
            stage.periods.push((beat.as_nanos() / heartbeat.as_nanos()) as usize);
            stage.poll();
        }
        for id in 1..=sources {
            stage.says(Peer::Source(SourceId::new(id)), Message::Ready(Ready {}));
            stage.poll();
        }
        for peer in stage.peers.clone() {
            stage.says(peer, Message::Begun(Begun::default()));
        }
        stage.poll();
        assert_eq!(stage.core.progress().state, RunState::Running);
        stage
    }

    pub(crate) fn count(&self) -> Count {
        Count { decisions: self.core.decided().number(), ..self.count }
    }

    /// Advances the time by one turn.
    pub(crate) fn turn(&mut self) {
        self.now += TURN;
        for (builder, events) in core::mem::take(&mut self.assigned) {
            let before = &mut self.completed[usize::from(builder.number())];
            let mut completions = Completions { before: *before, ..Completions::default() };
            let mut last = EventId::default();
            *before += events.len() as u64;
            events.into_iter().for_each(|event| completions.add(&mut last, event));
            self.says(Peer::Builder(builder), Message::Completions(completions));
        }
        let share = self.now.since(self.began).as_secs_f64() / self.heartbeat.as_secs_f64();
        while self.beats < (share * self.peers.len() as f64) as usize {
            let (round, place) = (self.beats / self.peers.len(), self.beats % self.peers.len());
            self.beats += 1;
            if !(round + place).is_multiple_of(self.periods[place]) {
                continue;
            }
            let peer = self.peers[place];
            let load = matches!(peer, Peer::Builder(_)).then_some(Load {
                building: 1,
                slowest: 1,
                ..Load::default()
            });
            let beat = Heartbeat {
                sent_ns: self.now.as_nanos(),
                echo_ns: 1,
                echo_delay_ns: 1,
                load,
                ..Heartbeat::default()
            };
            self.says(peer, Message::Heartbeat(beat));
        }
        self.core.handle_timeout(self.now);
        self.poll();
    }

    /// Breaks the connections of the last sources.
    pub(crate) fn lose_sources(&mut self, count: u16) {
        for id in self.sources - count + 1..=self.sources {
            self.core.handle_disconnect(Peer::Source(SourceId::new(id)), "the process died", self.now);
        }
        self.poll();
    }

    /// Ends the run, with a report of each peer.
    pub(crate) fn end(&mut self) {
        self.core.stop("the end", self.now);
        (0..3).for_each(|_| self.turn());
        for id in 1..=self.sources {
            let report = SourceReport { pushed: 10_000, pushed_bytes: 20_000_000, ..SourceReport::default() };
            let report = Report { report: Some(RoleReport::Source(report)), live: None };
            self.says(Peer::Source(SourceId::new(id)), Message::Report(report));
        }
        let lane = |source: u16| LaneReport {
            source: source.into(),
            fragments: 10_000,
            payload_bytes: 20_000_000,
            last: 100,
            last_by_ns: 100_000,
            ..LaneReport::default()
        };
        for id in 1..=self.builders {
            let lanes = (1..=self.sources).map(lane).collect();
            let report = Report {
                report: Some(RoleReport::Builder(BuilderReport { lanes, ..BuilderReport::default() })),
                live: None,
            };
            self.says(Peer::Builder(BuilderId::new(id)), Message::Report(report));
        }
        self.now += Duration::from_secs(6);
        self.core.handle_timeout(self.now);
        self.poll();
        assert!(self.ended, "the ledger is closed");
    }

    fn says(&mut self, peer: Peer, message: Message) {
        let message = Control { message: Some(message) };
        self.count.add(&message, 1);
        self.core.handle_message(peer, message, self.now);
    }

    fn poll(&mut self) {
        while let Some(output) = self.core.poll(self.now) {
            match output {
                Output::Send { to, message } => self.sent(&to, &message),
                Output::Ended(_) => self.ended = true,
                Output::Drop { peer, reason } => panic!("{peer} was dropped: {reason}"),
                Output::Journal(_) | Output::Begun(_) => {}
            }
        }
    }

    fn sent(&mut self, to: &Recipients, message: &Control) {
        let recipients = match to {
            Recipients::Everyone => {
                self.count.bytes_of_a_peer += message.encoded_len() as u64;
                self.peers.len()
            }
            Recipients::Sources(set) => set.len(),
            Recipients::Source(_) | Recipients::Builder(_) => 1,
        };
        self.count.add(message, recipients);
        if let (Recipients::Builder(id), Some(Message::Assignments(batch))) = (to, &message.message) {
            self.note(*id, batch);
        }
    }

    fn note(&mut self, builder: BuilderId, batch: &Assignments) {
        let events = batch.events().unwrap().into_iter().map(|(event, _)| event);
        self.assigned.entry(builder).or_default().extend(events);
    }
}
