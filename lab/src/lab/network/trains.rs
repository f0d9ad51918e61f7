//! Packets as on a wire, or trains of them. Cut into packets, 1 Gbit/s takes both of two cores.
//! With trains, hosts keep their segmentation offloads and the network carries trains of at most 16
//! KiB whole, so that 10 Gbit/s fit.

use std::{
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::{Network, PREFIX, SWITCH, Shape, address, run};

/// Bytes that tbf may send at once: the smallest number that still reaches 1 Gbit/s with the
/// kernel's timers.
const BURST: u64 = 16 * 1024;
/// The largest train, in bytes of IP.
const TRAIN: &str = "16384";
/// The same for a port that carries trains: three of them, with their headers.
const BURST_OF_TRAINS: u64 = 48 * 1024;
/// A bucket holds at least what the port carries in this part of a second, because timers are some
/// microseconds late.
const BUCKETS_PER_S: u64 = 31_250;

/// Rejects shapes whose ports cannot carry trains.
pub(super) fn check(shape: Shape) -> Result<()> {
    let least = 2 * BURST_OF_TRAINS;
    ensure!(
        !shape.trains || shape.port_buffer >= least,
        "with trains a port needs a buffer of {} KiB",
        least / 1024
    );
    ensure!((576..=65_521).contains(&shape.mtu), "an MTU of {} is not possible here", shape.mtu);
    Ok(())
}

/// Returns the bytes of L2 frames that an idle port lets through at once.
pub(super) fn bucket(shape: Shape) -> u64 {
    if !shape.trains {
        return BURST.max(shape.frame() as u64);
    }
    (shape.rate / 8 / BUCKETS_PER_S).min(shape.port_buffer / 2).max(BURST_OF_TRAINS)
}

/// Returns the most bytes that wait behind the bucket. With trains, bucket and queue together are
/// the stated buffer; without, the queue alone is.
pub(super) fn queue(shape: Shape) -> u64 {
    if shape.trains { shape.port_buffer - bucket(shape) } else { shape.port_buffer }
}

/// Counts of the packets that have passed a switch, and of those that have not.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Passage {
    /// Packets that hosts have sent, less those that left by a port. Only differences mean
    /// something.
    missing: i64,
    /// Drops of the ports, as tbf counts: a train is one, and so is a packet alone.
    pub(crate) trains: u64,
}

impl Passage {
    /// Returns the packets dropped since `then`. If tbf has dropped nothing, it returns none,
    /// because the difference alone would count a packet that the switch has multiplied or kept for
    /// itself (multicast). Otherwise it returns at least tbf's count.
    pub(crate) fn dropped_since(self, then: Self) -> u64 {
        let trains = self.trains - then.trains;
        if trains == 0 {
            return 0;
        }
        trains.max(u64::try_from(self.missing - then.missing).unwrap_or_default())
    }
}

impl Network {
    pub(super) fn bucket(&self) -> u64 {
        bucket(self.shape)
    }

    pub(super) fn queue(&self) -> u64 {
        queue(self.shape)
    }

    /// Sets the size of packets at one end of a link, and whether they come in trains.
    pub(super) fn set_packets(&self, space: &str, device: &str) -> Result<()> {
        let mtu = self.shape.mtu.to_string();
        let link = ["-n", space, "link", "set", device];
        if self.shape.trains {
            return run("ip", &[&link[..], &["mtu", &mtu, "gso_max_size", TRAIN]].concat()).map(drop);
        }
        run("ip", &[&link[..], &["mtu", &mtu]].concat())?;
        // `gso` does not cover UDP's: whole trains would pass the switch, and be lost, as if they
        // were packets.
        let off = ["tso", "off", "gso", "off", "gro", "off", "tx-udp-segmentation", "off"];
        run("ip", &[&["netns", "exec", space, "ethtool", "-K", device], &off[..]].concat()).map(drop)
    }

    /// Disables IPv6, which sends by itself as soon as a link is up. Called before any link is.
    pub(super) fn silence(&self, space: &str) -> Result<()> {
        if !self.shape.trains || !Path::new("/proc/sys/net/ipv6").exists() {
            return Ok(());
        }
        for interfaces in ["all", "default"] {
            let off = format!("net.ipv6.conf.{interfaces}.disable_ipv6=1");
            run("ip", &["netns", "exec", space, "sysctl", "-q", "-w", &off])?;
        }
        Ok(())
    }

    /// Tells every host the hardware addresses of all others. The switch then floods nothing, and
    /// every packet that a host sends leaves the switch by one port, or is lost.
    pub(super) fn introduce_hosts(&self) -> Result<()> {
        let mut known = Vec::new();
        for host in self.hosts() {
            let space = format!("{PREFIX}{host}");
            let said = run("ip", &["-n", &space, "-j", "link", "show", "dev", "e0"])?;
            let links: Value = serde_json::from_str(&said).context("reading the answer of ip")?;
            let hardware =
                links.pointer("/0/address").and_then(Value::as_str).context("no hardware address")?;
            known.push((
                host.clone(),
                format!("neigh replace {} lladdr {hardware} dev e0 nud permanent\n", address(&host)?),
            ));
        }
        for host in self.hosts() {
            let others: String =
                known.iter().filter(|(other, _)| *other != host).map(|(_, line)| line.as_str()).collect();
            batch(&format!("{PREFIX}{host}"), &others)?;
        }
        Ok(())
    }

    /// Counts what the switch has taken from hosts and given to hosts so far. Only for networks
    /// with trains, whose switch floods nothing but multicast.
    pub(crate) fn passage(&self) -> Result<Passage> {
        let mut before = self.sent_packets()?;
        loop {
            let said = run("tc", &["-n", SWITCH, "-s", "-j", "qdisc", "show"])?;
            let sent = self.sent_packets()?;
            // Packets under way between the two counts would look lost.
            if sent == before {
                let trains = super::port_counts(&said)?.values().map(|port| port.drops).sum();
                return Ok(Passage { missing: sent as i64 - packets(&said)? as i64, trains });
            }
            super::interrupt::check()?;
            before = sent;
        }
    }

    fn sent_packets(&self) -> Result<u64> {
        let sent = |host: &String| {
            packets(&run(
                "tc",
                &["-n", &format!("{PREFIX}{host}"), "-s", "-j", "qdisc", "show", "dev", "e0"],
            )?)
        };
        self.hosts().iter().map(sent).sum()
    }
}

/// Returns the packets that the token buckets of a listing have sent; trains count by their
/// packets.
fn packets(json: &str) -> Result<u64> {
    let entries: Vec<Value> = serde_json::from_str(json).context("reading the answer of tc")?;
    let buckets = entries.iter().filter(|entry| entry["kind"] == "tbf");
    buckets.map(|entry| entry["packets"].as_u64().context("tc states no `packets`")).sum()
}

/// Gives `ip` several commands at once, in a namespace.
fn batch(space: &str, lines: &str) -> Result<()> {
    let mut ip = Command::new("ip")
        .args(["-n", space, "-batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .context("ip does not run")?;
    ip.stdin.take().context("ip has no input")?.write_all(lines.as_bytes())?;
    ensure!(ip.wait()?.success(), "ip -batch fails in {space}");
    Ok(())
}

#[cfg(test)]
mod tests;
