//! `[network]`: the transport of the lanes and the properties of the switch.

use evb_core::{
    transport::Transport,
    units::{Bytes, Rate},
    wire::datagram::MIN_MTU,
};

use serde::Deserialize;

use super::{
    forms::{As, DataRate, Form, Positive, Whole, Word, Words, wrong, yes},
    section::Section,
    trunk::{self, Trunk},
};

/// The transport of the lanes and the properties of the switch.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct NetworkConfig {
    /// The transport of the lanes: `"tcp"` or `"udp"`, the same on all hosts.
    /// [UDP](../how-to/udp.md) explains when to choose UDP, and what it needs.
    ///
    /// Default: `"tcp"`
    #[serde(default, with = "As::<Word<Transport>>")]
    pub transport: Transport,
    /// The rate of every link, in line bytes. The key `link_rate` of a source or builder overrides
    /// it. This key enables admission control by rate.
    #[serde(default, with = "As::<DataRate>")]
    pub link_rate: Option<Rate>,
    /// The buffer of the switch port towards a builder, in buffer bytes. This key enables admission
    /// control by buffer, and sets the defaults of `budget`, `chunk` and `window`.
    #[serde(default, with = "As::<Positive<Bytes>>")]
    pub port_buffer: Option<Bytes>,
    /// Links between switches, and buffers that several switch ports share.
    #[serde(skip)]
    pub trunks: Vec<Trunk>,
    /// The largest IP packet in bytes, 576 to 65536 (with UDP from 1280 on). Jumbo frames (9000)
    /// save processor time, but every switch on the way must support them.
    ///
    /// Default: 1500
    #[serde(default = "usual_mtu", with = "Whole::<576, 65_536>")]
    pub mtu: Bytes,
    /// The name of a congestion control from `/proc/sys/net/ipv4/tcp_available_congestion_control`.
    /// Without root rights, only the names in `tcp_allowed_congestion_control` are permitted. If
    /// the kernel refuses the name, the default of the host stays in use, and the log says so. A
    /// name in the configuration overrides the `congctl` of a route; the default of this key does
    /// not.
    ///
    /// Default: `"cubic"`
    #[serde(default, with = "As::<CongestionControl>")]
    pub congestion_control: Option<String>,
    /// If true, the kernel sends small writes at once (`TCP_NODELAY`). With false, the kernel sends
    /// fewer packets, and latency grows by up to 40 ms.
    ///
    /// Default: true
    #[serde(default = "yes")]
    pub nodelay: bool,
    /// The send buffer of every lane (`SO_SNDBUF`), at least `mtu`.
    ///
    /// Default: the kernel's default
    #[serde(default, with = "As::<Positive<Bytes>>")]
    pub send_buffer: Option<Bytes>,
    /// The receive buffer of every lane (`SO_RCVBUF`); over UDP, the receive buffer of the
    /// builder's single socket. At least `mtu`. The kernel reserves twice the value.
    ///
    /// Default: the kernel's default; with UDP twice the bytes that may be under way
    #[serde(default, with = "As::<Positive<Bytes>>")]
    pub receive_buffer: Option<Bytes>,
    /// The code point of lane traffic, 0 to 63, for switches with classes.
    #[serde(default, with = "Whole::<0, 63>")]
    pub dscp: Option<u8>,
    /// The reaction to a load that exceeds links or buffers: `"refuse"` refuses the configuration;
    /// `"warn"` starts the run with a warning, to test overload.
    ///
    /// Default: `"refuse"`
    #[serde(default)]
    pub admission: Admission,
}

/// The treatment of a configuration whose load exceeds the links or buffers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Admission {
    /// The configuration is refused.
    #[default]
    Refuse,
    /// The run starts with a warning, for tests of overload.
    Warn,
}

/// Default size of the largest IP packet.
fn usual_mtu() -> Bytes {
    Bytes::new(1500)
}

impl Words for Transport {
    fn words() -> Vec<(&'static str, Self)> {
        [Self::Tcp, Self::Udp].map(|transport| (transport.word(), transport)).to_vec()
    }
}

/// The kernel's name of a congestion control, which has at most 15 characters (`TCP_CA_NAME_MAX`,
/// linux/tcp.h).
pub(super) struct CongestionControl;

impl Form for CongestionControl {
    type Value = String;
    const EXAMPLE: &'static str = "cubic";

    /// Accepts what the kernel accepts as the name of an algorithm.
    fn parse(name: &str) -> Result<String, String> {
        let is_letter = |letter: u8| letter.is_ascii_alphanumeric() || b"_-".contains(&letter);
        if (1..16).contains(&name.len()) && name.bytes().all(is_letter) {
            return Ok(name.to_owned());
        }
        let reason = format!("`{name}` is not the name of a congestion control");
        let remedy =
            "write \"cubic\", or another name from /proc/sys/net/ipv4/tcp_available_congestion_control";
        Err(wrong(reason, remedy))
    }
}

/// Reads the section with its trunks, and checks it.
pub(super) fn read(section: Section<'_>) -> Option<NetworkConfig> {
    let section = section.apart(&["trunk", "shared"]);
    let mut config: NetworkConfig = section.read()?;
    config.trunks = trunk::read(&section);
    check_buffer(&section, "send_buffer", config.send_buffer, config.mtu);
    check_buffer(&section, "receive_buffer", config.receive_buffer, config.mtu);
    if config.transport == Transport::Udp && config.mtu < Bytes::new(MIN_MTU as u64) {
        let problem = format!("packets of {} are too small for datagrams", config.mtu);
        section.refuse("mtu", problem, format!("give at least {MIN_MTU}, or transport = \"tcp\""));
    }
    Some(config)
}

/// Refuses sizes of a socket buffer that the kernel, which takes a C `int`, does not know. Refuses
/// buffers without room for a packet too: TCP closes their window, and goes on by probes, which
/// take seconds.
fn check_buffer(section: &Section<'_>, key: &str, size: Option<Bytes>, mtu: Bytes) {
    let Some(size) = size else { return };
    if size < mtu {
        let remedy = format!("give at least {mtu}, better several packets, or leave `{key}` out");
        section.refuse(key, format!("a buffer of {size} has no room for a packet of {mtu}"), remedy);
    } else if size > Bytes::new(i32::MAX as u64 / 2) {
        section.refuse(key, format!("{size} is more than a socket buffer can have"), "give less than 1 GiB");
    }
}
