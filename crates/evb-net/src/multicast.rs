//! Sockets that receive from a multicast group, or send to one.

#[cfg(test)]
mod tests;

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};

use rustix::net::sockopt::set_ip_multicast_if_with_ifindex;
use socket2::{Domain, InterfaceIndexOrAddress, Protocol, SockRef, Socket, Type};
use tokio::net::UdpSocket;

use crate::host::link;

/// Opens a socket that receives from a multicast group (IPv4 or IPv6); other sockets of this host
/// may receive from the same group. The interface is given by a name, or over IPv4 by a local
/// address; with `None`, the routing table decides.
///
/// # Errors
/// Fails if `group` is not a multicast address, or if the interface does not exist.
pub fn join(group: SocketAddr, interface: Option<&str>) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(group), Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    bind_and_join(&socket, group, interface)?;
    UdpSocket::from_std(socket.into())
}

/// Lets a socket receive what is sent to a multicast group.
pub(crate) fn bind_and_join(socket: &Socket, group: SocketAddr, interface: Option<&str>) -> io::Result<()> {
    match group.ip() {
        IpAddr::V4(address) => {
            // The socket is bound to the group's address, so that it does not receive datagrams to
            // other groups with the same port.
            socket.bind(&group.into())?;
            socket.join_multicast_v4_n(&address, &interface_v4(interface)?)?;
        }
        IpAddr::V6(address) => {
            socket.set_only_v6(true)?;
            socket.bind(&SocketAddr::from((Ipv6Addr::UNSPECIFIED, group.port())).into())?;
            socket.join_multicast_v6(&address, interface_index(interface)?)?;
        }
    }
    Ok(())
}

/// Opens a socket that sends to one address or multicast group through the given interface.
/// Datagrams to a group stay in the local network.
///
/// # Errors
/// Fails if there is no route to the address, or if the interface does not exist.
pub async fn sender(to: SocketAddr, interface: Option<&str>) -> io::Result<UdpSocket> {
    let any: SocketAddr =
        if to.is_ipv4() { (Ipv4Addr::UNSPECIFIED, 0).into() } else { (Ipv6Addr::UNSPECIFIED, 0).into() };
    let socket = UdpSocket::bind(any).await?;
    if to.ip().is_multicast() && interface.is_some() {
        let options = SockRef::from(&socket);
        match to {
            SocketAddr::V4(_) => match interface_v4(interface)? {
                InterfaceIndexOrAddress::Address(address) => options.set_multicast_if_v4(&address)?,
                InterfaceIndexOrAddress::Index(index) => {
                    let any = Ipv4Addr::UNSPECIFIED;
                    set_ip_multicast_if_with_ifindex(&socket, &any, &any, index)?;
                }
            },
            SocketAddr::V6(_) => options.set_multicast_if_v6(interface_index(interface)?)?,
        }
    }
    socket.connect(to).await?;
    Ok(socket)
}

fn interface_v4(interface: Option<&str>) -> io::Result<InterfaceIndexOrAddress> {
    match interface.map(str::parse) {
        None => Ok(InterfaceIndexOrAddress::Address(Ipv4Addr::UNSPECIFIED)),
        Some(Ok(address)) => Ok(InterfaceIndexOrAddress::Address(address)),
        Some(Err(_)) => interface_index(interface).map(InterfaceIndexOrAddress::Index),
    }
}

/// Returns the index of the named interface, or 0 for the kernel's choice.
fn interface_index(interface: Option<&str>) -> io::Result<u32> {
    let Some(name) = interface else { return Ok(0) };
    let links = link::links().map_err(|reason| io::Error::other(reason.to_string()))?;
    let found = links.into_iter().find(|link| link.name == name);
    found.map(|link| link.index).ok_or_else(|| {
        let problem =
            format!("this host has no network interface `{name}`; correct `interface`: `ip address` lists those that it has");
        io::Error::new(io::ErrorKind::NotFound, problem)
    })
}
