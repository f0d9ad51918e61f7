//! A switched Ethernet made of network namespaces. Every host is connected to one port of a bridge.
//! The output queue of a port towards a host has a rate and a small buffer (tbf), so that incast
//! overflows it, as in a switch with shallow buffers.
//!
//! Hosts and addresses: `sup` 10.77.3.1, `s<i>` 10.77.1.i, `b<j>` 10.77.2.j. Segmentation offloads
//! are off, so that packets are as large as on a wire. Every route uses the congestion control
//! `cubic`, because the machine's default may pace packets by itself. With trains (`trains`), hosts
//! keep their offloads, and the token bucket and the queue of a switch port together have the size
//! of its configured buffer. A network may also have several switches, which trunks join into a
//! tree (`tree`).

mod claim;
mod tree;
mod trains;
mod classes;

use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use self::claim::{Claim, Found};
pub use self::tree::{Link, Tree, Trunk};
use super::interrupt;

const PREFIX: &str = "evb-";
const SWITCH: &str = "evb-sw";
/// Numbers of hosts in a network, and properties of the switch ports.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    pub sources: u16,
    pub builders: u16,
    /// Rate of every port, in bit/s of L2 frames.
    pub rate: u64,
    /// Buffer of every port, in bytes of L2 frames.
    pub port_buffer: u64,
    /// Largest IP packet, in bytes.
    pub mtu: u64,
    /// True if hosts send trains of packets (segmentation offload), which the network carries
    /// whole.
    pub trains: bool,
    pub tree: Tree,
}

impl Shape {
    /// One source and one builder at a switch with ports of 1 Gbit/s, with packets of the usual
    /// size that hosts send one by one (no [`trains`](Self::trains)). Other shapes replace some of
    /// its fields.
    pub const PLAIN: Self = Self {
        sources: 1,
        builders: 1,
        rate: 1_000_000_000,
        port_buffer: 128 * 1024,
        mtu: 1500,
        trains: false,
        tree: Tree::Single,
    };

    /// Returns the size of a full L2 frame, in bytes: the packet and 14 bytes of Ethernet.
    pub fn frame(&self) -> f64 {
        self.mtu as f64 + 14.0
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mbit, kib) = (self.rate / 1_000_000, self.port_buffer / 1024);
        write!(f, "{}x{} at {mbit} Mbit/s, {kib} KiB a port", self.sources, self.builders)?;
        if self.mtu != Self::PLAIN.mtu {
            write!(f, ", MTU {}", self.mtu)?;
        }
        f.write_str(if self.trains { ", trains" } else { "" })?;
        for Trunk { name, link, .. } in self.trunks() {
            write!(f, ", trunk {name} {} Mbit/s, {} KiB", link.rate / 1_000_000, link.buffer / 1024)?;
        }
        f.write_str(if self.has_turns() { ", trunks in turn" } else { "" })
    }
}

/// Counters of one switch port since the network came up.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PortCount {
    pub drops: u64,
    pub bytes: u64,
}

/// A running lab network; dropping this value removes it.
pub struct Network {
    shape: Shape,
    claim: Claim,
    /// Files that replace `/etc/hosts` on hosts whose names begin with this prefix.
    names: Vec<(&'static str, PathBuf)>,
}

impl Network {
    pub fn up(shape: Shape) -> Result<Self> {
        trains::check(shape)?;
        tree::check(shape, trains::LEAST_BUFFER)?;
        let claim = claim()?;
        run("ip", &["netns", "add", SWITCH])?;
        // From here on, dropping `network` removes all namespaces, even after an error.
        let network = Self { shape, claim, names: Vec::new() };
        network.silence(SWITCH)?;
        tree::lay(&network)?;
        // The machine's firewall rules must not apply to bridges, because they would cost
        // processor time that the hosts need.
        for table in ["iptables", "ip6tables", "arptables"] {
            let off = format!("net.bridge.bridge-nf-call-{table}=0");
            // The exit code of `sysctl` is ignored, because the setting does not exist if the
            // kernel cannot filter bridged packets.
            let _ = run("ip", &["netns", "exec", SWITCH, "sysctl", "-q", "-w", &off]);
        }
        for host in network.hosts() {
            interrupt::check()?;
            network.attach(&host).with_context(|| format!("attaching {host}"))?;
        }
        if shape.trains {
            network.introduce_hosts()?;
        }
        Ok(network)
    }

    pub fn shape(&self) -> Shape {
        self.shape
    }

    pub fn hosts(&self) -> Vec<String> {
        let sources = (1..=self.shape.sources).map(|i| format!("s{i}"));
        let builders = (1..=self.shape.builders).map(|j| format!("b{j}"));
        ["sup".to_owned()].into_iter().chain(sources).chain(builders).collect()
    }

    fn attach(&self, host: &str) -> Result<()> {
        let (space, port) = (format!("{PREFIX}{host}"), format!("p-{host}"));
        let address = format!("{}/16", address(host)?);
        let source = address.trim_end_matches("/16");
        run("ip", &["netns", "add", &space])?;
        self.silence(&space)?;
        run(
            "ip",
            &["link", "add", "e0", "netns", &space, "type", "veth", "peer", "name", &port, "netns", SWITCH],
        )?;
        for (space, device) in [(space.as_str(), "e0"), (SWITCH, port.as_str())] {
            self.set_packets(space, device)?;
        }
        run("ip", &["-n", &space, "addr", "add", &address, "dev", "e0"])?;
        run("ip", &["-n", &space, "link", "set", "lo", "up"])?;
        run("ip", &["-n", &space, "link", "set", "e0", "up"])?;
        let congestion = ["src", source, "congctl", "cubic"];
        run(
            "ip",
            &[&["-n", &space, "route", "replace", "10.77.0.0/16", "dev", "e0"], &congestion[..]].concat(),
        )?;
        run("ip", &["-n", SWITCH, "link", "set", &port, "master", &tree::bridge_of(self.shape, host), "up"])?;
        self.limit_host(host, self.shape.rate)?;
        if self.shape.has_turns() && host.starts_with('b') {
            return tree::take_turns(self, host);
        }
        self.limit_port(host, self.shape.rate)
    }

    /// Sets the rate of the switch's port towards a host, in bit/s; the buffer of the port stays
    /// the same.
    pub fn limit_port(&self, host: &str, rate: u64) -> Result<()> {
        let port = Link { rate: self.shape.rate, buffer: self.shape.port_buffer };
        let (bucket, queue) = (self.bucket(), trains::queue(self.shape, port));
        limit(SWITCH, &format!("p-{host}"), rate, bucket, &queue.to_string())
    }

    /// Sets the rate of a host's own link, in bit/s. The queue of the link is deep, so that packets
    /// wait in the host and are dropped only by switch ports.
    pub fn limit_host(&self, host: &str, rate: u64) -> Result<()> {
        limit(&format!("{PREFIX}{host}"), "e0", rate, self.bucket(), "10m")
    }

    /// Gives each direction of every trunk a delay; the kernel needs netem. The trunks keep their
    /// rates, and drop no packet.
    pub fn delay_trunks(&self, delay: Duration) -> Result<()> {
        tree::delay(self, delay)
    }

    /// Returns the number of L2 bytes that a host has sent so far.
    pub fn sent_bytes(&self, host: &str) -> Result<u64> {
        let said = run("ip", &["-n", &format!("{PREFIX}{host}"), "-s", "-j", "link", "show", "dev", "e0"])?;
        let links: Value = serde_json::from_str(&said).context("reading the answer of ip")?;
        links.pointer("/0/stats64/tx/bytes").and_then(Value::as_u64).context("ip states no bytes sent")
    }

    /// Drops this share of the packets towards a host at random; 0 switches the loss off.
    pub fn loss(&self, host: &str, percent: f64) -> Result<()> {
        let device = format!("p-{host}");
        if run("tc", &["-n", SWITCH, "qdisc", "show", "dev", &device, "clsact"])?.contains("clsact") {
            run("tc", &["-n", SWITCH, "qdisc", "del", "dev", &device, "clsact"])?;
        }
        if percent > 0.0 {
            run("tc", &["-n", SWITCH, "qdisc", "add", "dev", &device, "clsact"])?;
            let program = random_drop(percent);
            let filter = ["egress", "bpf", "da", "bytecode", &program];
            run("tc", &[&["-n", SWITCH, "filter", "add", "dev", &device], &filter[..]].concat())?;
        }
        Ok(())
    }

    /// Blocks all packets from and to a host at its switch port, or lets them pass again.
    pub fn cut(&self, host: &str, is_cut: bool) -> Result<()> {
        let device = format!("p-{host}");
        if !is_cut {
            return run("tc", &["-n", SWITCH, "qdisc", "del", "dev", &device, "clsact"]).map(drop);
        }
        run("tc", &["-n", SWITCH, "qdisc", "add", "dev", &device, "clsact"])?;
        for direction in ["egress", "ingress"] {
            let filter = [direction, "bpf", "da", "bytecode", "1,6 0 0 2"];
            run("tc", &[&["-n", SWITCH, "filter", "add", "dev", &device], &filter[..]].concat())?;
        }
        Ok(())
    }

    /// Returns the numbers of L2 bytes from and to every host, as counted by the switch.
    pub fn flows(&self) -> Result<BTreeMap<String, (u64, u64)>> {
        let said = run("ip", &["-n", SWITCH, "-s", "-j", "link", "show"])?;
        let links: Vec<Value> = serde_json::from_str(&said).context("reading the answer of ip")?;
        let of =
            |link: &Value, way: &str| link.pointer(&format!("/stats64/{way}/bytes")).and_then(Value::as_u64);
        let port = |link: &Value| {
            let host = link["ifname"].as_str()?.strip_prefix("p-")?.to_owned();
            Some((host, (of(link, "rx")?, of(link, "tx")?)))
        };
        Ok(links.iter().filter_map(port).collect())
    }

    /// Returns drops and bytes of every switch port, by host, and of both directions of each trunk,
    /// under names such as `trunk core down`. Packets that [`Self::loss`] drops are not counted.
    pub fn ports(&self) -> Result<BTreeMap<String, PortCount>> {
        self.port_counts(&run("tc", &["-n", SWITCH, "-s", "-j", "qdisc", "show"])?)
    }

    fn port_counts(&self, json: &str) -> Result<BTreeMap<String, PortCount>> {
        port_counts(json, &self.shape.trunks())
    }

    /// Returns a command that runs a program on a host. The process id of the command is that of
    /// the program, because the command's process executes the program directly.
    pub fn command(&self, host: &str, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &format!("{PREFIX}{host}")]);
        if let Some((_, file)) = self.names.iter().find(|(prefix, _)| host.starts_with(prefix)) {
            // This mount is visible to the command alone, because `ip netns exec` has created a
            // mount namespace for it.
            command.args(["sh", "-ec", "mount --bind \"$0\" /etc/hosts; exec \"$@\""]).arg(file);
        }
        command.arg(program);
        command
    }

    /// Returns a command that runs a program in the switch's network namespace.
    pub fn on_switch(&self, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", SWITCH, program]);
        command
    }

    /// Makes later commands on hosts whose names begin with `prefix` see this file as `/etc/hosts`.
    pub fn name_hosts(&mut self, prefix: &'static str, file: &Path) {
        self.names.push((prefix, file.to_owned()));
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        if let Err(error) = remove_spaces().and_then(|()| self.claim.give_up()) {
            eprintln!(
                "the lab could not be taken down whole: {error:#}; `cargo xtask lab down` removes the rest"
            );
        }
    }
}

/// Acquires the exclusive right to bring a lab up. Removes the namespaces and processes of an
/// earlier lab that was killed.
fn claim() -> Result<Claim> {
    let claim = match Claim::try_take()? {
        Found::Free(claim) => claim,
        Found::Left(claim) => {
            println!("an earlier lab was killed; what it has left is removed first");
            end_programs()?;
            remove_spaces()?;
            claim
        }
        Found::Taken => bail!("a lab is up on this machine, and only one can be: end that process first"),
    };
    if let Some(name) = spaces()?.first() {
        claim.give_up()?;
        bail!(
            "there is a network namespace {name} that no killed lab has left; if it is unused, remove it with `cargo xtask lab down`"
        );
    }
    Ok(claim)
}

/// Removes all network namespaces of the lab, even those that another process created, and kills
/// the programs in them.
pub fn remove_all() -> Result<()> {
    let (Found::Free(claim) | Found::Left(claim)) = Claim::try_take()? else {
        bail!("a lab is up on this machine; its own process takes it down, so end that process");
    };
    end_programs()?;
    remove_spaces()?;
    claim.give_up()
}

/// Returns the names of the lab's network namespaces that exist.
fn spaces() -> Result<Vec<String>> {
    let listed = run("ip", &["netns", "list"])?;
    let names = listed.lines().filter_map(|line| line.split_whitespace().next());
    Ok(names.filter(|name| name.starts_with(PREFIX)).map(str::to_owned).collect())
}

fn remove_spaces() -> Result<()> {
    spaces()?.iter().try_for_each(|name| run("ip", &["netns", "del", name]).map(drop))
}

/// Kills the programs in the lab's namespaces. Programs must be killed before the namespaces are
/// removed, because they are found by the name of their namespace.
fn end_programs() -> Result<()> {
    for name in spaces()? {
        // `ip netns pids` fails if only the name of a namespace is left; such a namespace has no
        // process to kill.
        let Ok(pids) = run("ip", &["netns", "pids", &name]) else { continue };
        for pid in pids.split_whitespace() {
            // The exit code of `kill` is ignored, because the process may have ended in the
            // meantime.
            let _ = run("kill", &["-KILL", pid]);
        }
    }
    Ok(())
}

/// Returns the IP address of a host of the lab.
pub fn address(host: &str) -> Result<String> {
    let number = |text: &str| {
        text.parse::<u8>().with_context(|| {
            format!("`{host}` is no host of the lab: those are sup, s1, s2, … and b1, b2, …")
        })
    };
    match host.split_at_checked(1) {
        _ if host == "sup" => Ok("10.77.3.1".into()),
        Some(("s", i)) => Ok(format!("10.77.1.{}", number(i)?)),
        Some(("b", j)) => Ok(format!("10.77.2.{}", number(j)?)),
        _ => bail!("`{host}` is no host of the lab: those are sup, s1, s2, … and b1, b2, …"),
    }
}

/// Returns a classic BPF program that returns 2 (drop) for a random share of the packets and 0
/// (pass) for the rest. The program loads a random word from the kernel (ancillary offset
/// `SKF_AD_OFF + SKF_AD_RANDOM` of linux/filter.h), and skips one instruction if the word is at or
/// above a threshold.
fn random_drop(percent: f64) -> String {
    let threshold = (percent.clamp(0.0, 100.0) / 100.0 * f64::from(u32::MAX)).round();
    format!("4,32 0 0 4294963256,53 1 0 {threshold:.0},6 0 0 2,6 0 0 0")
}

/// Reads the counts of all ports from tc's JSON listing. The queueing discipline at the root of a
/// port is `tbf`, or `htb` if trunks take turns, or `netem` at a trunk with a delay.
fn port_counts(json: &str, trunks: &[Trunk]) -> Result<BTreeMap<String, PortCount>> {
    let entries: Vec<Value> = serde_json::from_str(json).context("reading the answer of tc")?;
    let mut ports = BTreeMap::new();
    let is_port = |entry: &&Value| ["tbf", "htb", "netem"].iter().any(|kind| entry["kind"] == *kind);
    for entry in entries.iter().filter(is_port) {
        let device = entry["dev"].as_str().unwrap_or_default();
        let of_trunk = || {
            let (position, end) = tree::of_device(device)?;
            Some(tree::counted(trunks.get(position)?, end))
        };
        let name = device.strip_prefix("p-").map(str::to_owned).or_else(of_trunk);
        let name = name.with_context(|| format!("`{device}` is no port"))?;
        let count = |key: &str| entry[key].as_u64().with_context(|| format!("tc states no `{key}`"));
        ports.insert(name, PortCount { drops: count("drops")?, bytes: count("bytes")? });
    }
    Ok(ports)
}

/// Gives a device a token bucket of the given rate in bit/s, and a queue behind it.
fn limit(space: &str, device: &str, rate: u64, bucket: u64, queue: &str) -> Result<()> {
    let (rate, bucket) = (format!("{rate}bit"), bucket.to_string());
    let tbf = ["root", "tbf", "rate", &rate, "burst", &bucket, "limit", queue];
    run("tc", &[&["-n", space, "qdisc", "replace", "dev", device], &tbf[..]].concat()).map(drop)
}

/// Runs a program and returns its output.
pub fn run(program: &str, arguments: &[&str]) -> Result<String> {
    let output =
        Command::new(program).args(arguments).output().with_context(|| format!("{program} does not run"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{program} {}: {}", arguments.join(" "), said.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests;
