//! `[shaping]`: the rules by which sources may send, with defaults that depend on the network.

use evb_core::{
    offload::Offload,
    transport::Transport,
    units::{Bytes, Rate},
};
use evb_shaper::{
    ByteMeasure,
    cost::{self, CELL, PacketCost},
};

use super::{
    builder::BuilderEntry,
    classes::{self, ClassesConfig},
    division::{Division, FREE_BUDGET},
    layout::Layout,
    network::NetworkConfig,
    section::Section,
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
    /// Part that each lane has of the trunks' buffers, which limits default bursts; `None`: no
    /// trunk has a buffer.
    pub trunk_share: Option<Bytes>,
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
    /// Fills in the defaults that depend on the network. Gives every builder its budget.
    pub(super) fn resolve(
        self,
        section: &Section<'_>,
        network: &NetworkConfig,
        is_protected: bool,
        layout: &Layout,
        builders: &mut [BuilderEntry],
    ) -> ShapingConfig {
        let cost = packet_cost(network, self.cell, is_protected);
        let division = Division::new(network, layout, cost, self.budget);
        let budget = division.port_budget(network.link_rate).unwrap_or(FREE_BUDGET);
        for (builder, found) in builders.iter_mut().zip(division.budgets()) {
            builder.budget = found.port;
            builder.groups = found.groups;
        }
        let limits = |builder: &BuilderEntry| {
            builder.groups.iter().map(|group| group.limit).fold(builder.budget, Bytes::min)
        };
        let share = builders.iter().map(limits).min().unwrap_or(budget);
        let usual_chunk = || match network.port_buffer.or_else(|| division.trunk_share()) {
            Some(_) => cost.chunk(share, division.slowest_port()),
            // A single lane may hold a quarter of the budget. The chunk is a quarter of that, so
            // that a lane can have several grants under way and does not wait a round trip for
            // each.
            None => FREE_CHUNK.min(share / 16).max(Bytes::new(1)),
        };
        let chunk = self.chunk.unwrap_or_else(usual_chunk);
        if self.mode == ShapingMode::Credit {
            let own = builders.iter().map(|builder| builder.budget).min().unwrap_or(budget);
            self.refuse_large_chunk(section, network, &division, chunk, (share, own));
        }
        let lane_rate = division.lane_rate();
        if self.mode == ShapingMode::TokenBucket && self.rate.is_none() && lane_rate.is_none() {
            let remedy = "add the pace of a lane, for example rate = \"100 Mbit/s\", or [network] link_rate";
            section.refuse("rate", "mode = \"token-bucket\" needs a rate", remedy);
        }
        ShapingConfig {
            mode: self.mode,
            budget,
            chunk,
            sources_at_once: self.sources_at_once,
            window: self.window.or_else(|| division.lane_window()).unwrap_or(FREE_WINDOW),
            rate: self.rate.or_else(|| lane_rate.filter(|_| self.mode == ShapingMode::TokenBucket)),
            counts: self.counts,
            burst: self.burst,
            trunk_share: division.trunk_share(),
            cell: self.cell,
            offload: self.offload,
            spin: self.spin,
            keep_awake: self.keep_awake,
            busy_poll: self.busy_poll,
            classes: self.classes.and_then(|given| given.resolve(section, network)),
        }
    }

    /// Refuses a grant that is larger than the smallest part of a builder in a buffer.
    fn refuse_large_chunk(
        &self,
        section: &Section<'_>,
        network: &NetworkConfig,
        division: &Division<'_>,
        chunk: Bytes,
        (share, own): (Bytes, Bytes),
    ) {
        let charge = division.cost.buffer(chunk);
        if charge <= share {
            return;
        }
        let trunk = division.smallest_trunk().filter(|(_, part)| *part <= share || *part < own);
        if let Some((trunk, part)) = trunk {
            let found = &network.trunks[trunk];
            let reason = format!(
                "a grant of {chunk} charges {charge}, more than a builder's part of {} `{}`, which is {part}",
                found.kind.word(),
                found.name
            );
            let remedy = "make the chunk smaller, or let fewer builders share the trunk; its switch may have a larger buffer than stated";
            return found.refuse(section.notes(), "buffer", reason, remedy);
        }
        let reason = format!("a grant of {chunk} charges {charge}, more than a builder's budget of {share}");
        let place = if self.chunk.is_some() { "chunk" } else { "budget" };
        let remedy = "make the chunk smaller or the budget larger, or let fewer builders share a port";
        section.refuse(place, reason, remedy);
    }
}

/// Returns the rule by which data are divided into packets with headers on this network.
pub(super) fn packet_cost(network: &NetworkConfig, cell: Bytes, is_protected: bool) -> PacketCost {
    let mtu = u32::try_from(network.mtu.count()).unwrap_or(u32::MAX);
    cost::packet_cost(network.transport, mtu, cell, is_protected)
}
