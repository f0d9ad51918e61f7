//! Settings for single packets as on a wire, or for trains of packets. In single packets, 1 Gbit/s
//! occupies two cores. With trains, hosts keep their segmentation offloads and the network carries
//! trains of at most 16 KiB whole, so that two cores carry 10 Gbit/s.

use std::{
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::{Link, Network, PREFIX, SWITCH, Shape, address, limit, run, tree};

/// Number of bytes that a port's token bucket may send at once without trains: the smallest number
/// that still reaches 1 Gbit/s with the precision of the kernel's timers.
const BURST: u64 = 16 * 1024;
/// Largest train, in bytes of IP packets.
const TRAIN: &str = "16384";
/// Smallest token bucket of a port that carries trains, in bytes: three trains with their headers.
const BURST_OF_TRAINS: u64 = 48 * 1024;
/// Smallest buffer of a port that carries trains, in bytes.
pub(super) const LEAST_BUFFER: u64 = 2 * BURST_OF_TRAINS;
/// A token bucket holds at least the bytes that the port carries in 1/31 250 s (32 µs), because the
/// kernel's timers are some microseconds late.
const BUCKETS_PER_S: u64 = 31_250;

/// Rejects shapes whose port buffer is too small for trains, or whose MTU is impossible.
pub(super) fn check(shape: Shape) -> Result<()> {
    ensure!(
        !shape.trains || shape.port_buffer >= LEAST_BUFFER,
        "with trains a port needs a buffer of {} KiB",
        LEAST_BUFFER / 1024
    );
    ensure!(
        (576..=65_521).contains(&shape.mtu),
        "an MTU of {} is not possible here: give 576 to 65521",
        shape.mtu
    );
    Ok(())
}

/// Returns the size of the token bucket of a port to a host or to a trunk: the bytes of L2 frames
/// that an idle port sends at once.
pub(super) fn bucket(shape: Shape, port: Link) -> u64 {
    if !shape.trains {
        return BURST.max(shape.frame() as u64);
    }
    (port.rate / 8 / BUCKETS_PER_S).min(port.buffer / 2).max(BURST_OF_TRAINS)
}

/// Returns the size of the queue behind a port's token bucket, in bytes. With trains, bucket and
/// queue together have the size of the configured buffer; without trains, the queue alone does.
pub(super) fn queue(shape: Shape, port: Link) -> u64 {
    if shape.trains { port.buffer - bucket(shape, port) } else { port.buffer }
}

/// Counts of the packets that a switch has forwarded and dropped.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Passage {
    /// Number of packets that hosts have sent minus the number that left the switch. Only the
    /// difference between two counts is meaningful.
    missing: i64,
    /// Number of drops of all ports as tbf counts them: a dropped train counts as one.
    pub trains: u64,
}

impl Passage {
    /// Returns the number of packets dropped since `then`: the packets that did not leave the
    /// switch, but at least tbf's count. If tbf has counted no drop, the result is 0, because a
    /// missing packet may also be a multicast that the switch kept for itself.
    pub fn dropped_since(self, then: Self) -> u64 {
        let trains = self.trains - then.trains;
        if trains == 0 {
            return 0;
        }
        trains.max(u64::try_from(self.missing - then.missing).unwrap_or_default())
    }
}

impl Network {
    /// Returns the size of the token bucket of a host's port.
    pub(super) fn bucket(&self) -> u64 {
        bucket(self.shape, Link { rate: self.shape.rate, buffer: self.shape.port_buffer })
    }

    /// Gives a switch's port to a trunk its rate and buffer.
    pub(super) fn limit(&self, space: &str, device: &str, port: Link) -> Result<()> {
        let (bucket, queue) = (bucket(self.shape, port), queue(self.shape, port));
        limit(space, device, port.rate, bucket, &queue.to_string())
    }

    /// Sets the MTU at one end of a link, and switches segmentation offload on or off, so that
    /// packets come in trains or singly.
    pub(super) fn set_packets(&self, space: &str, device: &str) -> Result<()> {
        let mtu = self.shape.mtu.to_string();
        let link = ["-n", space, "link", "set", device];
        if self.shape.trains {
            return run("ip", &[&link[..], &["mtu", &mtu, "gso_max_size", TRAIN]].concat()).map(drop);
        }
        run("ip", &[&link[..], &["mtu", &mtu]].concat())?;
        // `gso off` does not switch UDP segmentation offload off; without `tx-udp-segmentation
        // off`, whole UDP trains would pass the switch, or be dropped, like single packets.
        let off = ["tso", "off", "gso", "off", "gro", "off", "tx-udp-segmentation", "off"];
        run("ip", &[&["netns", "exec", space, "ethtool", "-K", device], &off[..]].concat()).map(drop)
    }

    /// Disables IPv6 in a namespace, because IPv6 sends packets by itself as soon as a link is up.
    /// Must be called before any link is up.
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

    /// Enters the MAC addresses of all other hosts into every host's neighbour table. ARP
    /// broadcasts are then unnecessary, so that every packet that a host sends leaves the switch by
    /// exactly one port, or is dropped.
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

    /// Counts the packets that the switch has received from hosts and sent to hosts so far. The
    /// count is correct only in networks with trains, whose switch floods nothing but multicast.
    pub fn passage(&self) -> Result<Passage> {
        let mut before = self.sent_packets()?;
        loop {
            let said = run("tc", &["-n", SWITCH, "-s", "-j", "qdisc", "show"])?;
            let sent = self.sent_packets()?;
            // The count is repeated until no packet was sent meanwhile, because packets in flight
            // would look lost.
            if sent == before {
                let trains = self.port_counts(&said)?.values().map(|port| port.drops).sum();
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

/// Returns the number of packets that the token buckets of hosts' links and ports in tc's JSON
/// listing have sent; a train counts as its number of packets. Packets between switches do not
/// count.
fn packets(json: &str) -> Result<u64> {
    let entries: Vec<Value> = serde_json::from_str(json).context("reading the answer of tc")?;
    let is_trunk = |entry: &Value| entry["dev"].as_str().and_then(tree::of_device).is_some();
    let buckets = entries.iter().filter(|entry| entry["kind"] == "tbf" && !is_trunk(entry));
    buckets.map(|entry| entry["packets"].as_u64().context("tc states no `packets`")).sum()
}

/// Runs several `ip` commands in a namespace with one process.
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
