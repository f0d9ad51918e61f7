//! The settings that the kernel grants to sockets, measured on sockets that this module opens.

#[cfg(test)]
mod tests;

use std::{
    io,
    net::{IpAddr, SocketAddr},
};

use socket2::{Domain, Protocol, Socket, Type};

use super::{Fact, Unavailable};
use crate::sys_path;

/// Returns the congestion control of a new TCP socket, which requests `asked` first if given.
///
/// # Errors
/// Fails if the system does not report the congestion control.
#[cfg(target_os = "linux")]
pub fn congestion_control(asked: Option<&str>) -> Fact<String> {
    let got = || {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
        if let Some(name) = asked {
            // If the kernel refuses the request, the socket keeps its default, which is then
            // returned.
            let _ = socket.set_tcp_congestion(name.as_bytes());
        }
        socket.tcp_congestion()
    };
    let name = got().map_err(|error: io::Error| Unavailable::from_io("congestion control", &error))?;
    Ok(String::from_utf8_lossy(&name).trim_end_matches('\0').to_owned())
}

/// Always fails outside Linux: reading the congestion control is implemented on Linux only.
///
/// # Errors
/// The congestion control can be read on Linux only.
#[cfg(not(target_os = "linux"))]
pub fn congestion_control(_asked: Option<&str>) -> Fact<String> {
    Err(Unavailable::new("the congestion control can be read on Linux only"))
}

/// Returns the size of the largest IP packet that reaches `to`, as far as the kernel knows it from
/// the device, the route, and recent reports of routers.
///
/// # Errors
/// Fails if there is no route to `to`.
pub fn path_mtu(to: IpAddr) -> Fact<u32> {
    let mtu = || {
        let socket = udp(to)?;
        // Connecting a UDP socket sends nothing to the peer.
        socket.connect(&SocketAddr::new(to, 9).into())?;
        sys_path::path_mtu(&socket, to.is_ipv4())
    };
    mtu().map_err(|error: io::Error| Unavailable::from_io(format_args!("path MTU to {to}"), &error))
}

fn udp(like: IpAddr) -> io::Result<Socket> {
    Socket::new(Domain::for_address(SocketAddr::new(like, 0)), Type::DGRAM, Some(Protocol::UDP))
}
