//! Connects a source's lanes: a handshake over TCP, and for UDP also a socket and a path.

use std::{
    future::Future,
    io::ErrorKind,
    net::{IpAddr, SocketAddr},
    os::fd::AsFd as _,
    pin::Pin,
    sync::Arc,
};

use evb_core::{
    session::{Dial, OPENING},
    units::Rate,
    wire::{control::Welcome, preamble::ConnectionKind},
};
use evb_net::{
    control::{ConnectError, open},
    handshake::{Channel, HandshakeError},
    host::link,
    lane::{
        LaneOptions, SourceEnd,
        datagrams::{SourceDatagrams, probe_tagged, round_trip},
    },
    pacing::{Executor, Transport},
    security::{DatagramTags, Security},
    udp,
};
use evb_shaper::role::LanePath;

use super::{SourceConfig, end::End};

/// A connection that is being opened.
pub(super) type Connecting = Pin<Box<dyn Future<Output = Result<Connected, ConnectError>>>>;

/// An open connection, the builder's answer, and the path of its datagrams, if it uses datagrams.
pub(super) type Connected = (End, Welcome, Option<LanePath>);

/// Settings of every lane's connection.
#[derive(Clone)]
pub(super) struct Dialing {
    bind: Option<IpAddr>,
    transport: Transport,
    mtu: u32,
    options: LaneOptions,
    executor: Arc<dyn Executor>,
    security: Security,
}

impl Dialing {
    pub(super) fn new(config: &SourceConfig) -> Self {
        Self {
            bind: config.bind,
            transport: config.transport,
            mtu: config.mtu,
            options: config.lane.clone(),
            executor: Arc::clone(&config.pacing.executor),
            security: config.security.clone(),
        }
    }

    /// Begins to connect. `rate` is the rate that the kernel enforces on the lane's socket, if the
    /// kernel paces sockets.
    pub(super) fn dial(&self, dial: Dial, rate: Option<Rate>) -> Connecting {
        let dialing = self.clone();
        Box::pin(async move { dialing.connect(dial, rate).await })
    }

    async fn connect(self, dial: Dial, rate: Option<Rate>) -> Result<Connected, ConnectError> {
        let unreachable = |reason| ConnectError::Unreachable { address: dial.address.clone(), reason };
        let Self { bind, transport, options, executor, security, .. } = &self;
        let opening = open(&dial.address, *bind, options.congestion_control.as_deref());
        let opening = tokio::time::timeout(OPENING, opening).await;
        let stream = opening.unwrap_or_else(|_| Err(unreachable(ErrorKind::TimedOut.into())))?;
        options.apply(&stream).map_err(unreachable)?;
        if rate.is_some() && *transport == Transport::Tcp {
            executor.prepare(stream.as_fd(), rate).map_err(unreachable)?;
        }
        let peer = stream.peer_addr().map_err(unreachable)?;
        let (channel, welcome) =
            match Channel::connect(stream, ConnectionKind::Lane, &dial.hello, security).await {
                Ok(shaken) => shaken,
                Err(HandshakeError::Refused(refusal)) => {
                    return Err(ConnectError::Refused { address: peer, refusal });
                }
                Err(error) => return Err(ConnectError::Handshake { address: peer, error }),
            };
        match transport {
            Transport::Tcp => Ok((End::Stream(SourceEnd::new(channel)), welcome, None)),
            Transport::Udp => self.begin_datagrams(&dial, (channel, peer), welcome, rate).await,
        }
    }

    /// Opens a datagram socket besides the TCP connection, and finds a path for its datagrams.
    async fn begin_datagrams(
        &self,
        dial: &Dial,
        (channel, peer): (Channel, SocketAddr),
        welcome: Welcome,
        rate: Option<Rate>,
    ) -> Result<Connected, ConnectError> {
        let unreachable = |reason| ConnectError::Unreachable { address: dial.address.clone(), reason };
        let (stream, session) = channel.into_parts();
        let mut tags = session.map(|session| DatagramTags::new(session.keys()));
        let association = dial.association(&welcome).map_err(|fault| {
            let error = HandshakeError::Malformed(fault.to_string());
            ConnectError::Handshake { address: peer, error }
        })?;
        let local = SocketAddr::new(stream.local_addr().map_err(unreachable)?.ip(), 0);
        let mut socket = udp::open(local, Some(peer), &self.options.datagrams()).map_err(unreachable)?;
        let estimate = round_trip(&stream).unwrap_or_default();
        let path = probe_tagged(&mut socket, peer, association, self.mtu, estimate, &mut tags).await?;
        if path.mtu < self.mtu {
            tracing::warn!(
                builder = association.builder.number(),
                packets = path.mtu,
                mtu = self.mtu,
                "packets of the configured MTU do not reach the builder; set network.mtu to the size of `packets`, so that grants count the right bytes"
            );
        }
        socket.prepare(&*self.executor, rate).map_err(unreachable)?;
        // The kernel would cut longer trains into packets, and sending each packet would cost as
        // much as sending a train.
        let by_device = link::longest_train(peer.ip(), local.ip());
        let train = self.options.train.into_iter().chain(by_device).min();
        let end = SourceDatagrams::new(stream, socket, path).tagged(tags).in_trains_of(train);
        let (round_trip, datagram) = (Some(path.round_trip), end.datagram());
        let path = LanePath { association, round_trip, datagram };
        Ok((End::Datagrams(Box::new(end)), welcome, Some(path)))
    }
}
