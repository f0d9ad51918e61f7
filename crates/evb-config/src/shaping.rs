//! `[shaping]`: the rules by which sources may send, with defaults that depend on the network and
//! on the ports that builders share.

use std::collections::BTreeMap;

use evb_core::units::{Bytes, Rate};
use evb_net::pacing::{Offload, Transport};
use evb_shaper::{
    BudgetTree, BufferIndex, ByteMeasure,
    cost::{CELL, PacketCost},
};

use super::{
    builder::BuilderEntry,
    classes::{self, ClassesConfig},
    network::NetworkConfig,
    section::Section,
    shared::{SharedBuffer, refuse_members},
};

/// The rules by which sources may send.
#[derive(Clone, Debug, PartialEq)]
pub struct ShapingConfig {
    /// Rule by which builders grant lanes permission to send.
    pub mode: ShapingMode,
    /// Bytes that may be under way to one switch port, in buffer bytes. Each builder's share of
    /// this budget is in [`BuilderEntry::budget`].
    pub budget: Bytes,
    /// Largest number of bytes that a single grant permits, in lane bytes.
    pub chunk: Bytes,
    /// Number of sources that a builder lets send at the same time in the mode credit; `None`: any
    /// number.
    pub sources_at_once: Option<u32>,
    /// Bytes that each lane may have outstanding in the mode window, in lane bytes.
    pub window: Bytes,
    /// Rate of each lane, in the bytes that `counts` names; always present in the mode
    /// token-bucket.
    pub rate: Option<Rate>,
    /// Byte measure of `rate`.
    pub counts: ByteMeasure,
    /// Number of bytes that a lane may catch up after a delay, which also limits the bytes that
    /// leave back to back; `None`: [`Pace::usual`](evb_shaper::Pace::usual).
    pub burst: Option<Bytes>,
    /// Mechanism that enforces the paces.
    pub offload: OffloadChoice,
    /// Permission to keep a core busy in order to send exactly on time.
    pub spin: Spin,
    /// True if idle cores are kept from sleeping; `None`: true if a port's queue empties in a short
    /// time.
    pub keep_awake: Option<bool>,
    /// Permission for sources and builders to poll their sockets for a while before they sleep.
    pub busy_poll: Spin,
    /// Rates of the traffic classes on the link; `None`: all traffic is treated alike.
    pub classes: Option<ClassesConfig>,
    /// Smallest number of bytes that a packet is charged, because switches store small packets in
    /// cells of a fixed size.
    pub cell: Bytes,
}

/// The rule by which sources may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShapingMode {
    /// Builders divide a budget among their lanes.
    Credit,
    /// Each lane has a window, which limits its bytes under way.
    Window,
    /// Each lane has a token bucket, which limits its rate.
    TokenBucket,
    /// Sources send without any limit as soon as they have data.
    None,
}

impl ShapingMode {
    /// Returns the word for the mode in the configuration.
    pub fn word(self) -> &'static str {
        match self {
            Self::Credit => "credit",
            Self::Window => "window",
            Self::TokenBucket => "token-bucket",
            Self::None => "none",
        }
    }
}

/// The choice of the mechanism that enforces the pace of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OffloadChoice {
    /// The best mechanism that passes its test on this host at the start of the run.
    Auto,
    /// This mechanism without an alternative; if it does not work, the run is refused.
    Only(Offload),
}

/// Permission to keep a core busy, in order to depart on time or to receive without a wake-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spin {
    /// Threads sleep until timers or data wake them.
    Off,
    /// Threads keep cores busy; the run is refused if the host has too few cores.
    On,
    /// Threads keep cores busy even if the host has few cores.
    Force,
}

/// Default budget if the port's buffer is unknown: such a budget limits only the memory that is
/// used.
const FREE_BUDGET: Bytes = Bytes::mib(8);
const FREE_CHUNK: Bytes = Bytes::kib(256);
const FREE_WINDOW: Bytes = Bytes::kib(64);

/// The section as the configuration gives it, before defaults are filled in.
pub(super) struct Given {
    mode: ShapingMode,
    budget: Option<Bytes>,
    chunk: Option<Bytes>,
    sources_at_once: Option<u32>,
    window: Option<Bytes>,
    rate: Option<Rate>,
    counts: ByteMeasure,
    burst: Option<Bytes>,
    cell: Bytes,
    offload: OffloadChoice,
    spin: Spin,
    keep_awake: Option<bool>,
    busy_poll: Spin,
    classes: Option<classes::Given>,
}

const MODES: [(&str, ShapingMode); 4] = [
    ("credit", ShapingMode::Credit),
    ("window", ShapingMode::Window),
    ("token-bucket", ShapingMode::TokenBucket),
    ("none", ShapingMode::None),
];

/// Reads the section `[shaping]`; [`Given::resolve`] fills in the defaults.
pub(super) fn read(section: &mut Section<'_>, transport: Transport) -> Given {
    let given = Given {
        mode: section.choice("mode", &MODES).unwrap_or(ShapingMode::Credit),
        budget: section.some_bytes("budget"),
        chunk: section.some_bytes("chunk"),
        sources_at_once: section.count("sources_at_once", 65_535),
        window: section.some_bytes("window"),
        rate: section.rate("rate"),
        counts: section
            .choice("rate_counts", &ByteMeasure::ALL.map(|measure| (measure.word(), measure)))
            .unwrap_or_default(),
        burst: section.some_bytes("burst"),
        cell: section.bytes("cell").unwrap_or(CELL),
        offload: offload(section),
        spin: spin(section, "spin"),
        keep_awake: section.flag("keep_awake"),
        busy_poll: spin(section, "busy_poll"),
        classes: classes::read(section),
    };
    if given.sources_at_once.is_some() && given.mode != ShapingMode::Credit {
        let reason = "`sources_at_once` belongs to mode = \"credit\"";
        section.refuse("sources_at_once", reason, "remove it, or choose mode = \"credit\"");
    }
    if given.offload == OffloadChoice::Only(Offload::Etf) && transport == Transport::Udp {
        let reason = "`etf` drops packets without a departure time in the future, but lanes send some of their messages at once";
        section.refuse("offload", reason, "write \"auto\", or \"txtime\" with the queueing discipline fq");
    }
    if let OffloadChoice::Only(offload @ (Offload::Txtime | Offload::Etf)) = given.offload
        && transport == Transport::Tcp
    {
        let reason =
            format!("`{}` gives each datagram its departure time, but the lanes use TCP", offload.word());
        let remedy = "write \"auto\", or network.transport = \"udp\"; over TCP the kernel paces by \"pacing-rate\" or \"tbf\"";
        section.refuse("offload", reason, remedy);
    }
    given
}

/// Reads `auto` or the word of an [`Offload`].
fn offload(section: &mut Section<'_>) -> OffloadChoice {
    let mut choices = vec![("auto", OffloadChoice::Auto)];
    choices.extend(Offload::ALL.map(|offload| (offload.word(), OffloadChoice::Only(offload))));
    section.choice("offload", &choices).unwrap_or(OffloadChoice::Auto)
}

/// Reads a key whose value is `true`, `false` or `"force"`.
fn spin(section: &mut Section<'_>, key: &'static str) -> Spin {
    if section.is_text(key) {
        return section.choice(key, &[("force", Spin::Force)]).unwrap_or(Spin::Off);
    }
    if section.flag(key) == Some(true) { Spin::On } else { Spin::Off }
}

impl Given {
    /// Fills in the defaults that depend on the number of `sources` and on the switch ports of the
    /// `builders`. Gives every builder its share of the budget.
    pub(super) fn resolve(
        self,
        section: &Section<'_>,
        network: &NetworkConfig,
        is_protected: bool,
        sources: usize,
        builders: &mut [BuilderEntry],
    ) -> ShapingConfig {
        let sources = u64::try_from(sources).unwrap_or(u64::MAX).max(1);
        let cost = packet_cost(network, self.cell, is_protected);
        let sharing = builders_per_port(builders);
        let most_sharing = sharing.values().copied().max().unwrap_or(1);
        let usual_budget = |buffer| cost.budget(buffer, network.link_rate, sources * most_sharing);
        let stated = self.budget.or_else(|| network.port_buffer.map(usual_budget));
        let budget = stated.unwrap_or(FREE_BUDGET);
        let builder_count = builders.len() as u64;
        let budgets = match stated {
            Some(port) => divide(section, network, port, builders),
            // Without a known port buffer, each builder gets the whole default budget: builders
            // then share no buffer that could overflow.
            None => vec![budget; builders.len()],
        };
        for (builder, budget) in builders.iter_mut().zip(&budgets) {
            builder.budget = *budget;
        }
        let share = budgets.into_iter().min().unwrap_or(budget);
        let usual_chunk = || match network.port_buffer {
            Some(_) => cost.chunk(share, network.link_rate),
            // A single lane may hold a quarter of the budget. The chunk is a quarter of that, so
            // that a lane can have several grants under way and does not wait a round trip for
            // each.
            None => FREE_CHUNK.min(share / 16).max(Bytes::new(1)),
        };
        let chunk = self.chunk.unwrap_or_else(usual_chunk);
        let chunk_cost = cost.buffer(chunk);
        if self.mode == ShapingMode::Credit && chunk_cost > share {
            let reason =
                format!("a grant of {chunk} charges {chunk_cost}, more than a builder's budget of {share}");
            let place = if self.chunk.is_some() { "chunk" } else { "budget" };
            section.refuse(
                place,
                reason,
                "make the chunk smaller or the budget larger, or let fewer builders share a port",
            );
        }
        if self.mode == ShapingMode::TokenBucket && self.rate.is_none() && network.link_rate.is_none() {
            let remedy = "add the pace of a lane, for example rate = \"100 Mbit/s\", or [network] link_rate";
            section.refuse("rate", "mode = \"token-bucket\" needs a rate", remedy);
        }
        // The link of a source carries a lane to every builder, and the link of a port a lane from
        // every source.
        let lanes = (sources * most_sharing).max(builder_count);
        let lane_rate = || {
            let link = network.link_rate?.bits_per_second();
            Some(Rate::from_bits_per_second((link / 100 * 95 / lanes).max(1)))
        };
        ShapingConfig {
            mode: self.mode,
            budget,
            chunk,
            sources_at_once: self.sources_at_once,
            window: self.window.unwrap_or_else(|| default_window(network, sources * most_sharing, &cost)),
            rate: self.rate.or_else(|| lane_rate().filter(|_| self.mode == ShapingMode::TokenBucket)),
            counts: self.counts,
            burst: self.burst,
            cell: self.cell,
            offload: self.offload,
            spin: self.spin,
            keep_awake: self.keep_awake,
            busy_poll: self.busy_poll,
            classes: self.classes.and_then(|given| given.resolve(section, network)),
        }
    }
}

/// Returns each builder's budget. A port divides its budget among the builders behind it. If ports
/// share a buffer (a switch's memory or a trunk), the sum of the ports' budgets does not exceed
/// nine tenths of the shared buffer.
fn divide(
    section: &Section<'_>,
    network: &NetworkConfig,
    port_budget: Bytes,
    builders: &[BuilderEntry],
) -> Vec<Bytes> {
    let mut tree = BudgetTree::default();
    let mut placed: BTreeMap<&str, BufferIndex> = BTreeMap::new();
    // The loop places a buffer as soon as its parent is placed. Buffers that can never be placed
    // contain each other in a cycle.
    let above = |name: &str| network.shared.iter().find(|shared| shared.members.iter().any(|m| m == name));
    let mut waiting: Vec<&SharedBuffer> = network.shared.iter().collect();
    while !waiting.is_empty() {
        let before = waiting.len();
        waiting.retain(|shared| match above(&shared.name) {
            Some(parent) if !placed.contains_key(parent.name.as_str()) => true,
            parent => {
                let parent = parent.map(|parent| placed[parent.name.as_str()]);
                placed.insert(&shared.name, tree.add(&shared.name, nine_tenths(shared.buffer), parent));
                false
            }
        });
        if waiting.len() == before {
            let reason = format!(
                "shared buffer `{}` is a member of itself through other shared buffers",
                waiting[0].name
            );
            let remedy = "list as members only ports and shared buffers that are nearer to the builders";
            refuse_members(section.notes(), waiting[0], reason, remedy);
            break;
        }
    }
    for builder in builders {
        let port = builder.port_name();
        let parent = above(port).and_then(|shared| placed.get(shared.name.as_str()).copied());
        let port = *placed.entry(port).or_insert_with(|| tree.add(port, port_budget, parent));
        tree.add_builder(port);
    }
    refuse_strangers(section, network, builders);
    tree.divide()
}

/// Refuses members of a shared buffer that are neither a port nor a shared buffer. An unknown
/// member is a spelling mistake and would limit nothing.
fn refuse_strangers(section: &Section<'_>, network: &NetworkConfig, builders: &[BuilderEntry]) {
    let is_known = |name: &String| {
        builders.iter().any(|builder| builder.port_name() == name)
            || network.shared.iter().any(|shared| shared.name == *name)
    };
    for shared in &network.shared {
        if let Some(stranger) = shared.members.iter().find(|member| !is_known(member)) {
            let reason = format!(
                "`{stranger}`, a member of shared buffer `{}`, is neither a port nor a shared buffer",
                shared.name
            );
            let ports: Vec<&str> = builders.iter().map(BuilderEntry::port_name).collect();
            let remedy = format!("ports here: {}", ports.join(", "));
            refuse_members(section.notes(), shared, reason, remedy);
        }
    }
}

/// Returns the number of builders behind each port.
pub(super) fn builders_per_port(builders: &[BuilderEntry]) -> BTreeMap<String, u64> {
    let mut ports = BTreeMap::new();
    for builder in builders {
        *ports.entry(builder.port_name().to_owned()).or_insert(0) += 1;
    }
    ports
}

/// Returns the part of a buffer that may be filled with granted data. The remaining tenth is for
/// traffic without grants: acknowledgements and control.
pub fn nine_tenths(port_buffer: Bytes) -> Bytes {
    Bytes::new(port_buffer.count() / 10 * 9 + port_buffer.count() % 10 * 9 / 10)
}

/// Returns the default window of a lane: the largest number of full packets for which the windows
/// of `lanes` lanes fit into nine tenths of the port's buffer.
fn default_window(network: &NetworkConfig, lanes: u64, cost: &PacketCost) -> Bytes {
    network.port_buffer.map_or(FREE_WINDOW, |port| cost.window(nine_tenths(port) / lanes.max(1)))
}

/// Returns the rule by which data are divided into packets with headers on this network.
pub(super) fn packet_cost(network: &NetworkConfig, cell: Bytes, is_protected: bool) -> PacketCost {
    let mtu = u32::try_from(network.mtu.count()).unwrap_or(u32::MAX);
    evb::role::packet_cost(network.transport, mtu, cell, is_protected)
}
