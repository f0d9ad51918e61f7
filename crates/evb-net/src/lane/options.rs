//! What is set on the sockets of lanes.

use std::{io, net::SocketAddr, os::fd::AsFd as _, time::Duration};

use evb_core::{session::LANE_UNACKNOWLEDGED, units::Bytes};
use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use tokio::net::{TcpListener, TcpStream};

use crate::{class::TrafficClass, congestion, udp::UdpOptions};

/// Options of a lane's socket; what is `None` is left to the system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneOptions {
    /// Send small records at once (`TCP_NODELAY`); without it, grants wait for acknowledgements.
    pub nodelay: bool,
    /// The congestion control, by the kernel's name; `None` selects cubic where this process may
    /// choose it. Grants bound the bytes under way, so the choice decides how losses are repaired,
    /// and if the kernel paces on its own (BBR does, and costs 1 to 3 % of a link).
    pub congestion_control: Option<String>,
    /// `SO_SNDBUF`; the kernel doubles it.
    pub send_buffer: Option<Bytes>,
    /// `SO_RCVBUF`, set before the connection so that the window scale follows it; the kernel
    /// doubles it.
    pub receive_buffer: Option<Bytes>,
    /// The six bits by which switches classify (RFC 2474).
    pub dscp: Option<u8>,
    /// `SO_PRIORITY`, by which this host's queueing disciplines classify.
    pub priority: Option<u32>,
    /// Bytes of a lane's datagrams, without headers of IP and UDP, that go to the kernel as one
    /// train; with `None`, as many as it takes.
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

    /// Sets the options on a connected socket, except those that must be set earlier ([`listen`],
    /// and [`crate::control::open`]). An option that the system refuses is reported, once per call,
    /// and left as it is.
    ///
    /// # Errors
    /// The system's, on a socket that is broken already.
    pub fn apply(&self, stream: &TcpStream) -> io::Result<()> {
        stream.set_nodelay(self.nodelay)?;
        let socket = SockRef::from(stream);
        congestion::keep(SockRef::from(stream), self.congestion_control.as_deref());
        let second = Duration::from_secs(1);
        socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(second).with_interval(second))?;
        if let Some(size) = self.send_buffer {
            socket.set_send_buffer_size(size.as_usize())?;
        }
        #[cfg(target_os = "linux")]
        socket.set_tcp_user_timeout(Some(LANE_UNACKNOWLEDGED))?;
        TrafficClass { dscp: self.dscp, priority: self.priority }.apply(stream.as_fd())
    }
}

/// Listens for lanes, ready to be restarted on the same port at once.
///
/// # Errors
/// The system's: the address is taken, or not ours.
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
