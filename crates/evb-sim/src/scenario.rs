//! [`Scenario`]: all parameters of a simulated run.

use core::time::Duration;

use evb_core::{
    id::{BuilderId, Epoch, RunNumber, SourceId},
    supervisor::RunPlan,
    transport::Transport,
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

/// The parameters of a simulated run. Equal scenarios give identical reports.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// Number of sources, each on its own host.
    pub sources: u16,
    /// Number of builders, each on its own host.
    pub builders: u16,
    /// Transport of the lanes.
    pub transport: Transport,
    /// Parameters of links, switch and hosts.
    pub network: NetworkModel,
    /// Sizes and delays of the fragments that sources push.
    pub readout: Readout,
    /// The shaping of the lanes.
    pub shaping: Shaping,
    /// The traffic classes that share each source's link. The first is for fragments, the second
    /// for messages to the supervisor.
    pub link: LinkPlan,
    /// The trigger of the run; it must not be external.
    pub trigger: TriggerKind,
    /// Largest number of events outstanding per builder.
    pub slots: u32,
    /// Time for which a builder waits for sources that have not announced a fragment of an event.
    pub deadline: Duration,
    /// Time that a sink takes to write an event.
    pub sink: Duration,
    /// Number of assigned events at which the run ends.
    pub events: u64,
    /// The seed of all random draws.
    pub seed: u64,
}

impl Default for Scenario {
    /// Returns a run of eight sources that send fragments of 64 kB to one builder at 1 Gbit/s, with
    /// credit and triggers as fast as possible.
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
    /// Returns the payload rate that the links of all builders together can carry with full packets
    /// without a pause.
    pub fn capacity(&self) -> Rate {
        let cost = self.cost();
        let (payload, packet) = (cost.packet_payload().count(), cost.packet_line().count());
        let bits = u128::from(self.network.link_rate.bits_per_second()) * u128::from(self.builders);
        let bits = bits * u128::from(payload) / u128::from(packet);
        Rate::from_bits_per_second(u64::try_from(bits).unwrap_or(u64::MAX))
    }

    /// Returns a periodic trigger that loads the builders' links to the fraction `load` of
    /// [`Self::capacity`], for fragments of a fixed size.
    pub fn periodic_at_load(&self, load: f64) -> Option<TriggerKind> {
        let event = self.readout.size.largest().count() * u64::from(self.sources);
        let rate = Frequency::from_hertz(self.capacity().bytes_per_second() * load / event as f64)?;
        Some(TriggerKind::Periodic { rate })
    }

    /// Returns the name of the shaping mode in configurations.
    pub fn mode(&self) -> &'static str {
        match self.shaping {
            Shaping::Credit { .. } => "credit",
            Shaping::Window { .. } => "window",
            Shaping::TokenBucket(_) => "token-bucket",
            Shaping::None => "none",
        }
    }

    /// Returns the cost of lane bytes with the scenario's transport and MTU.
    pub fn cost(&self) -> PacketCost {
        PacketCost::of(self.transport, self.network.mtu, CELL)
    }

    /// Returns the longest time that data may wait in full queues on the way to a builder.
    pub fn queue(&self) -> Duration {
        let NetworkModel { port_buffer, link_rate, .. } = self.network;
        self.shaping.longest_queue(port_buffer, link_rate, self.builders.into())
    }

    /// Returns the shortest round-trip time through the idle network, for small packets and the
    /// shortest wake-ups, as a handshake would measure it.
    pub fn round_trip(&self) -> Duration {
        let NetworkModel { latency, hosts, .. } = &self.network;
        *latency * 4 + hosts.source.wake_up.least() + hosts.builder.wake_up.least()
    }

    /// Returns the mean time R from a grant to the arrival of its first data in the idle network.
    /// To keep a port of rate C busy, a budget of C·R is needed.
    pub fn grant_path(&self) -> Duration {
        self.network.latency * 4 + self.network.hosts.grant_path()
    }

    pub(crate) fn plan(&self) -> RunPlan {
        let sources = (1..=self.sources).map(SourceId::new).collect();
        let builders = (1..=self.builders).map(BuilderId::new).collect();
        let mut plan = RunPlan::new(RunNumber::new(1), Epoch::new(1), sources, builders);
        // An equal boot id tells the supervisor that all hosts share one clock.
        plan.boot_id = "world".to_owned();
        plan.trigger = self.trigger;
        plan.slots = self.slots;
        plan.deadline = self.deadline;
        plan.events = Some(self.events);
        // No process fails in this simulation. Lost frames may delay heartbeats, but must not make
        // the supervisor declare a peer down.
        plan.down_after = Duration::from_secs(30);
        plan.give_up_after = Duration::from_secs(60);
        plan.orphan_timeout = Duration::from_secs(600);
        plan.drain_grace = Duration::from_secs(600);
        plan.report_timeout = Duration::from_secs(600);
        plan
    }
}
