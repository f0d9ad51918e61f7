//! The source's connections to its builders: connect, hold, connect again.

use std::{
    future::Future,
    net::IpAddr,
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
        preamble::ConnectionKind,
    },
};
use evb_net::{
    clock,
    control::{ConnectError, open},
    handshake::{HandshakeError, connect_handshake},
    lane::{FromBuilder, LaneOptions, SourceEnd},
    pacing::Executor,
};
use evb_shaper::PacedSource;
use tokio::net::TcpStream;

use crate::role::RunIdentity;

/// How long a lane waits before it tries again, doubled at each failure up to the limit, until a connection has lasted that
/// long (docs/protocol.md CONN-11).
const RETRY_FIRST: Duration = Duration::from_millis(50);
const RETRY_LIMIT: Duration = Duration::from_secs(1);

type Connecting = Pin<Box<dyn Future<Output = Result<(TcpStream, Welcome), ConnectError>>>>;

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
    Up(Box<SourceEnd>, Instant),
    Waiting(Instant),
}

/// What every lane's connection needs to know.
pub(super) struct Dialing {
    pub(super) source: SourceId,
    pub(super) identity: RunIdentity,
    pub(super) bind: Option<IpAddr>,
    pub(super) options: LaneOptions,
    pub(super) executor: Arc<dyn Executor>,
}

impl Dialing {
    fn dial(&self, address: String, builder: BuilderId, rate: Option<Rate>) -> Connecting {
        let hello = Hello {
            epoch: self.identity.epoch.number(),
            run: self.identity.run.number(),
            ..Hello::new(Peer::Source(self.source), Peer::Builder(builder))
        };
        let (bind, options, executor) = (self.bind, self.options.clone(), Arc::clone(&self.executor));
        Box::pin(async move {
            let mut stream = open(&address, bind).await?;
            let unreachable = |reason| ConnectError::Unreachable { address: address.clone(), reason };
            options.apply(&stream).map_err(unreachable)?;
            if rate.is_some() {
                executor.prepare(stream.as_fd(), rate).map_err(unreachable)?;
            }
            let peer = stream.peer_addr().map_err(unreachable)?;
            match connect_handshake(&mut stream, ConnectionKind::Lane, &hello).await {
                Ok(welcome) => Ok((stream, welcome)),
                Err(HandshakeError::Refused(refusal)) => {
                    Err(ConnectError::Refused { address: peer, refusal })
                }
                Err(error) => Err(ConnectError::Handshake { address: peer, error }),
            }
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

    /// Takes in what the builder says, and connects where there is no connection.
    pub(super) fn poll_input(
        &mut self,
        cx: &mut Context<'_>,
        core: &mut PacedSource,
        dialing: &Dialing,
        ranges: &mut Vec<Range<u64>>,
        recycle: &mut dyn FnMut(bytes::Bytes),
    ) {
        loop {
            match &mut self.state {
                State::Waiting(until) if *until <= clock::now() => {
                    self.state =
                        State::Connecting(dialing.dial(self.address.clone(), self.builder, self.rate));
                }
                State::Waiting(_) => return,
                State::Connecting(connecting) => match connecting.as_mut().poll(cx) {
                    Poll::Pending => return,
                    Poll::Ready(Ok((stream, welcome))) => self.begin(stream, &welcome, core, dialing),
                    Poll::Ready(Err(error)) => self.fail(core, &error),
                },
                State::Up(end, _) => match end.poll_recv(cx, ranges) {
                    Poll::Pending => return,
                    Poll::Ready(Ok(FromBuilder::Grant { end })) => {
                        if let Err(error) = core.handle_grant(self.index, end) {
                            self.fail(core, &error);
                        }
                    }
                    Poll::Ready(Ok(FromBuilder::Commit { offset })) => {
                        if let Err(error) = core.handle_commit(self.index, offset, ranges, &mut *recycle) {
                            self.fail(core, &error);
                        }
                    }
                    Poll::Ready(Err(error)) => self.fail(core, &error),
                },
            }
        }
    }

    /// The run is ending.
    pub(super) fn end_run(&mut self) {
        self.ending = true;
    }

    /// Announcements to send, if the lane is up.
    pub(super) fn end(&mut self) -> Option<&mut SourceEnd> {
        match &mut self.state {
            State::Up(end, _) => Some(end),
            State::Connecting(_) | State::Waiting(_) => None,
        }
    }

    /// Writes what is queued.
    pub(super) fn poll_flush(&mut self, cx: &mut Context<'_>, core: &mut PacedSource) {
        if let State::Up(end, _) = &mut self.state
            && let Poll::Ready(Err(error)) = end.poll_flush(cx, core, self.index)
        {
            self.fail(core, &error);
        }
    }

    /// When a lane that waits wants to be polled.
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        match &self.state {
            State::Waiting(until) => Some(*until),
            State::Connecting(_) | State::Up(..) => None,
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

    fn begin(&mut self, stream: TcpStream, welcome: &Welcome, core: &mut PacedSource, dialing: &Dialing) {
        let RunIdentity { run, epoch } = dialing.identity;
        let held = match welcome.checked_lane(run, epoch) {
            Ok(held) => held,
            Err(error) => return self.fail(core, &error),
        };
        match core.handle_lane_connected(self.index, held.received, held.announced) {
            Ok(()) => {
                tracing::debug!(builder = self.builder.number(), address = self.address, "lane is up");
                self.state = State::Up(Box::new(SourceEnd::new(stream)), clock::now());
            }
            Err(error) => self.fail(core, &error),
        }
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
