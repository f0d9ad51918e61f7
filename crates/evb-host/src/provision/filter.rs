//! The filters that assign packets to classes. The filters use the `u32` classifier, which every
//! kernel with traffic control has, and are expressed as words for `tc` and as the (value, mask,
//! offset) that `tc` shows.
//!
//! Offsets count from the start of the IP header. evb's packets have no IP options or extension
//! headers, and the offsets rely on this.

use std::net::{IpAddr, SocketAddr};

/// A filter of the root qdisc.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Filter {
    /// Preference of the filter, which determines the order of filters; all filters with the same
    /// preference have the same protocol.
    pub(crate) preference: u16,
    /// Condition that packets must fulfil.
    pub(crate) matches: Match,
    /// Minor number of the class for packets that fulfil the condition.
    pub(crate) class: u16,
}

/// The condition of a filter.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Match {
    /// Packets with this destination address and port.
    To(SocketAddr),
    /// Packets with this source address and port.
    From(SocketAddr),
    /// IPv4 packets with this differentiated services code point.
    Dscp4(u8),
    /// IPv6 packets with this differentiated services code point.
    Dscp6(u8),
    /// Packets of sockets with this `SO_PRIORITY`; this condition needs the kernel's modules
    /// `cls_basic` and `em_meta`.
    SocketPriority(u32),
}

/// A condition of the `u32` classifier: 32 bits at an offset from the IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    /// Value that the compared bits must have; the four bytes are read as a number in network byte
    /// order.
    pub(crate) value: u32,
    /// Mask of the bits that are compared.
    pub(crate) mask: u32,
    /// Offset from the IP header in bytes.
    pub(crate) offset: u16,
}

impl Match {
    /// Returns the name that tc uses for the packets' protocol.
    pub(crate) fn protocol(&self) -> &'static str {
        match self {
            Self::To(SocketAddr::V4(_)) | Self::From(SocketAddr::V4(_)) | Self::Dscp4(_) => "ip",
            Self::To(SocketAddr::V6(_)) | Self::From(SocketAddr::V6(_)) | Self::Dscp6(_) => "ipv6",
            Self::SocketPriority(_) => "all",
        }
    }

    /// Returns the classifier and its conditions as arguments for `tc`.
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

    /// Returns the `u32` keys that `tc` shows for this condition, in the order of offsets; empty
    /// for another classifier.
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

/// Returns the keys that match an address, at its offset in the IPv4 or IPv6 header, and the key of
/// its port.
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
