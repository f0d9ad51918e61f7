//! [`Outcome`], the result of one run: the supervisor's summary, the switch's counters, and the
//! resource usage of the processes.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{
    network::{PortCount, Shape},
    system::{System, Transport, Trigger, network_capacity},
};

/// Result of one run, as evb reports it, and as the network and the kernel measured it.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub name: String,
    pub shape: Shape,
    pub system: System,
    /// The run summary that the supervisor wrote, as JSON.
    pub summary: Value,
    /// Counters of the switch ports during the run, by host, and of both directions of each trunk.
    pub ports: BTreeMap<String, PortCount>,
    /// Exit code of each host's evbd process.
    pub codes: BTreeMap<String, i32>,
    pub wall_s: f64,
    /// User and system time of all evbd processes together, in seconds.
    pub cpu_s: f64,
    /// Share of the run in which the cores of the machine were busy, from 0 to 1.
    pub machine_busy: f64,
    /// Peak resident memory of the largest supervisor, source and builder process, in KiB.
    pub peak_rss_kib: BTreeMap<&'static str, u64>,
}

impl Outcome {
    /// Returns the outcome of a run with this summary, of which nothing else is known.
    pub fn of_summary(summary: Value) -> Self {
        Self {
            name: "x".to_owned(),
            shape: Shape::PLAIN,
            system: System::new(super::system::Mode::Credit, 64_000),
            summary,
            ports: BTreeMap::new(),
            codes: BTreeMap::from([("sup".to_owned(), 0)]),
            wall_s: 1.0,
            cpu_s: 1.0,
            machine_busy: 0.5,
            peak_rss_kib: BTreeMap::new(),
        }
    }

    /// Returns a number of the run summary by its dotted path; NaN, which fails every bound, if it
    /// is missing.
    pub fn number(&self, path: &str) -> f64 {
        let pointer = format!("/{}", path.replace('.', "/"));
        self.summary.pointer(&pointer).and_then(Value::as_f64).unwrap_or(f64::NAN)
    }

    /// Returns the payload rate over the whole duration of the run, in bit/s.
    pub fn goodput(&self) -> f64 {
        self.number("rates.payload_bytes_per_s") * 8.0
    }

    /// Returns the goodput as a share of the largest payload rate that the ports of all builders,
    /// and the trunks to them, can carry.
    pub fn goodput_share(&self) -> f64 {
        let System { transport, fragment, .. } = self.system;
        self.goodput() / network_capacity(self.shape, transport, fragment)
    }

    /// Returns the number of resends: retransmitted TCP segments, or over UDP, ranges of bytes that
    /// builders requested again.
    pub fn repeated(&self) -> f64 {
        match self.system.transport {
            Transport::Tcp => self.number("network.tcp_retransmits"),
            Transport::Udp => self.number("network.datagrams.resends"),
        }
    }

    /// Returns the number of packets that the switch dropped because a port's buffer was full.
    pub fn drops(&self) -> u64 {
        self.ports.values().map(|port| port.drops).sum()
    }

    /// Returns the number of L2 bytes that passed the ports to the builders, which is an upper
    /// limit of the payload.
    pub fn builder_port_bytes(&self) -> u64 {
        self.ports.iter().filter(|(host, _)| host.starts_with('b')).map(|(_, port)| port.bytes).sum()
    }

    /// Returns true if every assigned event is complete and written, and every process has exit
    /// code 0.
    pub fn is_complete(&self) -> bool {
        let clean = self.number("events.incomplete") == 0.0 && self.number("events.lost") == 0.0;
        let all = self.number("events.assigned") > 0.0
            && self.number("events.complete") == self.number("events.assigned")
            && self.number("events.written") == self.number("events.complete");
        clean && all && self.codes.values().all(|code| *code == 0)
    }

    /// Returns true if all events are complete and every payload byte is as generated; builders
    /// must be configured to check every byte.
    pub fn is_exact(&self) -> bool {
        self.system.check == "full" && self.is_complete() && self.number("network.crc_errors") == 0.0
    }

    /// Returns true if the payload and the payload rate that the summary states do not exceed the
    /// bytes that passed the builders' ports.
    pub fn is_plausible(&self) -> bool {
        let carried = self.builder_port_bytes() as f64;
        let (payload, rate) = (self.number("bytes.payload"), self.number("rates.payload_bytes_per_s"));
        // Rates count from the first trigger on. Only triggers from outside the system begin so
        // late that the whole duration, at this rate, would be more than was built.
        let is_late = self.system.trigger == Trigger::Multicast;
        payload > 0.0 && payload <= carried && (is_late || rate * self.number("duration_s") <= carried)
    }

    /// Returns a quantile of the build latency, divided by the time that an event's frames take
    /// through a port.
    pub fn latency_share(&self, quantile: &str) -> f64 {
        self.latency_us(quantile) / (self.system.wire_time(self.shape) * 1e6)
    }

    pub fn latency_us(&self, quantile: &str) -> f64 {
        self.number(&format!("build_latency_us.{quantile}"))
    }

    pub fn json(&self) -> Value {
        let ports: BTreeMap<_, _> = self
            .ports
            .iter()
            .map(|(host, p)| (host, json!({ "drops": p.drops, "bytes": p.bytes })))
            .collect();
        json!({
            "name": self.name,
            "network": self.shape.to_string(),
            "transport": self.system.transport.word(),
            "mode": self.system.mode.name(),
            "slots": self.system.slots,
            "fragment_bytes": self.system.fragment,
            "goodput_bit_per_s": self.goodput(),
            "goodput_share": self.goodput_share(),
            "wire_time_us": self.system.wire_time(self.shape) * 1e6,
            "drops": self.drops(),
            "ports": ports,
            "exit_codes": self.codes,
            "wall_s": self.wall_s,
            "cpu_s": self.cpu_s,
            "machine_busy": self.machine_busy,
            "peak_rss_kib": self.peak_rss_kib,
            "summary": self.summary,
        })
    }
}

/// Returns the median of the values; if their number is even, the larger of the two middle values.
pub fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Returns the largest relative difference of a value from the expected one; NaN if a value is
/// missing.
pub fn furthest(values: &[f64], expected: f64) -> f64 {
    let off = values.iter().map(|value| (value / expected - 1.0).abs());
    off.max_by(f64::total_cmp).unwrap_or(f64::NAN)
}

/// Returns a quantile of sorted values; `None` if there are no values.
pub fn quantile(sorted: &[f64], part: f64) -> Option<f64> {
    sorted.get((part * sorted.len() as f64) as usize).or_else(|| sorted.last()).copied()
}

#[cfg(test)]
mod tests;
