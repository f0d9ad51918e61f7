//! BaBar's study of TCP windows: four senders with windows of 64 kB, or of 8 kB, into one port of
//! 100 Mbit/s whose buffer holds 160 KiB. Raw streams of `iperf3` come first, as in the study; then
//! event data without a control by evb, whose windows the socket option `receive_buffer` limits;
//! then evb's credit.

use std::{collections::BTreeMap, process::Command, thread, time::Duration};

use anyhow::{Context as _, Result};
use lab_base::{
    bench::{Bench, since},
    fleet::Fleet,
    iperf,
    network::{Network, PortCount, Shape, address},
    reference::rate,
    report::{Bound, Report},
    system::{Mode, System},
};
use serde_json::{Value, json};

const RATE: u64 = 100_000_000;
const PORT: u64 = 160 * 1024;
const FRAGMENT: u64 = 16_000;
/// Outstanding events: more data per lane than the largest window.
const SLOTS: u32 = 16;
/// Part of the packets that the study lost with windows of 64 kB: 41 of 60 000.
const STUDY: f64 = 41.0 / 60_000.0;
/// Time from the start of a run to the look at the windows.
const SETTLED: Duration = Duration::from_millis(1500);

/// Numbers of senders and sizes of windows in bytes, and true if no packet may be lost. The third
/// case is that of BaBar's 22 senders, whose windows do not fit into the port, and is only noted.
const CASES: [(u16, u64, bool); 3] = [(4, 65_536, false), (4, 8_192, true), (22, 8_192, false)];

pub(super) fn run(bench: &Bench, report: &mut Report) -> Result<()> {
    for (sources, window, is_safe) in CASES {
        let name = format!("{sources}x1 TCP windows {} kB", window / 1024);
        let (raw, credit) = (format!("{name}, streams"), format!("{name}, credit beside"));
        if ![&name, &raw, &credit].into_iter().any(|name| bench.wants(name)) {
            continue;
        }
        let network =
            Network::up(Shape { sources, builders: 1, rate: RATE, port_buffer: PORT, ..Shape::PLAIN })?;
        let system = |mode| System::new(mode, FRAGMENT).slots(SLOTS).warn();
        let mut counts = Vec::new();
        if bench.wants(&raw) {
            counts.push(streams(bench, &network, &raw, window, report)?);
        }
        if bench.wants(&name) {
            let lines = format!("receive_buffer = \"{window} B\"");
            counts.push(evb(bench, &network, &name, system(Mode::None).networked(&lines), report)?);
        }
        if bench.wants(&credit) {
            let credit = evb(bench, &network, &credit, system(Mode::Credit), report)?;
            report.holds(&format!("{}: packets lost", credit.name), credit.lost as f64, Bound::AtMost(0.0));
        }
        for count in &counts {
            if is_safe {
                report.holds(&format!("{}: packets lost", count.name), count.lost as f64, Bound::AtMost(0.0));
            }
        }
    }
    Ok(())
}

/// Packets that the port to the builder carried and dropped in one run.
struct Counted {
    name: String,
    carried: u64,
    lost: u64,
    /// Payload rate of each sender in Mbit/s.
    shares: Vec<f64>,
    /// Window in bytes that the first sender may use, as its kernel states it.
    window: Option<u64>,
}

impl Counted {
    /// Returns the lost part of the packets.
    fn fraction(&self) -> f64 {
        self.lost as f64 / ((self.carried + self.lost) as f64).max(1.0)
    }

    fn publish(&self, report: &mut Report) {
        let window = self.window.map_or_else(|| "not stated".to_owned(), |bytes| format!("{bytes} B"));
        report.note(format!(
            "{}: {} packets carried, {} lost, {:.4} % (the study: {:.4} % with 64 kB); window {window}; {:.1?} Mbit/s by sender, Jain's index {:.4}",
            self.name,
            self.carried,
            self.lost,
            self.fraction() * 100.0,
            STUDY * 100.0,
            self.shares,
            fairness(&self.shares),
        ));
        let value = json!({
            "packets_carried": self.carried,
            "packets_lost": self.lost,
            "fraction_lost": self.fraction(),
            "fraction_lost_of_study": STUDY,
            "window_bytes": self.window,
            "mbit_per_s_by_sender": self.shares,
            "jain_index": fairness(&self.shares),
        });
        report.attach(&self.name, value);
    }
}

/// Returns Jain's index of fairness: the square of the sum, divided by the number of values and by
/// the sum of their squares.
fn fairness(shares: &[f64]) -> f64 {
    let (sum, squares) = (shares.iter().sum::<f64>(), shares.iter().map(|share| share * share).sum::<f64>());
    sum * sum / (shares.len() as f64 * squares)
}

/// Runs a stream of `iperf3` from each sender, with this receive buffer.
fn streams(
    bench: &Bench,
    network: &Network,
    name: &str,
    window: u64,
    report: &mut Report,
) -> Result<Counted> {
    let pairs: Vec<(u16, u16)> = (1..=network.shape().sources).map(|i| (i, 1)).collect();
    let before = Before::now(network)?;
    let (seconds, size) = (bench.seconds.ceil().to_string(), window.to_string());
    let mut seen = None;
    let look = |_| -> Result<()> {
        thread::sleep(SETTLED);
        seen = window_of(network)?;
        Ok(())
    };
    let said = iperf::talk(network, &pairs, &["-t", &seconds, "-w", &size], look)?.0;
    let rates = said.iter().map(|said| -> Result<f64> {
        let said = serde_json::from_str(said).context("reading what iperf3 says")?;
        Ok(rate(&said, "sum_received")? / 1e6)
    });
    let shares = rates.collect::<Result<Vec<f64>>>()?;
    let (carried, lost) = before.until_now(network)?;
    let counted = Counted { name: name.to_owned(), carried, lost, shares, window: seen };
    counted.publish(report);
    Ok(counted)
}

/// Runs evb.
fn evb(bench: &Bench, network: &Network, name: &str, system: System, report: &mut Report) -> Result<Counted> {
    let before = Before::now(network)?;
    let mut window = None;
    let look = |fleet: &mut Fleet| -> Result<()> {
        if window.is_none() && fleet.elapsed() > SETTLED {
            window = Some(window_of(network)?);
        }
        Ok(())
    };
    let outcome = bench.run_with(network, name, system, look)?;
    report.add(&outcome);
    report.yes(&format!("{name}: every event complete"), outcome.is_complete());
    let sources = outcome.summary["sources"].as_array().map(Vec::as_slice).unwrap_or_default();
    let sent = |source: &Value| source["payload_bytes"].as_f64().unwrap_or(f64::NAN);
    let duration = outcome.number("duration_s");
    let shares = sources.iter().map(|source| sent(source) * 8.0 / duration / 1e6).collect();
    let (carried, lost) = before.until_now(network)?;
    let counted = Counted { name: name.to_owned(), carried, lost, shares, window: window.flatten() };
    counted.publish(report);
    Ok(counted)
}

/// Counters of the network before a run.
struct Before {
    ports: BTreeMap<String, PortCount>,
    packets: u64,
}

impl Before {
    fn now(network: &Network) -> Result<Self> {
        Ok(Self { ports: network.ports()?, packets: packets_to_builder(network)? })
    }

    /// Returns the numbers of packets that the port to the builder has carried and dropped since.
    fn until_now(&self, network: &Network) -> Result<(u64, u64)> {
        let ports = since(&self.ports, network.ports()?);
        let lost = ports.get("b1").context("the builder has no port")?.drops;
        Ok((packets_to_builder(network)? - self.packets, lost))
    }
}

/// Returns the number of packets that the switch's port to the builder has carried so far.
fn packets_to_builder(network: &Network) -> Result<u64> {
    let mut tc: Command = network.on_switch("tc");
    let output = tc.args(["-s", "-j", "qdisc", "show", "dev", "p-b1", "root"]).output()?;
    let said: Value = serde_json::from_slice(&output.stdout).context("reading the answer of tc")?;
    said[0]["packets"].as_u64().context("tc states no packets")
}

/// Returns the window of the first sender's busiest connection to the builder, in bytes.
fn window_of(network: &Network) -> Result<Option<u64>> {
    let builder = address("b1")?;
    let output = network.command("s1", "ss").args(["-tinH", "dst", &builder]).output()?;
    Ok(busiest_window(&String::from_utf8_lossy(&output.stdout)))
}

/// Returns `snd_wnd` of the connection that has sent most, from the output of `ss -ti`: the bytes
/// beyond the last acknowledgement that the receiver has offered to take.
fn busiest_window(said: &str) -> Option<u64> {
    let number = |line: &str, key: &str| -> Option<u64> {
        line.split_whitespace().find_map(|word| word.strip_prefix(key))?.parse().ok()
    };
    let connections = said.lines().filter_map(|line| Some((number(line, "bytes_sent:")?, line)));
    let (_, busiest) = connections.max_by_key(|(sent, _)| *sent)?;
    number(busiest, "snd_wnd:")
}

#[cfg(test)]
mod tests;
