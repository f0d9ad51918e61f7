//! The filters that assign packets to classes: matches of the `u32` classifier, which every kernel
//! with traffic control has, as tc's words and as the (value, mask, offset) that tc reads back.
//!
//! Offsets count from the IP header, which is assumed to have no options or extension headers, as
//! in evb's packets.

use std::net::{IpAddr, SocketAddr};

/// A filter of the root qdisc.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Filter {
    /// Position in the order of filters; each number has one protocol.
    pub(crate) preference: u16,
    /// Condition for packets.
    pub(crate) matches: Match,
    /// Minor number of the class that matching packets go to.
    pub(crate) class: u16,
}

/// The condition of a filter.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Match {
    /// Packets to this address and port.
    To(SocketAddr),
    /// Packets from this address and port.
    From(SocketAddr),
    /// IPv4 packets with this differentiated services code point.
    Dscp4(u8),
    /// IPv6 packets with this differentiated services code point.
    Dscp6(u8),
    /// Packets of sockets with this `SO_PRIORITY`; needs the kernel's `cls_basic` and `em_meta`.
    SocketPriority(u32),
}

/// A key of the `u32` classifier: 32 bits at an offset from the IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    /// Required value, in network order, as one number.
    pub(crate) value: u32,
    /// Bits that are compared.
    pub(crate) mask: u32,
    /// Offset in bytes.
    pub(crate) offset: u16,
}

impl Match {
    /// Returns tc's name of the protocol.
    pub(crate) fn protocol(&self) -> &'static str {
        match self {
            Self::To(SocketAddr::V4(_)) | Self::From(SocketAddr::V4(_)) | Self::Dscp4(_) => "ip",
            Self::To(SocketAddr::V6(_)) | Self::From(SocketAddr::V6(_)) | Self::Dscp6(_) => "ipv6",
            Self::SocketPriority(_) => "all",
        }
    }

    /// Returns the classifier and its matches as tc's words.
    pub(crate) fn words(&self) -> Vec<String> {
        let ends = |address: &SocketAddr, ip: &str, port: &str| {
            let (family, bits) = if address.is_ipv4() { ("ip", 32) } else { ("ip6", 128) };
            let host = format!("{}/{bits}", address.ip());
            let number = address.port().to_string();
            ["u32", "match", family, ip, &host, "match", family, port, &number, "0xffff"].map(str::to_owned)
        };
        match self {
            Self::To(address) => ends(address, "dst", "dport").to_vec(),
            Self::From(address) => ends(address, "src", "sport").to_vec(),
            Self::Dscp4(_) | Self::Dscp6(_) => {
                let keys = self.keys();
                let spelled = keys.iter().flat_map(|key| {
                    let (value, mask) = (format!("{:#010x}", key.value), format!("{:#010x}", key.mask));
                    ["match".into(), "u32".into(), value, mask, "at".into(), key.offset.to_string()]
                });
                ["u32".to_owned()].into_iter().chain(spelled).collect()
            }
            Self::SocketPriority(priority) => {
                ["basic", "match", &format!("meta(priority eq {priority})")].map(str::to_owned).to_vec()
            }
        }
    }

    /// Returns the keys that tc will read back, in the order of offsets; none if the classifier is
    /// not `u32`.
    pub(crate) fn keys(&self) -> Vec<Key> {
        match self {
            Self::To(address) => {
                ends(address, 16, 24, Key { offset: 0, mask: 0xffff, value: address.port().into() })
            }
            Self::From(address) => {
                let port = u32::from(address.port()) << 16;
                ends(address, 12, 8, Key { offset: 0, mask: 0xffff_0000, value: port })
            }
            // The code point is in the second byte of an IPv4 header, above the two bits of ECN
            // (RFC 2474).
            Self::Dscp4(point) => vec![Key { value: u32::from(*point) << 18, mask: 0xfc << 16, offset: 0 }],
            // The code point is in bits 4 to 9 of an IPv6 header (RFC 8200).
            Self::Dscp6(point) => vec![Key { value: u32::from(*point) << 22, mask: 0xfc << 20, offset: 0 }],
            Self::SocketPriority(_) => Vec::new(),
        }
    }
}

/// Returns the keys of an address at its offset in either header, and of its port behind that
/// header.
fn ends(address: &SocketAddr, in_v4: u16, in_v6: u16, port: Key) -> Vec<Key> {
    let word = |bytes: &[u8], offset| {
        let value = bytes.iter().fold(0, |value, byte| value << 8 | u32::from(*byte));
        Key { value, mask: u32::MAX, offset }
    };
    let mut keys: Vec<Key> = match address.ip() {
        IpAddr::V4(ip) => vec![word(&ip.octets(), in_v4)],
        IpAddr::V6(ip) => {
            let octets = ip.octets();
            octets.chunks(4).zip((in_v6..).step_by(4)).map(|(bytes, offset)| word(bytes, offset)).collect()
        }
    };
    keys.push(Key { offset: if address.is_ipv4() { 20 } else { 40 }, ..port });
    keys
}
