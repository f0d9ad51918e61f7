//! The sockets that carry the measured data.

use std::{
    io,
    net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket},
    time::{Duration, Instant},
};

use evb_core::units::Bytes;
use serde::{Deserialize, Serialize};
use socket2::{Domain, Protocol, SockRef, Socket, Type};

/// Requested settings of a socket that carries measured data; `None` keeps the system's default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SocketWishes {
    /// Size of the send and of the receive buffer, in bytes.
    pub(crate) buffer: Option<u32>,
    /// Largest TCP payload of a packet (`TCP_MAXSEG`), in bytes.
    pub(crate) mss: Option<u32>,
}

impl SocketWishes {
    fn socket(self, local: SocketAddr, kind: Type) -> io::Result<Socket> {
        let protocol = if kind == Type::STREAM { Protocol::TCP } else { Protocol::UDP };
        let socket = Socket::new(Domain::for_address(local), kind, Some(protocol))?;
        if let Some(buffer) = self.buffer {
            socket.set_send_buffer_size(buffer as usize)?;
            socket.set_recv_buffer_size(buffer as usize)?;
        }
        if let Some(mss) = self.mss.filter(|_| kind == Type::STREAM) {
            socket.set_tcp_mss(mss)?;
        }
        socket.bind(&local.into())?;
        Ok(socket)
    }
}

/// Returns the sizes of the send and receive buffer that the kernel granted. The kernel reports
/// twice the granted size, because it needs room for its own bookkeeping (socket(7)).
pub(crate) fn granted<'s>(socket: impl Into<SockRef<'s>>) -> io::Result<(Bytes, Bytes)> {
    let socket = socket.into();
    let half = |size: usize| Bytes::new(size as u64 / 2);
    Ok((half(socket.send_buffer_size()?), half(socket.recv_buffer_size()?)))
}

/// Opens a listening socket whose connections have these settings.
pub(crate) fn tcp_listener(local: SocketAddr, wishes: SocketWishes) -> io::Result<TcpListener> {
    let socket = wishes.socket(local, Type::STREAM)?;
    socket.listen(4)?;
    Ok(socket.into())
}

/// Accepts a connection from `peer` within `patience`; connections from other hosts are closed.
pub(crate) fn accept_from(listener: &TcpListener, peer: IpAddr, patience: Duration) -> io::Result<TcpStream> {
    let end = Instant::now() + patience;
    loop {
        let left = end.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        // A timeout for received data applies to `accept` as well (socket(7)).
        SockRef::from(listener).set_read_timeout(Some(left))?;
        match listener.accept() {
            Ok((stream, from)) if from.ip() == peer => return Ok(stream),
            Ok(_) if Instant::now() < end => {}
            Ok(_) => return Err(io::ErrorKind::TimedOut.into()),
            Err(error) if is_timeout(&error) => {
                return Err(io::ErrorKind::TimedOut.into());
            }
            Err(error) => return Err(error),
        }
    }
}

/// Connects to a listening socket.
pub(crate) fn tcp_connect(
    local: SocketAddr,
    to: SocketAddr,
    wishes: SocketWishes,
    patience: Duration,
) -> io::Result<TcpStream> {
    let socket = wishes.socket(local, Type::STREAM)?;
    socket.connect_timeout(&to.into(), patience)?;
    Ok(socket.into())
}

/// Opens a socket for datagrams.
pub(crate) fn udp_socket(local: SocketAddr, wishes: SocketWishes) -> io::Result<UdpSocket> {
    Ok(wishes.socket(local, Type::DGRAM)?.into())
}

/// Returns true if a socket's wait has reached its time limit.
pub(crate) fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}
