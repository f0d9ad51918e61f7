//! [`Scenario`]: all parameters of a simulated run.

use core::time::Duration;

use evb_core::{
    id::{BuilderId, Epoch, Peer, RunNumber, SourceId},
    index::BuilderIndex,
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
    network::{NetworkModel, Tree},
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
    /// Sizes of the fragments of single sources, in the order of their ids, which replace
    /// `readout.size`; the list may be short.
    pub sizes: Vec<FragmentSize>,
    /// The shaping of the lanes.
    pub shaping: Shaping,
    /// The shaping of the lanes to single builders, in the order of their ids, which replaces
    /// `shaping`; the list may be short. The mode is that of `shaping`.
    pub shapings: Vec<Shaping>,
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
            shapings: Vec::new(),
            sizes: Vec::new(),
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
    /// Returns the payload rate that the links of all builders and the trunks to them together can
    /// carry with full packets without a pause, if all builders build equally many events.
    pub fn capacity(&self) -> Rate {
        let cost = self.cost();
        let (payload, packet) = (cost.packet_payload().count(), cost.packet_line().count());
        let ports = (1..=self.builders).map(|id| self.network.port_rate(Peer::Builder(BuilderId::new(id))));
        let slowest = ports.min().unwrap_or(self.network.link_rate).bits_per_second();
        let bits = u128::from(slowest) * u128::from(self.builders);
        let bits = bits.min(self.trunks_carry()) * u128::from(payload) / u128::from(packet);
        Rate::from_bits_per_second(u64::try_from(bits).unwrap_or(u64::MAX))
    }

    /// Returns the rate of all lanes together, in bits per second, at which the first trunk is
    /// full.
    fn trunks_carry(&self) -> u128 {
        let loads = self.trunk_loads();
        let event = (0..usize::from(self.sources)).map(|source| self.size(source).largest().count());
        let event = u128::from(event.sum::<u64>()) * u128::from(self.builders);
        let trunks = self.network.trunks.iter().zip(&loads);
        let carried = trunks.map(|(trunk, load)| {
            let rate = u128::from(trunk.rate.bits_per_second());
            (rate * event).checked_div(u128::from(load[0].max(load[1]))).unwrap_or(u128::MAX)
        });
        carried.min().unwrap_or(u128::MAX)
    }

    /// Returns, for both directions of each trunk, the bytes that cross it if each source sends one
    /// fragment to each builder.
    fn trunk_loads(&self) -> Vec<[u64; 2]> {
        let tree = Tree::new(&self.network.trunks);
        let (mut from, mut to) = (vec![0; tree.switches()], vec![0; tree.switches()]);
        for source in 0..self.sources {
            from[tree.home(Peer::Source(SourceId::new(1 + source)))] +=
                self.size(source.into()).largest().count();
        }
        for builder in 0..self.builders {
            to[tree.home(Peer::Builder(BuilderId::new(1 + builder)))] += 1;
        }
        let mut loads = vec![[0; 2]; self.network.trunks.len()];
        for (above, bytes) in from.iter().enumerate().filter(|(_, bytes)| **bytes > 0) {
            for (below, builders) in to.iter().enumerate().filter(|(_, builders)| **builders > 0) {
                let path = tree.path(above, below);
                path.up.into_iter().for_each(|trunk| loads[trunk][0] += bytes * builders);
                path.down.into_iter().for_each(|trunk| loads[trunk][1] += bytes * builders);
            }
        }
        loads
    }

    /// Returns the distribution of the sizes of a source's fragments; sources are counted from
    /// zero.
    pub fn size(&self, source: usize) -> FragmentSize {
        self.sizes.get(source).copied().unwrap_or(self.readout.size)
    }

    /// Returns the shaping of the lanes to a builder.
    pub fn shaping_of(&self, builder: BuilderIndex) -> &Shaping {
        self.shapings.get(builder.get()).unwrap_or(&self.shaping)
    }

    /// Returns a periodic trigger whose events, if all fragments have their largest size, use the
    /// fraction `load` of [`Self::capacity`]. `None` if no rate above zero results, as with a load
    /// of 0 or with fragments without bytes.
    pub fn periodic_at_load(&self, load: f64) -> Option<TriggerKind> {
        let sizes = (0..usize::from(self.sources)).map(|source| self.size(source).largest().count());
        let event: u64 = sizes.sum();
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

    /// Returns the longest time that data may wait in full queues on the way to a builder. With
    /// trunks, the time is that of a path through all of them.
    pub fn queue_delay(&self) -> Duration {
        let NetworkModel { port_buffer, .. } = self.network;
        let ports = (1..=self.builders).map(|id| self.network.port_rate(Peer::Builder(BuilderId::new(id))));
        let slowest = ports.min().unwrap_or(self.network.link_rate);
        let trunks: Duration = self.network.trunks.iter().map(|trunk| trunk.buffer / trunk.rate * 2).sum();
        self.shaping.longest_queue(port_buffer, slowest, self.builders.into()) + trunks
    }

    /// Returns the shortest round-trip time through the idle network, for small packets and the
    /// shortest wake-ups, as a handshake would measure it.
    pub fn round_trip(&self) -> Duration {
        let NetworkModel { latency, hosts, .. } = &self.network;
        *latency * 2 * self.network.longest_path()
            + hosts.source.wake_up.least()
            + hosts.builder.wake_up.least()
    }

    /// Returns the mean time R from a grant to the arrival of its first data in the idle network.
    /// To keep a port of rate C busy, a budget of C·R is needed.
    pub fn grant_path(&self) -> Duration {
        self.network.latency * 2 * self.network.longest_path() + self.network.hosts.grant_path()
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
