//! [`open`]: a datagram socket with its options; [`listen`]: one for the datagrams of boards.

use std::{
    io,
    net::{IpAddr, SocketAddr, UdpSocket},
    os::fd::{AsFd as _, BorrowedFd},
};

use evb_core::units::Bytes;
use socket2::{Domain, Protocol, Socket, Type};

use super::{Buffers, DatagramSocket, UdpOptions};
use crate::{multicast, pacing::DatagramSender, sys_path, sys_udp};

/// Opens a datagram socket at a local address (port 0 lets the system choose), connected if a peer
/// is given. The socket's address is exclusive: other sockets can neither share it nor take over
/// its datagrams. Must be called inside a tokio runtime.
///
/// # Errors
/// Returns the system's error: the address is in use or does not belong to this host, there is no
/// route, no file descriptor is left, or the system is not Linux and has no such sockets.
pub fn open(local: SocketAddr, peer: Option<SocketAddr>, options: &UdpOptions) -> io::Result<DatagramSocket> {
    let socket = Socket::new(Domain::for_address(local), Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_nonblocking(true)?;
    if let Some(size) = options.receive_buffer {
        set_size(size, &socket, sys_udp::force_receive_buffer, Socket::set_recv_buffer_size)?;
    }
    if let Some(size) = options.send_buffer {
        set_size(size, &socket, sys_udp::force_send_buffer, Socket::set_send_buffer_size)?;
    }
    let half = |doubled: usize| Bytes::new(doubled as u64 / 2);
    let buffers =
        Buffers { receive: half(socket.recv_buffer_size()?), send: half(socket.send_buffer_size()?) };
    sys_path::never_fragment(&socket, local.is_ipv4())?;
    if local.is_ipv6() {
        // An IPv6 socket may also send IPv4 packets, to IPv4-mapped addresses, unless it is bound
        // to an address that is not mapped.
        sys_path::never_fragment(&socket, true)?;
    }
    sys_udp::set_gro(socket.as_fd())?;
    if !options.checksum {
        sys_udp::set_no_checksum(socket.as_fd(), local.is_ipv4())?;
    }
    options.class.apply(socket.as_fd())?;
    socket.bind(&local.into())?;
    if let Some(peer) = peer {
        socket.connect(&peer.into())?;
    }
    let mut sender = DatagramSender::over(UdpSocket::from(socket));
    if !options.checksum {
        sender.without_gso();
    }
    DatagramSocket::over(sender, local.is_ipv4(), buffers)
}

/// The place where datagrams of boards arrive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listening {
    /// Local address and port.
    pub address: SocketAddr,
    /// Multicast group that is joined; the socket receives only what is sent to it.
    pub group: Option<IpAddr>,
    /// Interface of the group: a name or, over IPv4, a local address.
    pub interface: Option<String>,
    /// The only sender whose datagrams are received. Several sockets of this host may have the same
    /// address if each has a sender of its own.
    pub from: Option<SocketAddr>,
    /// Number of bytes that may wait to be read; see [`UdpOptions::receive_buffer`].
    pub receive_buffer: Bytes,
}

/// Opens a socket that receives datagrams of boards. Must be called inside a tokio runtime.
///
/// # Errors
/// Returns the system's error: the address is in use or does not belong to this host, there is no
/// such interface, `group` is no multicast address, or no file descriptor is left.
pub fn listen(listening: &Listening) -> io::Result<DatagramSocket> {
    let Listening { address, group, interface, from, receive_buffer } = listening;
    let socket = Socket::new(Domain::for_address(*address), Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_nonblocking(true)?;
    // Several inputs may take the datagrams of one port: of other groups, or of other senders.
    socket.set_reuse_address(group.is_some() || from.is_some())?;
    set_size(*receive_buffer, &socket, sys_udp::force_receive_buffer, Socket::set_recv_buffer_size)?;
    sys_udp::set_gro(socket.as_fd())?;
    match group {
        Some(group) => {
            let group = SocketAddr::new(*group, address.port());
            multicast::bind_and_join(&socket, group, interface.as_deref())?;
        }
        None => socket.bind(&(*address).into())?,
    }
    if let Some(from) = from {
        socket.connect(&(*from).into())?;
    }
    let half = |doubled: usize| Bytes::new(doubled as u64 / 2);
    let buffers =
        Buffers { receive: half(socket.recv_buffer_size()?), send: half(socket.send_buffer_size()?) };
    DatagramSocket::over(DatagramSender::over(UdpSocket::from(socket)), address.is_ipv4(), buffers)
}

/// Sets the size of a socket buffer: beyond the system's limit if this process may do so, else up
/// to the limit.
fn set_size(
    size: Bytes,
    socket: &Socket,
    force: impl FnOnce(BorrowedFd<'_>, i32) -> io::Result<()>,
    ask: impl FnOnce(&Socket, usize) -> io::Result<()>,
) -> io::Result<()> {
    // Linux stores twice the requested buffer size in a C `int`.
    let size = i32::try_from(size.count()).unwrap_or(i32::MAX).min(i32::MAX / 2);
    force(socket.as_fd(), size).or_else(|_| ask(socket, size as usize))
}
