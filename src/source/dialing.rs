//! Connects a source's lanes: a handshake over TCP, and for UDP also a socket and a path.

#[cfg(feature = "udp")]
mod datagrams;

use std::{
    future::Future,
    io::{self, ErrorKind},
    net::IpAddr,
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
    lane::{LaneOptions, SourceEnd},
    pacing::{Executor, Transport},
    security::Security,
};
use evb_shaper::role::LanePath;

use super::{SourceConfig, end::End};

/// A connection that is being opened.
pub(super) type Connecting = Pin<Box<dyn Future<Output = Result<Connected, ConnectError>>>>;

/// An open connection, the builder's answer, and the path of its datagrams, if it uses datagrams.
pub(super) type Connected = (Box<dyn End>, Welcome, Option<LanePath>);

/// Settings of every lane's connection.
#[derive(Clone)]
pub(super) struct Dialing {
    bind: Option<IpAddr>,
    transport: Transport,
    #[cfg_attr(not(feature = "udp"), expect(dead_code, reason = "only datagrams are as long as packets"))]
    mtu: u32,
    options: LaneOptions,
    executor: Arc<dyn Executor>,
    security: Security,
}

impl Dialing {
    /// Takes from the configuration what a new lane needs.
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

    /// Connects a lane: opens the connection, sets its options and rate, and shakes hands with the
    /// builder.
    async fn connect(self, dial: Dial, rate: Option<Rate>) -> Result<Connected, ConnectError> {
        let unreachable = |reason| ConnectError::Unreachable { address: dial.address.clone(), reason };
        let unready = |reason: io::Error| unreachable(not_set_up(&reason));
        let Self { bind, transport, options, executor, security, .. } = &self;
        let opening = open(&dial.address, *bind, options.congestion_control.as_deref());
        let opening = tokio::time::timeout(OPENING, opening).await;
        let stream = opening.unwrap_or_else(|_| Err(unreachable(ErrorKind::TimedOut.into())))?;
        options.apply(&stream).map_err(unready)?;
        if rate.is_some() && *transport == Transport::Tcp {
            executor.prepare(stream.as_fd(), rate).map_err(unready)?;
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
            #[cfg(feature = "udp")]
            Transport::Udp => datagrams::begin(&self, &dial, (channel, peer), welcome, rate).await,
            // Without the feature `udp`, a source refuses that transport before it dials.
            _ => Ok((Box::new(SourceEnd::new(channel)), welcome, None)),
        }
    }
}

/// Returns the error of a connection for which this host refuses an option.
fn not_set_up(reason: &io::Error) -> io::Error {
    let words = format!(
        "this host cannot set up the connection: {reason}; `evbd doctor` shows what this host permits"
    );
    io::Error::new(reason.kind(), words)
}
