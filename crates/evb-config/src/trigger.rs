//! `supervisor.trigger`: the origin of the triggers.

use std::net::SocketAddr;

use evb_core::units::Frequency;
use serde::Deserialize;

use super::{
    endpoint::Endpoint,
    forms::{Address, As, EventRate, Form, Host, wrong},
    section::Section,
};

/// The origin of the triggers.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(tag = "kind"))]
#[serde(rename = "kind", rename_all = "kebab-case")]
pub enum TriggerConfig {
    /// Triggers at equal intervals.
    Periodic {
        /// The mean rate of triggers.
        #[serde(with = "As::<EventRate>")]
        rate: Frequency,
    },
    /// Triggers at exponentially distributed intervals, like decays.
    Poisson {
        /// The mean rate of triggers.
        #[serde(with = "As::<EventRate>")]
        rate: Frequency,
    },
    /// Triggers whenever half of a builder's slots are free, one event for each free slot.
    AsFastAsPossible,
    /// Triggers from another program.
    External {
        /// The address at which the supervisor receives triggers.
        #[serde(with = "As::<Address>")]
        listen: Endpoint,
        /// The transport of the triggers.
        ///
        /// Default: `"tcp"`
        #[serde(default)]
        protocol: TriggerProtocol,
    },
    /// Triggers from another program by UDP multicast, to supervisor and sources alike.
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

    /// Refuses addresses that `[security]` does not permit.
    pub(super) fn check(&self, supervisor: &Section<'_>) {
        match self {
            Self::External { listen, .. } => {
                supervisor.allow_host("trigger.listen", &listen.host);
            }
            Self::Multicast(group) => group.check(supervisor, "trigger.group", "trigger.interface"),
            Self::Periodic { .. } | Self::Poisson { .. } | Self::AsFastAsPossible => {}
        }
    }
}

/// The form in which an external trigger arrives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum TriggerProtocol {
    /// Text lines over TCP.
    #[default]
    Tcp,
    /// UDP datagrams.
    Udp,
}

/// A multicast group, and the interface on which a host joins it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct MulticastGroup {
    /// The multicast group of the triggers.
    #[serde(with = "As::<Group>")]
    pub group: SocketAddr,
    /// The network interface on which the host joins the group, by its address or name.
    #[serde(default, with = "As::<Host>")]
    pub interface: Option<String>,
}

impl MulticastGroup {
    /// Refuses a group, at these keys, that reaches beyond this machine without `[security]`.
    pub(super) fn check(&self, section: &Section<'_>, group: &str, interface: &str) {
        if let Some(host) = &self.interface {
            section.allow_host(interface, host);
        } else if section.is_good(group) && !section.has(interface) && !section.notes().open.get() {
            let reason = "without `interface`, the multicast group reaches beyond this machine, but there is no [security] section";
            let remedy = "add interface = \"127.0.0.1\", or a section [security] with mode = \"none\"";
            section.refuse(group, reason, remedy);
        }
    }
}

/// Address and port of a multicast group.
pub(super) struct Group;

impl Form for Group {
    type Value = SocketAddr;
    const EXAMPLE: &'static str = "239.1.2.3:7002";

    /// Parses a multicast address with a port other than 0.
    fn parse(text: &str) -> Result<SocketAddr, String> {
        let is_group = |group: &SocketAddr| group.ip().is_multicast() && group.port() != 0;
        text.parse().ok().filter(is_group).ok_or_else(|| {
            let reason = format!("`{text}` is not a multicast group with a port");
            let remedy =
                "write an address from 224.0.0.0/4 or [ff00::]/8 and a port, for example \"239.1.2.3:7002\"";
            wrong(reason, remedy)
        })
    }
}
