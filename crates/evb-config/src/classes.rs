//! `[shaping.classes]`: the shares of event data, control, monitoring and all other traffic in a
//! link.

use evb_core::units::Rate;

use serde::Deserialize;

use super::{
    forms::{As, DataRate, Whole},
    network::NetworkConfig,
    section::Section,
};

/// The traffic classes of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassesConfig {
    /// The traffic of lanes, which carry fragments.
    pub data: ClassEntry,
    /// The traffic of the connections with the supervisor.
    pub control: ClassEntry,
    /// Metrics and other monitoring traffic.
    pub monitoring: ClassEntry,
    /// All other traffic of the host; only the kernel can limit this traffic (`evbd provision`).
    pub other: ClassEntry,
}

/// A traffic class in the sense of HTB and CBQ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassEntry {
    /// Rate that the class always gets, in line bytes.
    pub guaranteed: Rate,
    /// Largest rate of the class when it borrows rate that other classes do not use, in line bytes.
    pub ceiling: Rate,
    /// Order in which classes borrow unused rate; smaller numbers come first.
    pub priority: u8,
    /// Differentiated services code point that marks the class's packets for switches.
    pub dscp: Option<u8>,
    /// `SO_PRIORITY` of the class's sockets, by which the host's own queues recognise the class.
    pub socket_priority: Option<u32>,
}

impl ClassesConfig {
    /// Returns all classes, each with its word in the configuration.
    pub fn all(&self) -> [(&'static str, &ClassEntry); 4] {
        [
            ("data", &self.data),
            ("control", &self.control),
            ("monitoring", &self.monitoring),
            ("other", &self.other),
        ]
    }
}

/// The classes as the configuration gives them, before defaults are filled in.
#[derive(Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub(super) struct GivenClasses {
    /// The traffic of the lanes.
    data: GivenClass,
    /// The traffic of the supervisor's connections.
    control: GivenClass,
    /// Monitoring traffic.
    monitoring: GivenClass,
    /// All other traffic of the host.
    other: GivenClass,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
struct GivenClass {
    /// The rate that the class gets in any case, in line bytes. The sum of all guaranteed rates
    /// must not exceed the rate of the link.
    ///
    /// Default (data, control, monitoring, other): 80, 5, 2, 1 % of the link
    #[serde(with = "As::<DataRate>")]
    guaranteed: Option<Rate>,
    /// The highest rate of the class.
    ///
    /// Default (data, control, monitoring, other): the rate of the link
    #[serde(with = "As::<DataRate>")]
    ceiling: Option<Rate>,
    /// The order in which classes borrow: classes with smaller numbers first.
    ///
    /// Default (data, control, monitoring, other): 1, 0, 2, 3
    #[serde(with = "Whole::<0, 7>")]
    priority: Option<u8>,
    /// The code point of the class's packets ([RFC 4594](https://www.rfc-editor.org/rfc/rfc4594)),
    /// by which switches classify.
    ///
    /// Default (data, control, monitoring, other): 10, 48, 0, 8
    #[serde(with = "Whole::<0, 63>")]
    dscp: Option<u8>,
    /// `SO_PRIORITY` of the class's sockets, by which the queues of the host classify packets; for
    /// values above 6 the kernel requires `CAP_NET_ADMIN`.
    // The kernel requires CAP_NET_ADMIN for an `SO_PRIORITY` above 6 (socket(7)).
    #[serde(with = "Whole::<0, 15>")]
    socket_priority: Option<u32>,
}

const WORDS: [&str; 4] = ["data", "control", "monitoring", "other"];

/// Defaults of each class: guaranteed percentage of the link, priority, and code point. Control
/// traffic is small and urgent. CS6 (48) is the code point of network control, CS1 (8) that of bulk
/// (RFC 4594); AF11 (10) is "high-throughput data".
const DEFAULTS: [(u64, u8, u8); 4] = [(80, 1, 10), (5, 0, 48), (2, 2, 0), (1, 3, 8)];

impl GivenClasses {
    /// Fills in defaults, and refuses guarantees that the link cannot keep.
    pub(super) fn resolve(self, section: &Section<'_>, network: &NetworkConfig) -> Option<ClassesConfig> {
        let Some(link) = network.link_rate else {
            let reason = "classes share a link, but the rate of the link is not configured";
            section.refuse("classes", reason, "add for example link_rate = \"10 Gbit/s\" to [network]");
            return None;
        };
        let given = [self.data, self.control, self.monitoring, self.other];
        let mut sum = 0;
        let [data, control, monitoring, other] = std::array::from_fn(|index| {
            let (percent, priority, dscp) = DEFAULTS[index];
            let given = given[index];
            let default = Rate::from_bits_per_second((link.bits_per_second() / 100 * percent).max(1));
            let ceiling = given.ceiling.unwrap_or(link).min(link);
            let guaranteed = given.guaranteed.unwrap_or_else(|| default.min(ceiling));
            if guaranteed > ceiling {
                let reason = format!(
                    "class `{}` is guaranteed {guaranteed}, above its ceiling of {ceiling}",
                    WORDS[index]
                );
                section.refuse("classes", reason, "guarantee less, or raise the ceiling");
            }
            sum += guaranteed.bits_per_second();
            ClassEntry {
                guaranteed,
                ceiling,
                priority: given.priority.unwrap_or(priority),
                dscp: given.dscp.or(Some(dscp)),
                socket_priority: given.socket_priority,
            }
        });
        if sum > link.bits_per_second() {
            let sum = Rate::from_bits_per_second(sum);
            let reason = format!("the classes are guaranteed {sum} in all, but the link carries only {link}");
            section.refuse("classes", reason, "guarantee less: classes borrow the unused rate anyway");
        }
        Some(ClassesConfig { data, control, monitoring, other })
    }
}
