//! [`Scenario`]: everything that determines a simulated run.

use core::time::Duration;

use evb_core::{
    id::{BuilderId, Epoch, RunNumber, SourceId},
    supervisor::RunPlan,
    trigger::TriggerKind,
    units::{Bytes, Frequency, Rate},
};
use evb_shaper::{
    LinkPlan, Shaping,
    cost::{CELL, PacketCost},
};

use crate::{
    network::NetworkModel,
    workload::{FragmentSize, Readout},
};

/// The transport of lanes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// Streams.
    #[default]
    Tcp,
    /// Datagrams in evb's own format; messages to and from the supervisor stay on streams.
    Udp,
}

impl Transport {
    /// Returns the cost of lane bytes with links of this MTU and a usual switch.
    pub fn cost(self, mtu: u32) -> PacketCost {
        match self {
            Self::Tcp => PacketCost::tcp(mtu, CELL),
            Self::Udp => PacketCost::udp(mtu, CELL),
        }
    }

    /// Returns the word that configurations use.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        }
    }
}

/// A simulated run. Equal scenarios give equal reports, to the last bit.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// Number of sources, each on its own host.
    pub sources: u16,
    /// Number of builders, each on its own host.
    pub builders: u16,
    /// Transport of the lanes.
    pub transport: Transport,
    /// Links, switch and hosts.
    pub network: NetworkModel,
    /// The fragments that sources push.
    pub readout: Readout,
    /// The shaping of the lanes.
    pub shaping: Shaping,
    /// The classes that share each source's link: fragments first, then messages to the supervisor.
    pub link: LinkPlan,
    /// The trigger of the run; not external.
    pub trigger: TriggerKind,
    /// Events outstanding per builder.
    pub slots: u32,
    /// Time for which an event waits for sources that have announced nothing.
    pub deadline: Duration,
    /// Time that a sink takes for an event.
    pub sink: Duration,
    /// Number of assigned events at which the run ends.
    pub events: u64,
    /// The seed of all random draws.
    pub seed: u64,
}

impl Default for Scenario {
    /// Returns eight sources with 64 kB each on one builder at 1 Gbit/s, with credit, as fast as
    /// possible.
    fn default() -> Self {
        let network = NetworkModel::default();
        Self {
            sources: 8,
            builders: 1,
            transport: Transport::default(),
            shaping: Shaping::credit_for(
                network.port_buffer,
                Some(network.link_rate),
                8,
                &PacketCost::tcp(network.mtu, CELL),
            ),
            link: LinkPlan::unlimited(),
            network,
            readout: Readout {
                size: FragmentSize::Fixed(Bytes::new(64_000)),
                delay: Duration::ZERO,
                silence: 0.0,
            },
            trigger: TriggerKind::AsFastAsPossible,
            slots: 16,
            deadline: Duration::from_secs(60),
            sink: Duration::ZERO,
            events: 200,
            seed: 1,
        }
    }
}

impl Scenario {
    /// Returns the payload rate that all builders' links together can carry: full packets without a
    /// pause.
    pub fn capacity(&self) -> Rate {
        let cost = self.cost();
        let (payload, packet) = (cost.packet_payload().count(), cost.packet_line().count());
        let bits = u128::from(self.network.link_rate.bits_per_second()) * u128::from(self.builders);
        let bits = bits * u128::from(payload) / u128::from(packet);
        Rate::from_bits_per_second(u64::try_from(bits).unwrap_or(u64::MAX))
    }

    /// Returns a periodic trigger that loads the builders' links to this part of
    /// [`Self::capacity`], for fragments of one size.
    pub fn periodic_at_load(&self, load: f64) -> Option<TriggerKind> {
        let event = self.readout.size.largest().count() * u64::from(self.sources);
        let rate = Frequency::from_hertz(self.capacity().bytes_per_second() * load / event as f64)?;
        Some(TriggerKind::Periodic { rate })
    }

    /// Returns the mode's name in the configuration.
    pub fn mode(&self) -> &'static str {
        match self.shaping {
            Shaping::Credit { .. } => "credit",
            Shaping::Window { .. } => "window",
            Shaping::TokenBucket(_) => "token-bucket",
            Shaping::None => "none",
        }
    }

    /// Returns the cost of lane bytes.
    pub fn cost(&self) -> PacketCost {
        self.transport.cost(self.network.mtu)
    }

    /// Returns the queueing delay of a full port.
    pub fn queue(&self) -> Duration {
        let NetworkModel { port_buffer, link_rate, .. } = self.network;
        self.shaping.longest_queue(port_buffer, link_rate, self.builders.into())
    }

    /// Returns a round trip through the idle network, of the smallest packets and the fastest
    /// programs, as a handshake measures it.
    pub fn round_trip(&self) -> Duration {
        let NetworkModel { latency, hosts, .. } = &self.network;
        *latency * 4 + hosts.source.wake_up.least() + hosts.builder.wake_up.least()
    }

    /// Returns the mean time R from a grant to its first data through the idle network: a port of
    /// rate C needs a buffer of C·R to be full.
    pub fn grant_path(&self) -> Duration {
        self.network.latency * 4 + self.network.hosts.grant_path()
    }

    pub(crate) fn plan(&self) -> RunPlan {
        let sources = (1..=self.sources).map(SourceId::new).collect();
        let builders = (1..=self.builders).map(BuilderId::new).collect();
        let mut plan = RunPlan::new(RunNumber::new(1), Epoch::new(1), sources, builders);
        // All hosts share the virtual clock.
        plan.boot_id = "world".to_owned();
        plan.trigger = self.trigger;
        plan.slots = self.slots;
        plan.deadline = self.deadline;
        plan.events = Some(self.events);
        // No peer dies here: lost frames may delay a heartbeat, but must not lead to the verdict
        // that its sender is down.
        plan.down_after = Duration::from_secs(30);
        plan.give_up_after = Duration::from_secs(60);
        plan.orphan_timeout = Duration::from_secs(600);
        plan.drain_grace = Duration::from_secs(600);
        plan.report_timeout = Duration::from_secs(600);
        plan
    }
}
