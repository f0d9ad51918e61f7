//! Which packets belong to which class: matches of the `u32` classifier, which every kernel with traffic control has,
//! as tc's words and as the (value, mask, offset) that tc reads back.
//!
//! Offsets count from the IP header and take it to be without options or extension headers, as evb's packets are.

use std::net::{IpAddr, SocketAddr};

/// One filter of the root qdisc.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Filter {
    /// The order in which filters are asked; each number has one protocol.
    pub(crate) preference: u16,
    /// What must be so.
    pub(crate) matches: Match,
    /// Where the packet then goes: a class's minor number.
    pub(crate) class: u16,
}

/// What a filter looks at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Match {
    /// Packets to that address and port.
    To(SocketAddr),
    /// Packets from that address and port.
    From(SocketAddr),
    /// IPv4 packets of that differentiated services code point.
    Dscp4(u8),
    /// IPv6 packets of that differentiated services code point.
    Dscp6(u8),
    /// Packets of sockets with that `SO_PRIORITY`; needs the kernel's `cls_basic` and `em_meta`.
    SocketPriority(u32),
}

/// A key of the `u32` classifier: these bits at that offset from the IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    /// Network order, read as one number.
    pub(crate) value: u32,
    /// Which bits count.
    pub(crate) mask: u32,
    /// In bytes.
    pub(crate) offset: u16,
}

impl Match {
    /// tc's name of the protocol.
    pub(crate) fn protocol(&self) -> &'static str {
        match self {
            Self::To(SocketAddr::V4(_)) | Self::From(SocketAddr::V4(_)) | Self::Dscp4(_) => "ip",
            Self::To(SocketAddr::V6(_)) | Self::From(SocketAddr::V6(_)) | Self::Dscp6(_) => "ipv6",
            Self::SocketPriority(_) => "all",
        }
    }

    /// The classifier and its matches, as tc's words.
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

    /// What tc will read back, in the order of offsets; nothing where it is not the `u32` classifier.
    pub(crate) fn keys(&self) -> Vec<Key> {
        match self {
            Self::To(address) => {
                ends(address, 16, 24, Key { offset: 0, mask: 0xffff, value: address.port().into() })
            }
            Self::From(address) => {
                let port = u32::from(address.port()) << 16;
                ends(address, 12, 8, Key { offset: 0, mask: 0xffff_0000, value: port })
            }
            // The second byte of an IPv4 header, above the two bits of ECN (RFC 2474).
            Self::Dscp4(point) => vec![Key { value: u32::from(*point) << 18, mask: 0xfc << 16, offset: 0 }],
            // Bits 4 to 9 of an IPv6 header (RFC 8200).
            Self::Dscp6(point) => vec![Key { value: u32::from(*point) << 22, mask: 0xfc << 20, offset: 0 }],
            Self::SocketPriority(_) => Vec::new(),
        }
    }
}

/// An address's keys at its offset in either header, and its port's behind that header.
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
