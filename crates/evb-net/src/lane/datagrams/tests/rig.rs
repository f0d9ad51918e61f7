//! Both ends of one lane over loopback, in one task.

use std::{
    net::{SocketAddr, UdpSocket},
    ops::Range,
};

use evb_core::{
    builder::{self, BuilderCore, BuilderCoreConfig},
    event::Event,
    fragment::{Fragment, Timestamp},
    grant::{Fate, Grant, GrantCounters, GrantPolicy, LaneDemand},
    id::{BuilderId, Epoch, RunId, RunNumber, SourceId},
    index::LaneIndex,
    lane::Request,
    set::SourceSet,
    source::{Output, SourceCore, SourceCoreConfig},
    units::Bytes,
    wire::control::{Accounted, Assignments, Decisions, Verdict},
};

use super::*;

pub(super) const ASSOCIATION: Association = Association {
    epoch: Epoch::new(7),
    source: SourceId::new(3),
    builder: BuilderId::new(4),
    connection: 0xabcd,
};

/// Policy that grants all requests, lost bytes first, with at most `BUDGET` bytes outstanding.
#[derive(Debug, Default)]
pub(super) struct GrantAll {
    outstanding: u64,
    counters: GrantCounters,
}

const BUDGET: u64 = 100_000;

impl GrantPolicy for GrantAll {
    fn poll(&mut self, lanes: &[LaneDemand], _now: Instant) -> Option<Grant> {
        let demand = lanes[0];
        let room = BUDGET.saturating_sub(self.outstanding);
        let grant = match demand.lost {
            Some(lost) => Grant {
                lane: LaneIndex::new(0),
                start: lost.start,
                end: lost.end.min(lost.start + room),
                request: lost.request,
            },
            None => {
                let end = demand.ready.min(demand.granted + room);
                Grant { lane: LaneIndex::new(0), start: demand.granted, end, request: 0 }
            }
        };
        let is_due = demand.connected && grant.start < grant.end;
        self.outstanding += if is_due { grant.end - grant.start } else { 0 };
        is_due.then_some(grant)
    }

    fn handle_accounted(&mut self, _: LaneIndex, range: Range<u64>, _: Request, _: Fate, _: Instant) {
        self.outstanding -= range.end - range.start;
    }

    fn handle_received(&mut self, _lane: LaneIndex, _received: u64, _now: Instant) {}
    fn handle_reset(&mut self, _lane: LaneIndex, _received: u64, _now: Instant) {}
    fn handle_gone(&mut self, _lane: LaneIndex, _now: Instant) {}
    fn handle_timeout(&mut self, _now: Instant) {}

    fn next_timeout(&self) -> Option<Instant> {
        None
    }

    fn outstanding(&self) -> Bytes {
        Bytes::new(self.outstanding)
    }

    fn counters(&self) -> &GrantCounters {
        &self.counters
    }
}

/// A lane over datagrams with its source's end and its builder's end.
pub(super) struct Rig {
    pub(super) core: BuilderCore<GrantAll>,
    pub(super) builder: BuilderDatagrams,
    pub(super) source: SourceCore,
    pub(super) end: SourceDatagrams,
    /// Address at which the builder's datagrams arrive.
    pub(super) address: SocketAddr,
    pub(super) events: Vec<Event>,
    pub(super) ended: Vec<(usize, LaneEnd)>,
}

/// Returns the source's end and the builder's end of a TCP connection.
pub(super) async fn streams(local: IpAddr) -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind((local, 0)).await.unwrap();
    let source = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    (source, listener.accept().await.unwrap().0)
}

/// Returns a path with packets of 1500 B.
pub(super) fn ethernet(local: IpAddr) -> Path {
    let datagram = if local.is_ipv4() { 1472 } else { 1452 };
    Path { mtu: 1500, datagram, round_trip: Duration::from_micros(100) }
}

pub(super) fn content(event: EventId, length: usize) -> Vec<u8> {
    (0..length as u64).map(|index| ((event.number() * 31 + index * 7) % 251) as u8).collect()
}

pub(super) fn builder_core() -> BuilderCore<GrantAll> {
    let config = BuilderCoreConfig {
        run_id: RunId::new(1),
        id: ASSOCIATION.builder,
        run: RunNumber::new(1),
        epoch: ASSOCIATION.epoch,
        slots: 64,
        deadline: Duration::from_secs(100),
        heartbeat: Duration::from_secs(100),
        shared_clock: true,
        lease: Duration::ZERO,
        sources: vec![ASSOCIATION.source],
        max_fragment: vec![Bytes::mib(1)],
        queue_delay: Duration::ZERO,
        report_period: Duration::ZERO,
    };
    let now = clock::now();
    let mut core = BuilderCore::new(config, GrantAll::default(), now);
    core.handle_roster(1, SourceSet::first(1), SourceSet::default(), now);
    core.handle_lane_connected(LaneIndex::new(0), now);
    core.associate(LaneIndex::new(0), ASSOCIATION, None, Bytes::mib(1), now);
    core
}

fn source_core(path: Path) -> SourceCore {
    let config = SourceCoreConfig {
        id: ASSOCIATION.source,
        max_fragment: Bytes::mib(1),
        orphan_timeout: Duration::from_secs(100),
        heartbeat: Duration::from_secs(100),
        builders: vec![ASSOCIATION.builder],
        on_demand: false,
        decided: EventId::default(),
        deadline: Duration::MAX,
        queue_delay: Duration::ZERO,
        report_period: Duration::ZERO,
    };
    let mut source = SourceCore::new(config, clock::now());
    source.handle_lane_connected(LaneIndex::new(0), 0, 0).unwrap();
    source.associate(LaneIndex::new(0), ASSOCIATION, Some(path.round_trip), path.datagram);
    source
}

impl Rig {
    /// Creates a lane that is ready for fragments, with packets of 1500 B.
    pub(super) async fn new(local: &str) -> Self {
        let local: IpAddr = local.parse().unwrap();
        let (streams, path) = (streams(local).await, ethernet(local));
        let options = UdpOptions { receive_buffer: Some(Bytes::mib(1)), ..UdpOptions::default() };
        let socket = open(SocketAddr::new(local, 0), None, &options).unwrap();
        let address = socket.local_addr().unwrap();
        let mut builder = BuilderDatagrams::new(socket, vec![ASSOCIATION.source]);
        builder.open(LaneIndex::new(0), streams.1);
        let socket = open(SocketAddr::new(local, 0), Some(address), &UdpOptions::default()).unwrap();
        let end = SourceDatagrams::new(streams.0, socket, path, None);
        let (core, source) = (builder_core(), source_core(path));
        Self { core, builder, source, end, address, events: Vec::new(), ended: Vec::new() }
    }

    /// Pushes fragments of the given lengths, which belong to assigned events from number 1 on.
    pub(super) fn push(&mut self, lengths: &[usize]) {
        self.push_from(1, lengths);
    }

    /// Pushes fragments of events with consecutive ids from `first` on.
    pub(super) fn push_from(&mut self, first: u64, lengths: &[usize]) {
        let now = clock::now();
        let mut decisions = Decisions::starting(EventId::new(first));
        decisions.extend(lengths.len() as u32, Verdict::Assigned(ASSOCIATION.builder));
        self.source.handle_decisions(&decisions).unwrap();
        let mut assignments = Assignments { roster_version: 1, ..Assignments::default() };
        let mut last = (EventId::default(), 0);
        for (event, length) in (first..).map(EventId::new).zip(lengths) {
            assignments.add(&mut last, event, now.as_nanos());
            self.source
                .push(Fragment::new(event, Timestamp::default(), content(event, *length)), now)
                .unwrap();
        }
        self.core.handle_assignments(&assignments, now).unwrap();
    }

    /// Inserts a relay between source and builder that damages a byte in every `nth` datagram of
    /// the source, or else of the builder.
    pub(super) async fn damage_each(&mut self, nth: usize, of_source: bool) {
        let relay = UdpSocket::bind("127.0.0.1:0").unwrap();
        let local = SocketAddr::new(self.address.ip(), 0);
        let socket = open(local, Some(relay.local_addr().unwrap()), &UdpOptions::default()).unwrap();
        let (stream, other) = streams(self.address.ip()).await;
        self.end = SourceDatagrams::new(stream, socket, self.end.path(), None);
        self.builder.open(LaneIndex::new(0), other);
        let builder = self.address;
        // The relay's thread runs until the process of the test ends.
        std::thread::spawn(move || {
            let (mut bytes, mut count, mut source) = ([0; 2000], 0, None);
            while let Ok((length, from)) = relay.recv_from(&mut bytes) {
                let to = if from == builder { source } else { Some(builder) };
                if from != builder {
                    source = Some(from);
                }
                if (from != builder) == of_source {
                    count += 1;
                    bytes[length / 2] ^= u8::from(count % nth == 0);
                }
                let _ = to.map(|to| relay.send_to(&bytes[..length], to));
            }
        });
    }

    /// Drives both ends of the lane until `is_done` returns true.
    pub(super) async fn run(&mut self, mut is_done: impl FnMut(&Self) -> bool) {
        let mut tick = tokio::time::interval(Duration::from_millis(1));
        let all = std::future::poll_fn(|cx| {
            loop {
                self.turn_builder(cx);
                if let Err(end) = self.turn_source(cx) {
                    self.ended.push((usize::MAX, end));
                }
                if is_done(self) {
                    return Poll::Ready(());
                }
                if tick.poll_tick(cx).is_pending() {
                    return Poll::Pending;
                }
            }
        });
        let in_time = tokio::time::timeout(Duration::from_secs(20), all).await.is_ok();
        assert!(
            in_time,
            "{} events, {:?}, {:?}",
            self.events.len(),
            self.ended,
            self.core.datagram_counters(LaneIndex::new(0))
        );
    }

    /// Lets the builder receive datagrams without answering, until `is_done` returns true.
    pub(super) async fn take(&mut self, mut is_done: impl FnMut(&mut Self) -> bool) {
        let all = std::future::poll_fn(|cx| {
            let ended = &mut self.ended;
            let note = |lane: LaneIndex, end| ended.push((lane.get(), end));
            self.builder.poll_recv(cx, &mut self.core, clock::now(), note).unwrap();
            if is_done(self) { Poll::Ready(()) } else { Poll::Pending }
        });
        assert!(tokio::time::timeout(Duration::from_secs(5), all).await.is_ok(), "it does not come");
    }

    fn turn_builder(&mut self, cx: &mut Context<'_>) {
        let now = clock::now();
        let ended = &mut self.ended;
        self.builder.poll_recv(cx, &mut self.core, now, |lane, end| ended.push((lane.get(), end))).unwrap();
        self.core.handle_timeout(now);
        while let Some(output) = self.core.poll(now) {
            match output {
                builder::Output::Event(event) => {
                    self.events.push(event.clone());
                    self.core.handle_written(event, now);
                }
                builder::Output::Lane(lane) => self.builder.send(&mut self.core, lane, now),
                builder::Output::Supervisor(control) => {
                    if let Some(accounted) = Accounted::of(&control) {
                        self.core.handle_accounted(&accounted).unwrap();
                    }
                }
            }
        }
    }

    fn turn_source(&mut self, cx: &mut Context<'_>) -> Result<(), LaneEnd> {
        let now = clock::now();
        self.end.poll_recv(cx, &mut self.source, LaneIndex::new(0), now)?;
        self.source.handle_timeout(now);
        while let Some(output) = self.source.poll(now) {
            if let Output::Announce(lane) = output {
                self.end.lane.announce(&mut self.source, lane, now);
                let _ = self.end.poll_flush(cx, &mut self.source, LaneIndex::new(0))?;
            }
        }
        while let Some(Taken { range, request }) = self.source.take(LaneIndex::new(0), 1 << 20) {
            self.end.lane.send(range, request, now);
        }
        let _ = self.end.poll_flush(cx, &mut self.source, LaneIndex::new(0))?;
        Ok(())
    }
}
