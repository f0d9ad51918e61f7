//! `supervisor.trigger`: the origin of the triggers.

use std::net::SocketAddr;

use evb_core::units::Frequency;

use super::{endpoint::Endpoint, section::Section};

/// The origin of the triggers.
#[derive(Clone, Debug, PartialEq)]
pub enum TriggerConfig {
    /// Triggers at equal intervals.
    Periodic {
        /// Number of events per second.
        rate: Frequency,
    },
    /// Triggers at exponentially distributed intervals.
    Poisson {
        /// Mean number of events per second.
        rate: Frequency,
    },
    /// Triggers at the pace of the builders: whenever half of a builder's slots are free, as many
    /// triggers occur at once.
    AsFastAsPossible,
    /// Triggers from another program.
    External {
        /// Address at which the supervisor listens for the triggering program.
        listen: Endpoint,
        /// Form in which the program sends triggers.
        protocol: TriggerProtocol,
    },
    /// Triggers that a UDP multicast announces to the supervisor and to all sources.
    Multicast(MulticastGroup),
}

impl TriggerConfig {
    /// Returns the mean number of events per second; `None` if the configuration does not determine
    /// it.
    pub fn events_per_second(&self) -> Option<f64> {
        match self {
            Self::Periodic { rate } | Self::Poisson { rate } => Some(rate.hertz()),
            Self::AsFastAsPossible | Self::External { .. } | Self::Multicast(_) => None,
        }
    }
}

/// The form in which an external trigger arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TriggerProtocol {
    /// Text lines over TCP.
    Tcp,
    /// UDP datagrams.
    Udp,
}

/// A multicast group, and the interface on which a host joins it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MulticastGroup {
    /// Address and port of the group.
    pub group: SocketAddr,
    /// Local address (IPv4) or name of the interface; `None`: the kernel's routes determine the
    /// interface.
    pub interface: Option<String>,
}

#[derive(Clone, Copy)]
enum Kind {
    Periodic,
    Poisson,
    AsFastAsPossible,
    External,
    Multicast,
}

const KINDS: [(&str, Kind); 5] = [
    ("periodic", Kind::Periodic),
    ("poisson", Kind::Poisson),
    ("as-fast-as-possible", Kind::AsFastAsPossible),
    ("external", Kind::External),
    ("multicast", Kind::Multicast),
];

/// Returns reason and remedy for a kind of an older version, which the pseudo-trigger has now.
fn moved(kind: &str) -> Option<(String, String)> {
    let option = match kind {
        "gaussian" => " --sigma …",
        "burst" => " --burst …",
        "on-off" => "",
        _ => return None,
    };
    let remedy = format!(
        "write {{ kind = \"external\", listen = \"127.0.0.1:7001\", protocol = \"udp\" }}, and when the run has \
         begun, start `evb-bench trigger --to 127.0.0.1:7001 --kind {kind} --rate …{option}`"
    );
    Some((format!("`{kind}` triggers come from the pseudo-trigger `evb-bench trigger` now"), remedy))
}

pub(super) fn read(mut section: Section<'_>) -> Option<TriggerConfig> {
    let kind = section.choice_or("kind", &KINDS, moved);
    let kind = section.need("kind", kind, "for example kind = \"periodic\"")?;
    let trigger = match kind {
        Kind::Periodic => needed_rate(&mut section).map(|rate| TriggerConfig::Periodic { rate }),
        Kind::Poisson => needed_rate(&mut section).map(|rate| TriggerConfig::Poisson { rate }),
        Kind::AsFastAsPossible => Some(TriggerConfig::AsFastAsPossible),
        Kind::External => {
            let listen = section.endpoint("listen");
            let listen = section.need("listen", listen, "for example listen = \"127.0.0.1:7001\"");
            let protocols = [("tcp", TriggerProtocol::Tcp), ("udp", TriggerProtocol::Udp)];
            let protocol = section.choice("protocol", &protocols).unwrap_or(TriggerProtocol::Tcp);
            listen.map(|listen| TriggerConfig::External { listen, protocol })
        }
        Kind::Multicast => {
            let group = read_group(&mut section, "group");
            section
                .need("group", group, "for example group = \"239.1.2.3:7002\"")
                .map(TriggerConfig::Multicast)
        }
    };
    section.finish();
    trigger
}

fn needed_rate(section: &mut Section<'_>) -> Option<Frequency> {
    let rate = section.frequency("rate");
    let rate = section.need("rate", rate, "for example rate = \"2 kHz\"")?;
    if rate.hertz() > 1e9 {
        section.refuse(
            "rate",
            format!("{rate} is faster than the clock ticks"),
            "give a rate of at most 1000 MHz",
        );
        return None;
    }
    Some(rate)
}

/// Reads a multicast group at `key`, and its interface at `interface`.
pub(super) fn read_group(section: &mut Section<'_>, key: &'static str) -> Option<MulticastGroup> {
    let interface = section.host("interface");
    let text = section.text(key, &format!("for example {key} = \"239.1.2.3:7002\""))?;
    let group =
        text.parse::<SocketAddr>().ok().filter(|group| group.ip().is_multicast() && group.port() != 0);
    let Some(group) = group else {
        let remedy =
            "write an address from 224.0.0.0/4 or [ff00::]/8 and a port, for example \"239.1.2.3:7002\"";
        section.refuse(key, format!("`{text}` is not a multicast group with a port"), remedy);
        return None;
    };
    if interface.is_none() && !section.has("interface") && !section.notes().open.get() {
        let reason =
            "without an interface the group reaches beyond this machine, but there is no [security] section";
        let remedy = "add interface = \"127.0.0.1\", or a section [security] with mode = \"none\"";
        section.refuse(key, reason, remedy);
        return None;
    }
    Some(MulticastGroup { group, interface })
}
