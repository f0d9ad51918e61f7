//! What sockets get of what they ask for. Measured on sockets of our own.

#[cfg(test)]
mod tests;

use std::{
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
};

use evb_core::units::Bytes;
use socket2::{Domain, Protocol, Socket, Type};

use super::{Fact, Unavailable};
use crate::sys_path;

/// A size asked for and what the kernel gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Size that was asked for.
    pub asked: Bytes,
    /// Size that the socket got: half of the kernel's figure, since the kernel doubles what it
    /// grants for its own bookkeeping (socket(7)).
    pub got: Bytes,
}

/// `SO_RCVBUF`, asked and read back.
///
/// # Errors
/// Fails if no socket can be created.
pub fn receive_buffer(asked: Bytes) -> Fact<Asked> {
    let got = || {
        let socket = udp(IpAddr::V4(Ipv4Addr::LOCALHOST))?;
        socket.set_recv_buffer_size(asked.as_usize())?;
        socket.recv_buffer_size()
    };
    measured(asked, got())
}

/// `SO_SNDBUF`, asked and read back.
///
/// # Errors
/// Fails if no socket can be created.
pub fn send_buffer(asked: Bytes) -> Fact<Asked> {
    let got = || {
        let socket = udp(IpAddr::V4(Ipv4Addr::LOCALHOST))?;
        socket.set_send_buffer_size(asked.as_usize())?;
        socket.send_buffer_size()
    };
    measured(asked, got())
}

fn measured(asked: Bytes, got: io::Result<usize>) -> Fact<Asked> {
    match got {
        Ok(doubled) => Ok(Asked { asked, got: Bytes::new(doubled as u64 / 2) }),
        Err(error) => Err(Unavailable::from_io("socket buffer", &error)),
    }
}

/// The congestion control of a new TCP socket, after asking for one, or not.
///
/// # Errors
/// The system does not say.
#[cfg(target_os = "linux")]
pub fn congestion_control(asked: Option<&str>) -> Fact<String> {
    let got = || {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
        if let Some(name) = asked {
            // Refused, the socket keeps what it has: that is the answer.
            let _ = socket.set_tcp_congestion(name.as_bytes());
        }
        socket.tcp_congestion()
    };
    let name = got().map_err(|error: io::Error| Unavailable::from_io("congestion control", &error))?;
    Ok(String::from_utf8_lossy(&name).trim_end_matches('\0').to_owned())
}

/// The congestion control of a new TCP socket.
///
/// # Errors
/// Read on Linux only.
#[cfg(not(target_os = "linux"))]
pub fn congestion_control(_asked: Option<&str>) -> Fact<String> {
    Err(Unavailable::new("can be read on Linux only"))
}

/// Returns the largest IP packet that, as far as the kernel knows, reaches `to`: by device, route,
/// and recent reports of routers.
///
/// # Errors
/// There is no way to it.
pub fn path_mtu(to: IpAddr) -> Fact<u32> {
    let mtu = || {
        let socket = udp(to)?;
        // A UDP socket says nothing to its peer when it connects.
        socket.connect(&SocketAddr::new(to, 9).into())?;
        sys_path::path_mtu(&socket, to.is_ipv4())
    };
    mtu().map_err(|error: io::Error| Unavailable::from_io(format_args!("path MTU to {to}"), &error))
}

fn udp(like: IpAddr) -> io::Result<Socket> {
    Socket::new(Domain::for_address(SocketAddr::new(like, 0)), Type::DGRAM, Some(Protocol::UDP))
}
