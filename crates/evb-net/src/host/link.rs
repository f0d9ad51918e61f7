//! The network devices (`RTM_GETLINK`), read by netlink and not from /sys, which shows the network
//! namespace that mounted it.

use std::net::IpAddr;

use evb_core::units::Bytes;

use super::{Fact, route};

/// Headers in front of a train, those of Ethernet (with two tags), IPv6 and UDP.
const HEADERS: u32 = 14 + 8 + 40 + 8;

/// A network device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its index.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Kind of a virtual device: `veth`, `bridge`, ...
    pub kind: Option<String>,
    /// True for the loopback device.
    pub loopback: bool,
    /// True if the device is set up.
    pub up: bool,
    /// True if there is a live cable; `None` while the device is down.
    pub carrier: Option<bool>,
    /// The largest IP packet.
    pub mtu: Option<u32>,
    /// `txqueuelen`, in packets.
    pub queue_length: Option<u32>,
    /// The largest train that TCP hands it, in bytes.
    pub gso_max_size: Option<u32>,
    /// The most packets in such a train.
    pub gso_max_packets: Option<u32>,
}

/// All network devices of this network namespace.
///
/// # Errors
/// What the kernel says.
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

/// Returns the most payload of datagrams that the device on the way to `to` takes as one train; the
/// kernel cuts a longer one into single packets before it gets there (`gso_features_check`,
/// net/core/dev.c). `None` where the system does not report it.
pub fn longest_train(to: IpAddr, from: IpAddr) -> Option<Bytes> {
    let route = route::route(to, Some(from)).ok()?;
    let link = links().ok()?.into_iter().find(|link| link.index == route.device)?;
    let shorter = link.gso_max_size?.checked_sub(HEADERS + 1)?;
    Some(Bytes::new(shorter.into()))
}

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

/// All network devices.
///
/// # Errors
/// Read on Linux only.
#[cfg(not(target_os = "linux"))]
pub fn links() -> Fact<Vec<Link>> {
    Err(super::Unavailable::new("network devices can be read on Linux only"))
}
