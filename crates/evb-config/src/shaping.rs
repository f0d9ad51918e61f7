//! `[shaping]`: the rules by which sources may send, with defaults that depend on the network.

use std::fmt;

use evb_core::{
    offload::Offload,
    transport::Transport,
    units::{Bytes, Rate},
};
use evb_shaper::{
    ByteMeasure,
    cost::{self, CELL, PacketCost},
};

use serde::{
    Deserialize, Deserializer,
    de::{self, Visitor},
};

use super::{
    builder::BuilderEntry,
    classes::{self, ClassesConfig},
    division::{Division, FREE_BUDGET},
    forms::{As, DataRate, KEY, Positive, Quantity, Whole, Word, Words, wrong},
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ShapingMode {
    /// Builders divide a budget among their lanes.
    #[default]
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OffloadChoice {
    /// The best mechanism that passes its test on this host at the start of the run.
    #[default]
    Auto,
    /// This mechanism without an alternative; if it does not work, the run is refused.
    Only(Offload),
}

/// Permission to keep a core busy, in order to depart on time or to receive without a wake-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spin {
    /// Threads sleep until timers or data wake them.
    #[default]
    Off,
    /// Threads keep cores busy; the run is refused if the host has too few cores.
    On,
    /// Threads keep cores busy even if the host has few cores.
    Force,
}

const FREE_CHUNK: Bytes = Bytes::kib(256);
const FREE_WINDOW: Bytes = Bytes::kib(64);

/// The section as the configuration gives it, before defaults are filled in.
#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(
    extend("dependencies" = { "sources_at_once": { "properties": { "mode": { "const": "credit" } } } }),
))]
pub(super) struct GivenShaping {
    /// The shaping mode: `"credit"`, `"window"`, `"token-bucket"` or `"none"`.
    ///
    /// Default: `"credit"`
    #[serde(default)]
    mode: ShapingMode,
    /// In mode credit, the bytes that may be under way to one switch port, in buffer bytes.
    /// Builders that share a port divide the budget. A budget below link rate × round trip costs
    /// throughput; a budget above the buffer costs packets.
    ///
    /// Default: 0.9 × `port_buffer`, less if the port is fast (room for one chunk stays free, at
    /// most a quarter of the buffer) or has many lanes (room for a packet of each lane stays free,
    /// at most half of the buffer); without `port_buffer` 8 MiB
    #[serde(default, with = "As::<Positive<Bytes>>")]
    budget: Option<Bytes>,
    /// In mode credit, the most that one grant permits, in lane bytes. With smaller chunks, more
    /// sources send at the same time, but evb needs more grants, each of which wakes up a source
    /// and the builder.
    ///
    /// Default: with `port_buffer`: the full packets in an eighth of the share, at most eleven (15
    /// 912 B); if the link carries more than that in 50 µs, the bytes that it carries in 50 µs, at
    /// most a train of 64 kB or an eighth of the share, and at most half of the share. Without
    /// `port_buffer` and without trunks that have a buffer: min(256 KiB, share / 16). The share is
    /// the smallest part of `budget` and of the trunks' buffers that a builder gets
    #[serde(default, with = "As::<Positive<Bytes>>")]
    chunk: Option<Bytes>,
    /// In mode credit, the number of sources that a builder lets send at the same time. With 1, the
    /// sources send one after the other, which keeps queues in the network short, and is at most as
    /// fast as one source.
    ///
    /// Default: any number
    #[serde(default, with = "Whole::<1, 65_535>")]
    sources_at_once: Option<u32>,
    /// In mode window, the lane bytes that each lane may have under way, whatever the other lanes
    /// do. The windows of all lanes, with headers, must fit into `port_buffer`.
    ///
    /// Default: for each lane as many full packets as the lanes can have together in 0.9 ×
    /// `port_buffer` and in the trunks' buffers; without these 64 KiB
    #[serde(default, with = "As::<Positive<Bytes>>")]
    window: Option<Bytes>,
    /// The rate of each lane; this key may be given in any mode. The key `rate` of a builder
    /// overrides it.
    ///
    /// Default: in mode token-bucket: 0.95 × `link_rate` / the number of lanes of a port, of a
    /// source's link, or of a trunk, whichever rate is lowest
    #[serde(default, with = "As::<DataRate>")]
    rate: Option<Rate>,
    /// The bytes that rates count: `"line"` bytes, or `"buffer"` bytes, as `tc` counts them.
    ///
    /// Default: `"line"`
    #[serde(default, rename = "rate_counts", with = "As::<Word<ByteMeasure>>")]
    counts: ByteMeasure,
    /// The bytes that a lane may catch up at once after a late timer. After a pause, a lane catches
    /// up nothing. The longest train is half of the burst: with timers, a lane sends a millisecond
    /// of its rate at a time (64 kB at most) if half of the burst is enough. A smaller burst makes
    /// shorter trains, which fill a port's buffer less and cost more processor time. On a network,
    /// state `port_buffer`; otherwise the size of the buffer does not limit the default burst.
    ///
    /// Default: 10 ms of the rate, at most the lane's part of a port's buffer and of the trunks'
    /// buffers, at least two full packets
    #[serde(default, with = "As::<Positive<Bytes>>")]
    burst: Option<Bytes>,
    /// The smallest number of bytes that evb charges for a packet, because switches store small
    /// packets in cells of fixed size.
    ///
    /// Default: `"256 B"`
    #[serde(default = "usual_cell", with = "As::<Quantity<Bytes>>")]
    cell: Bytes,
    /// The mechanism that keeps the rates: `"software"` (evb's timers), `"pacing-rate"` (the
    /// kernel, socket by socket), `"tbf"` (token buckets that [`evbd
    /// provision`](../how-to/provision.md) has put into the kernel); `"txtime"` and `"etf"` only
    /// for datagrams. With `"auto"`, evb tests the mechanisms at the start, uses the best one that
    /// works, and logs it with the reason. evb refuses a stated mechanism that does not work.
    ///
    /// Default: `"auto"`
    #[serde(default, with = "As::<Word<OffloadChoice>>")]
    offload: OffloadChoice,
    /// If true, evb may keep a processor core busy for a tenth of a millisecond before each
    /// departure, so that packets leave on time to the microsecond. evb refuses `true` on hosts
    /// with fewer than four cores; `"force"` overrides this check.
    ///
    /// Default: false
    #[serde(default)]
    spin: Spin,
    /// If true, hosts of sources and builders keep their idle cores from sleeping during a run, by
    /// writing `0` to `/dev/cpu_dma_latency`. A grant wakes up a source, and the data wakes up a
    /// builder. A core in a deep sleep state, or a virtual machine that its host has to resume,
    /// wakes up late by up to some 100 µs each time. Cores that do not sleep take more power, but
    /// no time of other programs. If evbd may not write to this device, the log says so.
    ///
    /// Default: `true` where `link_rate` is given and a builder's port empties in less than 1 ms
    keep_awake: Option<bool>,
    /// If true, sources and builders poll their sockets for 200 µs after each grant before they
    /// sleep. Polling saves wake-ups and shortens the time from a grant to its data; each source
    /// and builder keeps a core busy while events flow. evb refuses `true` at the start if the
    /// process has fewer cores than its sources, its builders and one more, or fewer than four, or
    /// if a test thread that polls for 5 ms loses its core for more than a tenth of that time;
    /// `"force"` overrides these checks.
    ///
    /// Default: false
    #[serde(default)]
    busy_poll: Spin,
    /// The traffic classes, in the section `[shaping.classes]`.
    ///
    /// Default: none
    classes: Option<classes::GivenClasses>,
}

fn usual_cell() -> Bytes {
    CELL
}

impl Words for ByteMeasure {
    fn words() -> Vec<(&'static str, Self)> {
        Self::ALL.map(|measure| (measure.word(), measure)).to_vec()
    }
}

impl Words for OffloadChoice {
    fn words() -> Vec<(&'static str, Self)> {
        let only = Offload::ALL.map(|offload| (offload.word(), Self::Only(offload)));
        [("auto", Self::Auto)].into_iter().chain(only).collect()
    }
}

/// `true`, `false` or `"force"`.
impl<'de> Deserialize<'de> for Spin {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct SpinVisitor;

        impl Visitor<'_> for SpinVisitor {
            type Value = Spin;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&wrong("true or false", format_args!("write {KEY} = true")))
            }

            fn visit_bool<E: de::Error>(self, is_on: bool) -> Result<Spin, E> {
                Ok(if is_on { Spin::On } else { Spin::Off })
            }

            fn visit_str<E: de::Error>(self, word: &str) -> Result<Spin, E> {
                if word == "force" {
                    return Ok(Spin::Force);
                }
                let reason = format!("`{KEY}` cannot be `{word}`");
                Err(E::custom(wrong(reason, "write true or false without quotes, or \"force\"")))
            }
        }

        deserializer.deserialize_any(SpinVisitor)
    }
}

/// Reads the section `[shaping]`; [`GivenShaping::resolve`] fills in the defaults.
pub(super) fn read(section: &Section<'_>, transport: Transport) -> Option<GivenShaping> {
    let given: GivenShaping = section.read()?;
    if given.sources_at_once.is_some() && given.mode != ShapingMode::Credit {
        let reason = "`sources_at_once` is used only with mode = \"credit\"";
        section.refuse("sources_at_once", reason, "remove it, or choose mode = \"credit\"");
    }
    if given.offload == OffloadChoice::Only(Offload::Etf) && transport == Transport::Udp {
        let reason = "Linux's queueing discipline `etf` drops packets that state no time at which to send them, and evb sends some of its packets without one";
        section.refuse("offload", reason, "write \"auto\", or \"txtime\" with the queueing discipline `fq`");
    }
    if let OffloadChoice::Only(offload @ (Offload::Txtime | Offload::Etf)) = given.offload
        && transport == Transport::Tcp
    {
        let reason = format!(
            "`{}` states for each UDP packet the time at which to send it, but data go over TCP here",
            offload.word()
        );
        let remedy = "write \"auto\", or network.transport = \"udp\"; over TCP the kernel paces by \"pacing-rate\" or \"tbf\"";
        section.refuse("offload", reason, remedy);
    }
    Some(given)
}

impl GivenShaping {
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
            let smallest = builders.iter().map(|builder| builder.budget).min().unwrap_or(budget);
            self.refuse_large_chunk(section, network, &division, chunk, (share, smallest));
        }
        let lane_rate = division.lane_rate();
        let lacks_rate = self.rate.is_none() && lane_rate.is_none() && !section.is_wrong("rate");
        if self.mode == ShapingMode::TokenBucket && lacks_rate {
            let remedy = "add the rate at which a source may send to each builder, for example rate = \"100 Mbit/s\", or add `link_rate` to [network]";
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
                "one permission to send (chunk = {chunk}) takes {charge} of buffer with headers, more than a builder's part of {} `{}`, which is {part}: no source could send",
                found.kind.word(),
                found.name
            );
            let remedy = format!(
                "make `chunk` of [shaping] smaller, let fewer builders share this {}, or correct `buffer` if its switch has a larger buffer",
                found.kind.word()
            );
            return found.refuse(section.notes(), "buffer", reason, remedy);
        }
        let reason = format!(
            "one permission to send (chunk = {chunk}) takes {charge} of buffer with headers, more than a builder's budget of {share}: no source could send"
        );
        let place = if self.chunk.is_some() { "chunk" } else { "budget" };
        let remedy = "make `chunk` smaller or `budget` larger, or let fewer builders share a port";
        section.refuse(place, reason, remedy);
    }
}

/// Returns the rule by which data are divided into packets with headers on this network.
pub(super) fn packet_cost(network: &NetworkConfig, cell: Bytes, is_protected: bool) -> PacketCost {
    let mtu = u32::try_from(network.mtu.count()).unwrap_or(u32::MAX);
    cost::packet_cost(network.transport, mtu, cell, is_protected)
}
