//! The network devices (`RTM_GETLINK`), read by netlink and not from /sys, which shows the network
//! namespace that mounted it.

use std::net::IpAddr;

use evb_core::units::Bytes;

use super::{Fact, route};

/// Bytes of headers in front of a train of datagrams: Ethernet (with two VLAN tags), IPv6 and UDP.
const HEADERS: u32 = 14 + 8 + 40 + 8;

/// A network device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Index of the device.
    pub index: u32,
    /// Name of the device.
    pub name: String,
    /// Kind of a virtual device: `veth`, `bridge`, ...
    pub kind: Option<String>,
    /// True for the loopback device.
    pub loopback: bool,
    /// True if the device is set up.
    pub up: bool,
    /// True if the device has a carrier, which is a live cable; `None` while the device is down.
    pub carrier: Option<bool>,
    /// Size of the largest IP packet in bytes.
    pub mtu: Option<u32>,
    /// `txqueuelen`, in packets.
    pub queue_length: Option<u32>,
    /// Size of the largest train of packets that TCP passes to the device at once (GSO), in bytes.
    pub gso_max_size: Option<u32>,
    /// Maximum number of packets in a train that TCP passes to the device at once (GSO).
    pub gso_max_packets: Option<u32>,
}

/// Returns all network devices of this network namespace.
///
/// # Errors
/// Fails if the kernel does not list the network devices.
#[cfg(target_os = "linux")]
pub fn links() -> Fact<Vec<Link>> {
    use netlink_packet_route::{RouteNetlinkMessage, link::LinkMessage};

    let question = RouteNetlinkMessage::GetLink(LinkMessage::default());
    let answers = super::netlink::dump("the network devices", question)?;
    let link = |answer: &RouteNetlinkMessage| match answer {
        RouteNetlinkMessage::NewLink(message) => Some(from_message(message)),
        _ => None,
    };
    Ok(answers.iter().filter_map(link).collect())
}

/// Returns the device on the route that the kernel would choose to `to` for a socket bound to
/// `from`; `None` if the system does not report it.
pub fn on_route(to: IpAddr, from: Option<IpAddr>) -> Option<Link> {
    let route = route::route(to, from).ok()?;
    links().ok()?.into_iter().find(|link| link.index == route.device)
}

/// Returns the largest payload that the device on the route to `to` accepts as one train of
/// datagrams; `None` if the system does not report it. The kernel cuts a longer train into single
/// packets before the train reaches the device (`gso_features_check`, net/core/dev.c).
pub fn longest_train(to: IpAddr, from: IpAddr) -> Option<Bytes> {
    let shorter = on_route(to, Some(from))?.gso_max_size?.checked_sub(HEADERS + 1)?;
    Some(Bytes::new(shorter.into()))
}

/// Returns the facts about a device that a message of the kernel has.
#[cfg(target_os = "linux")]
fn from_message(message: &netlink_packet_route::link::LinkMessage) -> Link {
    use netlink_packet_route::link::{LinkAttribute as A, LinkFlags, LinkInfo};

    let up = message.header.flags.contains(LinkFlags::Up);
    let mut link = Link {
        index: message.header.index,
        name: String::new(),
        kind: None,
        loopback: message.header.flags.contains(LinkFlags::Loopback),
        up,
        carrier: up.then(|| message.header.flags.contains(LinkFlags::LowerUp)),
        mtu: None,
        queue_length: None,
        gso_max_size: None,
        gso_max_packets: None,
    };
    for attribute in &message.attributes {
        match attribute {
            A::IfName(name) => link.name.clone_from(name),
            A::Mtu(mtu) => link.mtu = Some(*mtu),
            A::TxQueueLen(packets) => link.queue_length = Some(*packets),
            A::GsoMaxSize(bytes) => link.gso_max_size = Some(*bytes),
            A::GsoMaxSegs(packets) => link.gso_max_packets = Some(*packets),
            A::LinkInfo(entries) => {
                link.kind = entries.iter().find_map(|entry| match entry {
                    LinkInfo::Kind(kind) => Some(kind.to_string()),
                    _ => None,
                });
            }
            _ => {}
        }
    }
    link
}

/// Always fails outside Linux: reading network devices is implemented on Linux only.
///
/// # Errors
/// Network devices can be read on Linux only.
#[cfg(not(target_os = "linux"))]
pub fn links() -> Fact<Vec<Link>> {
    Err(super::Unavailable::new("network devices can be read on Linux only"))
}
