//! The options of lanes' sockets.

use std::{io, net::SocketAddr, os::fd::AsFd as _};

use evb_core::{session::LANE_UNACKNOWLEDGED, units::Bytes};
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::net::{TcpListener, TcpStream};

use crate::{class::TrafficClass, congestion, udp::UdpOptions};

/// Options of a lane's socket; where an option is `None`, the operating system's default applies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneOptions {
    /// True to send small records at once (`TCP_NODELAY`); otherwise grants wait for TCP
    /// acknowledgements.
    pub nodelay: bool,
    /// Congestion control, by the kernel's name; `None` selects cubic if this process may use it.
    /// Grants bound the bytes in flight, so the congestion control decides only how losses are
    /// repaired, and if the kernel paces by itself (BBR does, which costs 1 to 3 % of a link).
    pub congestion_control: Option<String>,
    /// Size of the send buffer (`SO_SNDBUF`), which the kernel doubles.
    pub send_buffer: Option<Bytes>,
    /// Size of the receive buffer (`SO_RCVBUF`), which the kernel doubles. The size is set before
    /// the connection, because the TCP window scale depends on it.
    pub receive_buffer: Option<Bytes>,
    /// Differentiated services code point: the six bits by which switches classify packets (RFC
    /// 2474).
    pub dscp: Option<u8>,
    /// Value of `SO_PRIORITY`, by which this host's queueing disciplines classify packets.
    pub priority: Option<u32>,
    /// Maximum bytes of a lane's datagrams, without IP and UDP headers, that go to the kernel as
    /// one train; with `None`, a train has as many bytes as the kernel takes.
    pub train: Option<Bytes>,
}

impl Default for LaneOptions {
    fn default() -> Self {
        Self {
            nodelay: true,
            congestion_control: None,
            send_buffer: None,
            receive_buffer: None,
            dscp: None,
            priority: None,
            train: None,
        }
    }
}

impl LaneOptions {
    /// Returns these options for a datagram socket.
    pub fn datagrams(&self) -> UdpOptions {
        UdpOptions {
            receive_buffer: self.receive_buffer,
            send_buffer: self.send_buffer,
            class: TrafficClass { dscp: self.dscp, priority: self.priority },
            ..UdpOptions::default()
        }
    }

    /// Sets the options on a connected socket, except those that must be set before the connection,
    /// in [`listen`] and [`crate::control::open`]. If this process may not set the congestion
    /// control or the priority, the log says so and the setting stays unchanged.
    ///
    /// # Errors
    /// An I/O error of the operating system, if the socket is no longer usable.
    pub fn apply(&self, stream: &TcpStream) -> io::Result<()> {
        stream.set_nodelay(self.nodelay)?;
        let socket = SockRef::from(stream);
        congestion::keep(SockRef::from(stream), self.congestion_control.as_deref());
        if let Some(size) = self.send_buffer {
            socket.set_send_buffer_size(size.as_usize())?;
        }
        // A lane needs no keepalive: a peer that is dead while the lane is idle is noticed on its
        // control connection. Probes on the lanes of thousands of sources would cost a core.
        #[cfg(target_os = "linux")]
        socket.set_tcp_user_timeout(Some(LANE_UNACKNOWLEDGED))?;
        TrafficClass { dscp: self.dscp, priority: self.priority }.apply(stream.as_fd())
    }
}

/// Listens for the connections of lanes; after a restart, a process can listen on the same port at
/// once.
///
/// # Errors
/// Fails if the address is in use, or does not belong to this host.
pub fn listen(address: SocketAddr, options: &LaneOptions) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    socket.set_reuse_address(true)?;
    congestion::choose(SockRef::from(&socket), options.congestion_control.as_deref());
    if let Some(size) = options.receive_buffer {
        socket.set_recv_buffer_size(size.as_usize())?;
    }
    socket.bind(&address.into())?;
    socket.listen(1024)?;
    TcpListener::from_std(socket.into())
}
