//! The source's connections to its builders: connect, hold, connect again.

use std::{
    future::Future,
    io::ErrorKind,
    net::{IpAddr, SocketAddr},
    ops::Range,
    os::fd::AsFd as _,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use evb_core::{
    id::{BuilderId, Incarnation, Peer, SourceId},
    time::Instant,
    units::Rate,
    wire::{
        control::{Hello, TrainReport, Welcome},
        datagram::Association,
        preamble::ConnectionKind,
    },
};
use evb_net::{
    clock,
    control::{ConnectError, open},
    handshake::{Channel, HandshakeError},
    host::link,
    lane::{
        FromBuilder, LaneEnd, LaneOptions, Progress, SourceEnd,
        datagrams::{SourceDatagrams, probe_tagged, round_trip},
    },
    pacing::{Executor, Transport},
    security::{DatagramTags, Security},
    udp,
};
use evb_shaper::{Departure, PacedSource};

use crate::role::RunIdentity;

/// How long a lane waits before it tries again, doubled at each failure up to the limit, until a connection has lasted that
/// long (docs/protocol.md CONN-11).
const RETRY_FIRST: Duration = Duration::from_millis(50);
const RETRY_LIMIT: Duration = Duration::from_secs(1);

/// When a lane whose socket is full is asked again for what it has to say.
const LATER: Duration = Duration::from_millis(1);

/// How long a connection may take to come about. Behind a network that is cut, the kernel waits longer and longer between its
/// own tries; a new one comes through within a second of the network.
const OPENING: Duration = Duration::from_secs(2);

type Connecting = Pin<Box<dyn Future<Output = Result<(End, Welcome), ConnectError>>>>;

/// A builder as the roster has it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Listed {
    pub(super) builder: BuilderId,
    pub(super) incarnation: Incarnation,
    pub(super) address: String,
}

/// The connection to one builder.
pub(super) struct Lane {
    index: usize,
    builder: BuilderId,
    incarnation: Incarnation,
    address: String,
    /// What its socket is asked to keep to, if the kernel paces sockets.
    rate: Option<Rate>,
    state: State,
    wait: Duration,
    /// Of connections that are gone: segments that the kernel had to send again, and what became of trains.
    past: (u64, TrainReport),
    /// The run is ending: builders close their lanes, and that is no news.
    ending: bool,
}

enum State {
    Connecting(Connecting),
    Up(Box<End>, Instant),
    Waiting(Instant),
    /// The builder is not in the roster.
    Over,
}

/// The source's end of a connection.
#[expect(clippy::large_enum_variant, reason = "it is boxed as a whole")]
pub(super) enum End {
    Stream(SourceEnd),
    Datagrams(Box<SourceDatagrams>, Association),
}

/// What every lane's connection needs to know.
pub(super) struct Dialing {
    pub(super) source: SourceId,
    pub(super) identity: RunIdentity,
    pub(super) incarnation: Incarnation,
    pub(super) bind: Option<IpAddr>,
    pub(super) transport: Transport,
    pub(super) mtu: u32,
    pub(super) options: LaneOptions,
    pub(super) executor: Arc<dyn Executor>,
    pub(super) security: Security,
}

impl Dialing {
    fn dial(&self, lane: &Lane) -> Connecting {
        let Lane { address, builder, incarnation, rate, .. } = lane;
        let (address, builder, rate) = (address.clone(), *builder, *rate);
        let datagrams = self.transport == Transport::Udp;
        let hello = Hello {
            epoch: self.identity.epoch.number(),
            run: self.identity.run.number(),
            datagrams,
            incarnation: self.incarnation.number(),
            to_incarnation: incarnation.number(),
            ..Hello::new(Peer::Source(self.source), Peer::Builder(builder))
        };
        let (bind, options, executor) = (self.bind, self.options.clone(), Arc::clone(&self.executor));
        let (epoch, source, mtu) = (self.identity.epoch, self.source, self.mtu);
        let security = self.security.clone();
        Box::pin(async move {
            let unreachable = |reason| ConnectError::Unreachable { address: address.clone(), reason };
            let opening = open(&address, bind, options.congestion_control.as_deref());
            let opening = tokio::time::timeout(OPENING, opening).await;
            let stream = opening.unwrap_or_else(|_| Err(unreachable(ErrorKind::TimedOut.into())))?;
            options.apply(&stream).map_err(unreachable)?;
            if rate.is_some() && !datagrams {
                executor.prepare(stream.as_fd(), rate).map_err(unreachable)?;
            }
            let peer = stream.peer_addr().map_err(unreachable)?;
            let shaken = Channel::connect(stream, ConnectionKind::Lane, &hello, &security).await;
            let (channel, welcome) = match shaken {
                Ok(shaken) => shaken,
                Err(HandshakeError::Refused(refusal)) => {
                    return Err(ConnectError::Refused { address: peer, refusal });
                }
                Err(error) => return Err(ConnectError::Handshake { address: peer, error }),
            };
            if !datagrams {
                return Ok((End::Stream(SourceEnd::new(channel)), welcome));
            }
            let (stream, session) = channel.into_parts();
            let mut tags = session.map(|session| DatagramTags::new(session.keys()));
            let connection = welcome.checked_connection().map_err(|fault| {
                let error = HandshakeError::Malformed(fault.to_string());
                ConnectError::Handshake { address: peer, error }
            })?;
            let association = Association { epoch, source, builder, connection };
            let local = SocketAddr::new(stream.local_addr().map_err(unreachable)?.ip(), 0);
            let mut socket = udp::open(local, Some(peer), &options.datagrams()).map_err(unreachable)?;
            let estimate = round_trip(&stream).unwrap_or_default();
            let path = probe_tagged(&mut socket, peer, association, mtu, estimate, &mut tags).await?;
            if path.mtu < mtu {
                tracing::warn!(
                    builder = builder.number(),
                    packets = path.mtu,
                    mtu,
                    "larger packets do not get through; set network.mtu to that, so that grants are counted right"
                );
            }
            socket.prepare(&*executor, rate).map_err(unreachable)?;
            // The kernel would cut longer trains into packets, each of which costs as much as one.
            let by_device = link::longest_train(peer.ip(), local.ip());
            let train = options.train.into_iter().chain(by_device).min();
            let end = SourceDatagrams::new(stream, socket, path).tagged(tags).in_trains_of(train);
            Ok((End::Datagrams(Box::new(end), association), welcome))
        })
    }
}

impl Lane {
    pub(super) fn new(index: usize, rate: Option<Rate>, listed: Listed, dialing: &Dialing) -> Self {
        let Listed { builder, incarnation, address } = listed;
        let (wait, state) = (RETRY_FIRST, State::Over);
        let mut new = Self {
            index,
            builder,
            incarnation,
            address,
            rate,
            state,
            wait,
            past: Default::default(),
            ending: false,
        };
        new.state = State::Connecting(dialing.dial(&new));
        new
    }

    pub(super) fn builder(&self) -> BuilderId {
        self.builder
    }

    /// The builder stands in the roster like that: another process, or elsewhere, is another connection.
    pub(super) fn aim(&mut self, listed: Listed, core: &mut PacedSource, dialing: &Dialing) {
        let Listed { incarnation, address, .. } = listed;
        let is_same = self.incarnation == incarnation && self.address == address;
        if is_same && !matches!(self.state, State::Over) {
            return;
        }
        self.close(core);
        (self.incarnation, self.address, self.wait) = (incarnation, address, RETRY_FIRST);
        self.state = State::Connecting(dialing.dial(self));
    }

    /// The builder is not in the roster any more.
    pub(super) fn close(&mut self, core: &mut PacedSource) {
        self.past = self.sent();
        self.state = State::Over;
        core.handle_lane_disconnected(self.index);
    }

    /// We are another process for builders: the connection is to be made anew.
    pub(super) fn begin_anew(&mut self, core: &mut PacedSource, dialing: &Dialing) {
        if !matches!(self.state, State::Over) {
            self.close(core);
            self.state = State::Connecting(dialing.dial(self));
        }
    }

    /// Takes in what the builder says, and connects where there is no connection; whether there may be more.
    pub(super) fn poll_input(
        &mut self,
        cx: &mut Context<'_>,
        core: &mut PacedSource,
        dialing: &Dialing,
        ranges: &mut Vec<Range<u64>>,
    ) -> bool {
        loop {
            match &mut self.state {
                State::Waiting(until) if *until <= clock::now() => {
                    self.state = State::Connecting(dialing.dial(self));
                }
                State::Waiting(_) | State::Over => return false,
                State::Connecting(connecting) => match connecting.as_mut().poll(cx) {
                    Poll::Pending => return false,
                    Poll::Ready(Ok((end, welcome))) => self.begin(end, &welcome, core, dialing),
                    Poll::Ready(Err(error)) => self.fail(core, &error),
                },
                State::Up(end, _) => match end.poll_input(cx, core, self.index, ranges) {
                    Ok(progress) => return progress == Progress::More,
                    Err(error) => self.fail(core, &error),
                },
            }
        }
    }

    /// Has the lane's announcements written into its end; whether it is up.
    pub(super) fn announce(&mut self, core: &mut PacedSource, now: Instant) -> bool {
        match &mut self.state {
            State::Up(end, _) => match &mut **end {
                End::Stream(end) => core.announce(self.index, now, &mut end.announcements),
                // What waits says the same, or will be followed.
                End::Datagrams(end, _) if !end.records.is_empty() => core.put_off(self.index, now + LATER),
                End::Datagrams(end, _) => {
                    core.set_answering(self.index, end.is_answering());
                    core.write_datagram(self.index, now, &mut end.records);
                }
            },
            State::Connecting(_) | State::Waiting(_) | State::Over => return false,
        }
        true
    }

    /// Queues what departs, if the lane is up.
    pub(super) fn send(&mut self, departure: Departure) {
        let Departure { range, request, at, .. } = departure;
        if let State::Up(end, _) = &mut self.state {
            match &mut **end {
                End::Stream(end) => end.send(range),
                End::Datagrams(end, _) => end.send(range, request, at),
            }
        }
    }

    /// The run is ending.
    pub(super) fn end_run(&mut self) {
        self.ending = true;
    }

    /// Writes what is queued.
    pub(super) fn poll_flush(&mut self, cx: &mut Context<'_>, core: &mut PacedSource) {
        if let State::Up(end, _) = &mut self.state
            && let Poll::Ready(Err(error)) = end.poll_flush(cx, core, self.index)
        {
            self.fail(core, &error);
        }
    }

    /// When a lane that waits, or the kernel behind it, wants to be polled.
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        match &self.state {
            State::Waiting(until) => Some(*until),
            State::Connecting(_) | State::Over => None,
            State::Up(end, _) => match &**end {
                End::Stream(_) => None,
                End::Datagrams(end, _) => end.next_timeout(),
            },
        }
    }

    /// Over all connections of this lane: segments that the kernel had to send again, and what became of trains.
    pub(super) fn sent(&mut self) -> (u64, TrainReport) {
        let State::Up(end, _) = &mut self.state else { return self.past };
        let (retransmits, trains) = match &mut **end {
            End::Stream(end) => (end.retransmits(), TrainReport::default()),
            End::Datagrams(end, _) => (0, end.trains()),
        };
        (self.past.0 + retransmits, sum(self.past.1, trains))
    }

    fn begin(&mut self, end: End, welcome: &Welcome, core: &mut PacedSource, dialing: &Dialing) {
        let RunIdentity { run, epoch } = dialing.identity;
        let held = match welcome.checked_lane(run, epoch) {
            Ok(held) => held,
            Err(error) => return self.fail(core, &error),
        };
        if let Err(error) = core.handle_lane_connected(self.index, held.received, held.announced) {
            return self.fail(core, &error);
        }
        if let End::Datagrams(end, association) = &end {
            let path = end.path();
            core.associate(self.index, *association, Some(path.round_trip), end.datagram());
        }
        tracing::debug!(builder = self.builder.number(), address = self.address, "lane is up");
        self.state = State::Up(Box::new(end), clock::now());
    }

    fn fail(&mut self, core: &mut PacedSource, error: &dyn std::fmt::Display) {
        if !self.ending {
            tracing::warn!(builder = self.builder.number(), address = self.address, %error, "lane is down");
        }
        self.past = self.sent();
        core.handle_lane_disconnected(self.index);
        let now = clock::now();
        if let State::Up(_, since) = self.state
            && now.since(since) >= RETRY_LIMIT
        {
            self.wait = RETRY_FIRST;
        }
        self.state = State::Waiting(now + self.wait);
        self.wait = (self.wait * 2).min(RETRY_LIMIT);
    }
}

impl End {
    fn poll_input(
        &mut self,
        cx: &mut Context<'_>,
        core: &mut PacedSource,
        lane: usize,
        ranges: &mut Vec<Range<u64>>,
    ) -> Result<Progress, LaneEnd> {
        let end = match self {
            Self::Datagrams(end, _) => return end.poll_recv(cx, core, lane, clock::now()),
            Self::Stream(end) => end,
        };
        loop {
            match end.poll_recv(cx, ranges) {
                Poll::Pending => return Ok(Progress::Drained),
                Poll::Ready(Ok(FromBuilder::Grant { end: to })) => {
                    let waited = end.note_grant(core.granted(lane));
                    waited.into_iter().for_each(|waited| core.record_grant_wake(waited));
                    core.handle_grant(lane, to)?;
                }
                Poll::Ready(Ok(FromBuilder::Commit { offset })) => {
                    core.handle_commit(lane, offset, ranges)?;
                }
                Poll::Ready(Err(error)) => return Err(error),
            }
        }
    }

    fn poll_flush(
        &mut self,
        cx: &mut Context<'_>,
        core: &mut PacedSource,
        lane: usize,
    ) -> Poll<Result<(), LaneEnd>> {
        match self {
            Self::Stream(end) => {
                let flushed = end.poll_flush(cx, core, lane);
                end.take_answer_sample().into_iter().for_each(|took| core.record_grant_answer(took));
                flushed
            }
            Self::Datagrams(end, _) => end.poll_flush(cx, core, lane),
        }
    }
}

/// What became of two lots of trains.
pub(super) fn sum(one: TrainReport, other: TrainReport) -> TrainReport {
    TrainReport {
        send_drops: one.send_drops + other.send_drops,
        segmentation_refused: one.segmentation_refused + other.segmentation_refused,
        uncut: one.uncut + other.uncut,
    }
}
