//! `[network]`: the transport of the lanes and the properties of the switch.

use evb_core::{
    transport::Transport,
    units::{Bytes, Rate},
    wire::datagram::MIN_MTU,
};

use super::{
    section::Section,
    trunk::{self, Trunk},
};

/// The transport of the lanes and the properties of the switch.
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkConfig {
    /// Transport of the lanes: TCP or UDP.
    pub transport: Transport,
    /// Rate of every link for which no other rate is stated, in line bytes.
    pub link_rate: Option<Rate>,
    /// Buffer of each switch port towards a builder, in buffer bytes.
    pub port_buffer: Option<Bytes>,
    /// Links between switches, and buffers that several switch ports share.
    pub trunks: Vec<Trunk>,
    /// Size of the largest IP packet.
    pub mtu: Bytes,
    /// The kernel's name of the TCP congestion control; `None`: cubic if the kernel permits it.
    pub congestion_control: Option<String>,
    /// True if TCP sends small writes without delay (`TCP_NODELAY`).
    pub nodelay: bool,
    /// Size of the sockets' send buffers (`SO_SNDBUF`); `None`: the kernel's choice.
    pub send_buffer: Option<Bytes>,
    /// Size of the sockets' receive buffers (`SO_RCVBUF`); `None`: the kernel's choice.
    pub receive_buffer: Option<Bytes>,
    /// Differentiated services code point of the lanes' packets.
    pub dscp: Option<u8>,
    /// Treatment of a configuration whose load exceeds the links or buffers.
    pub admission: Admission,
}

/// The treatment of a configuration whose load exceeds the links or buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// The configuration is refused.
    Refuse,
    /// The run starts with a warning, for tests of overload.
    Warn,
}

pub(super) fn read(mut section: Section<'_>) -> NetworkConfig {
    let transport =
        section.choice("transport", &[Transport::Tcp, Transport::Udp].map(|one| (one.word(), one)));
    let mtu = Bytes::new(section.whole("mtu", 576..=65_536).unwrap_or(1500));
    let config = NetworkConfig {
        transport: transport.unwrap_or(Transport::Tcp),
        link_rate: section.rate("link_rate"),
        port_buffer: section.some_bytes("port_buffer"),
        trunks: trunk::read(&mut section),
        mtu,
        congestion_control: congestion_control(&mut section),
        nodelay: section.flag("nodelay").unwrap_or(true),
        send_buffer: socket_buffer(&mut section, "send_buffer", mtu),
        receive_buffer: socket_buffer(&mut section, "receive_buffer", mtu),
        dscp: section.whole("dscp", 0..=63).and_then(|dscp| u8::try_from(dscp).ok()),
        admission: section
            .choice("admission", &[("refuse", Admission::Refuse), ("warn", Admission::Warn)])
            .unwrap_or(Admission::Refuse),
    };
    if config.transport == Transport::Udp && config.mtu < Bytes::new(MIN_MTU as u64) {
        let problem = format!("packets of {} are too small for datagrams", config.mtu);
        section.refuse("mtu", problem, format!("give at least {MIN_MTU}, or transport = \"tcp\""));
    }
    section.finish();
    config
}

/// Reads the kernel's name of a congestion control, which has at most 15 characters
/// (`TCP_CA_NAME_MAX`, linux/tcp.h).
fn congestion_control(section: &mut Section<'_>) -> Option<String> {
    let name = section.text("congestion_control", "congestion_control = \"cubic\"")?;
    let good = (1..16).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b));
    if !good {
        let remedy = "see /proc/sys/net/ipv4/tcp_available_congestion_control for the names this host knows";
        section.refuse(
            "congestion_control",
            format!("`{name}` is not the name of a congestion control"),
            remedy,
        );
    }
    good.then_some(name)
}

/// Reads the size of a socket buffer. The kernel takes the size as a C `int`, so larger sizes are
/// refused. So are buffers without room for a packet: TCP closes their window, and goes on by
/// probes, which take seconds.
fn socket_buffer(section: &mut Section<'_>, key: &'static str, mtu: Bytes) -> Option<Bytes> {
    let size = section.some_bytes(key)?;
    if size < mtu {
        let remedy = format!("give at least {mtu}, better several packets, or leave `{key}` out");
        section.refuse(key, format!("a buffer of {size} has no room for a packet of {mtu}"), remedy);
        return None;
    }
    if size > Bytes::new(i32::MAX as u64 / 2) {
        section.refuse(key, format!("{size} is more than a socket buffer can have"), "give less than 1 GiB");
        return None;
    }
    Some(size)
}
