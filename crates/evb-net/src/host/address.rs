//! The addresses of this host (`RTM_GETADDR`).

#[cfg(test)]
mod tests;

use std::net::{IpAddr, UdpSocket};

use super::{Fact, route};

/// An address of a network device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceAddress {
    /// The address.
    pub address: IpAddr,
    /// The index of the device.
    pub device: u32,
}

/// Returns all addresses of the devices of this network namespace, including devices that are down.
///
/// # Errors
/// Fails if the kernel does not list the addresses.
#[cfg(target_os = "linux")]
pub fn addresses() -> Fact<Vec<DeviceAddress>> {
    use netlink_packet_route::{
        RouteNetlinkMessage,
        address::{AddressAttribute as A, AddressMessage},
    };

    let question = RouteNetlinkMessage::GetAddress(AddressMessage::default());
    let answers = super::netlink::dump("the addresses of this host", question)?;
    let address = |answer: &RouteNetlinkMessage| {
        let RouteNetlinkMessage::NewAddress(message) = answer else { return None };
        // On a point-to-point link, `Address` is the address of the peer, and `Local` is that of
        // this host.
        let local = message.attributes.iter().find_map(|attribute| match attribute {
            A::Local(address) => Some(*address),
            _ => None,
        });
        let address = local.or_else(|| {
            message.attributes.iter().find_map(|attribute| match attribute {
                A::Address(address) => Some(*address),
                _ => None,
            })
        });
        Some(DeviceAddress { address: address?, device: message.header.index })
    };
    Ok(answers.iter().filter_map(address).collect())
}

/// Always fails outside Linux: reading the addresses of devices is implemented on Linux only.
///
/// # Errors
/// Addresses can be read on Linux only.
#[cfg(not(target_os = "linux"))]
pub fn addresses() -> Fact<Vec<DeviceAddress>> {
    Err(super::Unavailable::new("the addresses of this host can be read on Linux only"))
}

/// Returns true if packets to the address stay on this host, according to its routes. Outside
/// Linux, where routes cannot be read, the result is true if a socket can be bound to the address.
pub fn is_own(address: IpAddr) -> bool {
    let address = address.to_canonical();
    if address.is_loopback() {
        return true;
    }
    match route::route(address, None) {
        Ok(route) => route.local,
        Err(_) if cfg!(target_os = "linux") => false,
        Err(_) => UdpSocket::bind((address, 0)).is_ok(),
    }
}
