//! Computes the report of a finished run.

use core::time::Duration;

use evb_core::{
    grant::GrantPolicy as _,
    lane::RecoveryCounters,
    ledger::{Percentiles, RunReport},
    time::Instant,
    units::{Bytes, Rate},
};

use super::{SimError, Simulation};
use crate::{
    host::{BuilderHost, SourceHost},
    network::SUPERVISOR,
    report::{DatagramSummary, SimReport},
    switch::PortCounters,
};

impl Simulation<'_> {
    pub(super) fn report(mut self, run: RunReport) -> Result<SimReport, SimError> {
        let (scenario, now) = (self.scenario, self.network.now());
        self.ledger.check(&run.events).map_err(|what| scenario.broken(now, SUPERVISOR, what))?;
        let datagrams = self.datagrams();
        let nodes = self.network.switches().reports();
        if let Some(node) = nodes.iter().find(|node| node.peak > node.buffer) {
            let what = format!("{} held {}, and its buffer is {}", node.name, node.peak, node.buffer);
            return Err(scenario.broken(now, SUPERVISOR, what));
        }
        let ports = self.network.switches().host_ports();
        let (others, own) = ports.split_at(1 + self.sources.len());
        let drops = |ports: &[PortCounters]| ports.iter().map(|port| port.dropped).sum();
        let trunks = nodes.iter().filter(|node| node.is_trunk);
        let (retransmits, timeouts) = self.network.retransmits();
        let time = self.ledger.last_event.since(self.ledger.first_trigger).as_secs_f64();
        let rate = |bytes: u64| {
            let bits = if time > 0.0 { bytes as f64 * 8.0 / time } else { 0.0 };
            Rate::from_bits_per_second(bits as u64)
        };
        let sent: Bytes = (0..self.sources.len()).map(|source| self.network.sent(1 + source)).sum();
        self.ledger.latencies.sort_unstable();
        let quantile = |part: f64| quantile(&self.ledger.latencies, part);
        Ok(SimReport {
            transport: scenario.transport,
            mode: scenario.mode(),
            sources: scenario.sources,
            builders: scenario.builders,
            slots: scenario.slots,
            seed: scenario.seed,
            silenced: self.ledger.silenced(),
            goodput: rate(self.ledger.payload_by_builder.iter().sum()),
            source_rates: self.ledger.payload_by_source.iter().map(|bytes| rate(*bytes)).collect(),
            builder_rates: self.ledger.payload_by_builder.iter().map(|bytes| rate(*bytes)).collect(),
            sent: rate(sent.count()),
            capacity: scenario.capacity(),
            latency_p50: quantile(0.5),
            latency_p99: quantile(0.99),
            latency_max: quantile(1.0),
            builder_port_drops: drops(own),
            other_port_drops: drops(others),
            builder_port_peak: own.iter().map(|port| port.peak).max().unwrap_or_default(),
            trunk_drops: trunks.map(|node| node.drops).sum(),
            nodes,
            lost_frames: self.network.switches().lost(),
            retransmits: retransmits + datagrams.recovery.resends + datagrams.repeated,
            timeouts: timeouts + datagrams.recovery.timeouts,
            datagrams,
            outstanding_peak: self
                .builders
                .iter()
                .map(BuilderHost::outstanding_peak)
                .max()
                .unwrap_or_default(),
            grant_delay: self.grant_delay(),
            memory_peak: run
                .builders
                .iter()
                .map(|b| Bytes::new(b.memory_peak_bytes))
                .max()
                .unwrap_or_default(),
            memory_bound: self.memory_bound,
            duration: now.since(Instant::ZERO),
            frames: self.network.frames(),
            happenings: self.network.happenings(),
            run,
        })
    }

    /// Returns the median time from a grant to the arrival of its last byte, over the grants of all
    /// builders.
    fn grant_delay(&mut self) -> Duration {
        let mut took = Percentiles::default();
        for builder in &mut self.builders {
            took.add(&builder.core().policy().counters().last_byte.pairs(), 0);
        }
        Duration::from_micros(took.latency().p50)
    }

    /// Returns the summary of the datagrams on all lanes.
    fn datagrams(&mut self) -> DatagramSummary {
        let mut times = self.network.recoveries().to_vec();
        times.sort_unstable();
        let mut recovery = RecoveryCounters::default();
        for lanes in self.builders.iter_mut().map(BuilderHost::recovery) {
            recovery.lost_bytes += lanes.lost_bytes;
            recovery.resends += lanes.resends;
            recovery.timeouts += lanes.timeouts;
            recovery.late_after_loss += lanes.late_after_loss;
            recovery.duplicates += lanes.duplicates;
        }
        DatagramSummary {
            counts: *self.network.datagram_counters(),
            recovery,
            repeated: self.sources.iter().map(SourceHost::repeated).sum(),
            recovered: times.len() as u64,
            recovery_p50: quantile(&times, 0.5),
            recovery_p99: quantile(&times, 0.99),
            recovery_max: quantile(&times, 1.0),
        }
    }
}

/// Returns a quantile of sorted nanoseconds, by the nearest rank.
fn quantile(sorted: &[u64], part: f64) -> Duration {
    let rank = (part * sorted.len() as f64).ceil() as usize;
    Duration::from_nanos(sorted.get(rank.saturating_sub(1)).copied().unwrap_or_default())
}
