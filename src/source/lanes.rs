//! The source's connections to its builders: connect, hold, connect again.

use std::{
    future::Future,
    net::{IpAddr, SocketAddr},
    ops::Range,
    os::fd::AsFd as _,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use evb_core::{
    id::{BuilderId, Peer, SourceId},
    time::Instant,
    units::Rate,
    wire::{
        control::{Hello, Welcome},
        datagram::Association,
        preamble::ConnectionKind,
    },
};
use evb_net::{
    clock,
    control::{ConnectError, open},
    handshake::{HandshakeError, connect_handshake},
    lane::{
        FromBuilder, LaneEnd, LaneOptions, Progress, SourceEnd,
        datagrams::{SourceDatagrams, probe, round_trip},
    },
    pacing::{Executor, Transport},
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

type Connecting = Pin<Box<dyn Future<Output = Result<(End, Welcome), ConnectError>>>>;

/// The connection to one builder.
pub(super) struct Lane {
    index: usize,
    builder: BuilderId,
    address: String,
    /// What its socket is asked to keep to, if the kernel paces sockets.
    rate: Option<Rate>,
    state: State,
    wait: Duration,
    retransmits: u64,
    /// The run is ending: builders close their lanes, and that is no news.
    ending: bool,
}

enum State {
    Connecting(Connecting),
    Up(Box<End>, Instant),
    Waiting(Instant),
}

/// The source's end of a connection.
pub(super) enum End {
    Stream(SourceEnd),
    Datagrams(Box<SourceDatagrams>, Association),
}

/// What every lane's connection needs to know.
pub(super) struct Dialing {
    pub(super) source: SourceId,
    pub(super) identity: RunIdentity,
    pub(super) bind: Option<IpAddr>,
    pub(super) transport: Transport,
    pub(super) mtu: u32,
    pub(super) options: LaneOptions,
    pub(super) executor: Arc<dyn Executor>,
}

impl Dialing {
    fn dial(&self, address: String, builder: BuilderId, rate: Option<Rate>) -> Connecting {
        let datagrams = self.transport == Transport::Udp;
        let hello = Hello {
            epoch: self.identity.epoch.number(),
            run: self.identity.run.number(),
            datagrams,
            ..Hello::new(Peer::Source(self.source), Peer::Builder(builder))
        };
        let (bind, options, executor) = (self.bind, self.options.clone(), Arc::clone(&self.executor));
        let (epoch, source, mtu) = (self.identity.epoch, self.source, self.mtu);
        Box::pin(async move {
            let mut stream = open(&address, bind).await?;
            let unreachable = |reason| ConnectError::Unreachable { address: address.clone(), reason };
            options.apply(&stream).map_err(unreachable)?;
            if rate.is_some() && !datagrams {
                executor.prepare(stream.as_fd(), rate).map_err(unreachable)?;
            }
            let peer = stream.peer_addr().map_err(unreachable)?;
            let welcome = match connect_handshake(&mut stream, ConnectionKind::Lane, &hello).await {
                Ok(welcome) => welcome,
                Err(HandshakeError::Refused(refusal)) => {
                    return Err(ConnectError::Refused { address: peer, refusal });
                }
                Err(error) => return Err(ConnectError::Handshake { address: peer, error }),
            };
            if !datagrams {
                return Ok((End::Stream(SourceEnd::new(stream)), welcome));
            }
            let connection = welcome.checked_connection().map_err(|fault| {
                let error = HandshakeError::Malformed(fault.to_string());
                ConnectError::Handshake { address: peer, error }
            })?;
            let association = Association { epoch, source, builder, connection };
            let local = SocketAddr::new(stream.local_addr().map_err(unreachable)?.ip(), 0);
            let mut socket = udp::open(local, Some(peer), &options.datagrams()).map_err(unreachable)?;
            let estimate = round_trip(&stream).unwrap_or_default();
            let path = probe(&mut socket, peer, association, mtu, estimate).await?;
            if path.mtu < mtu {
                tracing::warn!(
                    builder = builder.number(),
                    packets = path.mtu,
                    mtu,
                    "larger packets do not get through; set network.mtu to that, so that grants are counted right"
                );
            }
            socket.prepare(&*executor, rate).map_err(unreachable)?;
            let end = SourceDatagrams::new(stream, socket, path);
            Ok((End::Datagrams(Box::new(end), association), welcome))
        })
    }
}

impl Lane {
    pub(super) fn new(
        index: usize,
        builder: BuilderId,
        address: String,
        rate: Option<Rate>,
        dialing: &Dialing,
    ) -> Self {
        let state = State::Connecting(dialing.dial(address.clone(), builder, rate));
        Self { index, builder, address, rate, state, wait: RETRY_FIRST, retransmits: 0, ending: false }
    }

    /// Takes in what the builder says, and connects where there is no connection; whether there may be more.
    pub(super) fn poll_input(
        &mut self,
        cx: &mut Context<'_>,
        core: &mut PacedSource,
        dialing: &Dialing,
        ranges: &mut Vec<Range<u64>>,
        recycle: &mut dyn FnMut(bytes::Bytes),
    ) -> bool {
        loop {
            match &mut self.state {
                State::Waiting(until) if *until <= clock::now() => {
                    self.state =
                        State::Connecting(dialing.dial(self.address.clone(), self.builder, self.rate));
                }
                State::Waiting(_) => return false,
                State::Connecting(connecting) => match connecting.as_mut().poll(cx) {
                    Poll::Pending => return false,
                    Poll::Ready(Ok((end, welcome))) => self.begin(end, &welcome, core, dialing),
                    Poll::Ready(Err(error)) => self.fail(core, &error),
                },
                State::Up(end, _) => match end.poll_input(cx, core, self.index, ranges, &mut *recycle) {
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
                End::Stream(end) => core.announce(self.index, &mut end.announcements),
                // What waits says the same, or will be followed.
                End::Datagrams(end, _) if !end.records.is_empty() => core.put_off(self.index, now + LATER),
                End::Datagrams(end, _) => {
                    core.set_answering(self.index, end.is_answering());
                    core.write_datagram(self.index, now, &mut end.records);
                }
            },
            State::Connecting(_) | State::Waiting(_) => return false,
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
            State::Connecting(_) => None,
            State::Up(end, _) => match &**end {
                End::Stream(_) => None,
                End::Datagrams(end, _) => end.next_timeout(),
            },
        }
    }

    /// Segments that had to be sent again, over all connections of this lane.
    pub(super) fn retransmits(&self) -> u64 {
        let current = match &self.state {
            State::Up(end, _) => end.retransmits(),
            State::Connecting(_) | State::Waiting(_) => 0,
        };
        self.retransmits + current
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
            core.associate(self.index, *association, Some(path.round_trip), path.datagram);
        }
        tracing::debug!(builder = self.builder.number(), address = self.address, "lane is up");
        self.state = State::Up(Box::new(end), clock::now());
    }

    fn fail(&mut self, core: &mut PacedSource, error: &dyn std::fmt::Display) {
        if !self.ending {
            tracing::warn!(builder = self.builder.number(), address = self.address, %error, "lane is down");
        }
        self.retransmits = self.retransmits();
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
        recycle: &mut dyn FnMut(bytes::Bytes),
    ) -> Result<Progress, LaneEnd> {
        let end = match self {
            Self::Datagrams(end, _) => return end.poll_recv(cx, core, lane, clock::now(), recycle),
            Self::Stream(end) => end,
        };
        loop {
            match end.poll_recv(cx, ranges) {
                Poll::Pending => return Ok(Progress::Drained),
                Poll::Ready(Ok(FromBuilder::Grant { end })) => core.handle_grant(lane, end)?,
                Poll::Ready(Ok(FromBuilder::Commit { offset })) => {
                    core.handle_commit(lane, offset, ranges, &mut *recycle)?;
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
            Self::Stream(end) => end.poll_flush(cx, core, lane),
            Self::Datagrams(end, _) => end.poll_flush(cx, core, lane),
        }
    }

    /// Segments that the kernel had to send again.
    fn retransmits(&self) -> u64 {
        match self {
            Self::Stream(end) => end.retransmits(),
            Self::Datagrams(..) => 0,
        }
    }
}
