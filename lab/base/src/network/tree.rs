//! [`Tree`]: the switches of a network, and the trunks that join them into a tree.

use std::{ops::Range, time::Duration};

use anyhow::{Result, ensure};

use super::{Network, SWITCH, Shape, run};

/// Switches and trunks of a network.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Tree {
    /// One switch for all hosts.
    #[default]
    Single,
    /// The supervisor and the sources at one switch, the builders at another.
    Two(Link),
    /// The supervisor and the sources at the root, the builders at two switches in a row: the first
    /// half behind the trunk `middle`, the rest behind a trunk `far` beyond.
    Three { middle: Link, far: Link },
    /// The sources behind a trunk of their own, and the builders behind two trunks, of which
    /// `middle` is nearer to the root.
    Row { middle: Link, outer: Link },
    /// The sources behind one trunk and the builders behind another; the supervisor is at the
    /// switch in between.
    Cascade(Link),
    /// The sources behind two trunks, of which the first has this number of sources. The builders
    /// are at the root, whose ports to builders serve the incoming trunks in turn.
    Merge { first: u16, each: Link },
}

/// Rate and buffer of both directions of a trunk.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// Rate in bit/s of L2 frames.
    pub rate: u64,
    /// Buffer in bytes of L2 frames.
    pub buffer: u64,
}

/// A trunk of a network: the link of a switch towards the root.
#[derive(Clone, Debug, PartialEq)]
pub struct Trunk {
    pub name: &'static str,
    pub link: Link,
    /// Position of the next trunk towards the root; `None` at the root.
    pub above: Option<usize>,
    /// Ids of the sources at the switch at the far end.
    pub sources: Range<u16>,
    /// Ids of the builders at the switch at the far end.
    pub builders: Range<u16>,
}

/// Quantum of a turn of the kernel's deficit round robin beyond the MTU: the Ethernet header.
const ETHERNET: u64 = 14;
/// Rate that a class of a port with turns has without borrowing, in bit/s. It is small, so that
/// nearly all packets are borrowed from the port, for which the classes take turns.
const OWN_RATE: &str = "8000bit";
/// Number of packets that a trunk with a delay holds.
const NETEM_PACKETS: &str = "20000";

impl Shape {
    /// Returns the trunks of the network; a trunk comes before those beyond it.
    pub fn trunks(&self) -> Vec<Trunk> {
        let trunk = |name, link, above| Trunk { name, link, above, sources: 0..0, builders: 0..0 };
        let (sources, builders) = (1..self.sources + 1, 1..self.builders + 1);
        match self.tree {
            Tree::Single => Vec::new(),
            Tree::Two(link) => vec![Trunk { builders, ..trunk("core", link, None) }],
            Tree::Three { middle, far } => {
                let half = 1 + self.builders.div_ceil(2);
                vec![
                    Trunk { builders: 1..half, ..trunk("middle", middle, None) },
                    Trunk { builders: half..builders.end, ..trunk("far", far, Some(0)) },
                ]
            }
            Tree::Row { middle, outer } => vec![
                trunk("middle", middle, None),
                Trunk { builders, ..trunk("builders", outer, Some(0)) },
                Trunk { sources, ..trunk("sources", outer, None) },
            ],
            Tree::Cascade(each) => vec![
                Trunk { sources, ..trunk("sources", each, None) },
                Trunk { builders, ..trunk("builders", each, None) },
            ],
            Tree::Merge { first, each } => vec![
                Trunk { sources: 1..first + 1, ..trunk("first", each, None) },
                Trunk { sources: first + 1..sources.end, ..trunk("second", each, None) },
            ],
        }
    }

    /// Returns true if the switches' ports to builders serve incoming trunks in turn.
    pub fn has_turns(&self) -> bool {
        matches!(self.tree, Tree::Merge { .. })
    }

    /// Returns the buffer bytes of a port that frames of one incoming trunk can use. If trunks take
    /// turns, each trunk has an equal part of the port's buffer, and so have the hosts of the
    /// switch itself.
    pub fn port_part(&self) -> u64 {
        if self.has_turns() { self.port_buffer / (self.trunks().len() as u64 + 1) } else { self.port_buffer }
    }

    /// Returns the L2 rate of all lanes together at which the first queue is full, in bit/s, if all
    /// sources send fragments of the same size and all builders build equally many events.
    pub fn carries(&self) -> f64 {
        let trunks = self.trunks();
        let ports = self.rate as f64 * f64::from(self.builders);
        let uplinks = self.rate as f64 * f64::from(self.sources);
        let of_trunk = |position: usize| {
            let below = |range: fn(&Trunk) -> &Range<u16>| -> f64 {
                let reached = trunks.iter().enumerate().filter(|(other, _)| self.is_below(*other, position));
                reached.map(|(_, trunk)| range(trunk).len() as f64).sum()
            };
            let inside = below(|trunk| &trunk.sources) / f64::from(self.sources);
            let built = below(|trunk| &trunk.builders) / f64::from(self.builders);
            let crossing = ((1.0 - inside) * built).max(inside * (1.0 - built));
            trunks[position].link.rate as f64 / crossing
        };
        (0..trunks.len()).map(of_trunk).fold(ports.min(uplinks), f64::min)
    }

    /// Returns true if the trunk at a position is `above`, or beyond it.
    fn is_below(&self, position: usize, above: usize) -> bool {
        let trunks = self.trunks();
        std::iter::successors(Some(position), |at| trunks[*at].above).any(|at| at == above)
    }
}

impl Trunk {
    /// Returns true if a host is at the switch at the far end.
    fn is_home_of(&self, host: &str) -> bool {
        let is_in = |letter, ids: &Range<u16>| {
            host.strip_prefix(letter).and_then(|id| id.parse().ok()).is_some_and(|id| ids.contains(&id))
        };
        is_in('s', &self.sources) || is_in('b', &self.builders)
    }
}

/// Returns the name of a trunk's direction in counts; `end` is that of its device.
pub(super) fn counted(trunk: &Trunk, end: &str) -> String {
    format!("trunk {} {end}", trunk.name)
}

/// Returns the number of a trunk and the word for the direction that the device of its end serves,
/// such as `down` for the near end, which sends away from the root.
pub(super) fn of_device(device: &str) -> Option<(usize, &str)> {
    let (number, end) = device.strip_prefix('t')?.split_once('-')?;
    Some((number.parse().ok()?, end))
}

/// Returns the bridge that stands for the switch at the far end of a trunk, or for the root.
fn bridge(trunk: Option<usize>) -> String {
    format!("br{}", trunk.map_or(0, |trunk| trunk + 1))
}

/// Returns the bridge to which a host is connected.
pub(super) fn bridge_of(shape: Shape, host: &str) -> String {
    bridge(shape.trunks().iter().position(|trunk| trunk.is_home_of(host)))
}

/// Creates the bridges and the trunks between them.
pub(super) fn lay(network: &Network) -> Result<()> {
    let trunks = network.shape.trunks();
    for at in std::iter::once(None).chain((0..trunks.len()).map(Some)) {
        run("ip", &["-n", SWITCH, "link", "add", &bridge(at), "type", "bridge"])?;
        run("ip", &["-n", SWITCH, "link", "set", &bridge(at), "up"])?;
    }
    for (position, trunk) in trunks.iter().enumerate() {
        let (near, far) = (format!("t{position}-down"), format!("t{position}-up"));
        run("ip", &["-n", SWITCH, "link", "add", &near, "type", "veth", "peer", "name", &far])?;
        for (device, at) in [(&near, trunk.above), (&far, Some(position))] {
            network.set_packets(SWITCH, device)?;
            run("ip", &["-n", SWITCH, "link", "set", device, "master", &bridge(at), "up"])?;
            network.limit(SWITCH, device, trunk.link)?;
        }
    }
    Ok(())
}

/// Gives each direction of every trunk a delay, by the kernel's netem in place of the token bucket.
/// The trunks keep their rates; their queues become so long that they drop nothing.
pub(super) fn delay(network: &Network, delay: Duration) -> Result<()> {
    let delay = format!("{}us", delay.as_micros());
    for (position, trunk) in network.shape.trunks().iter().enumerate() {
        let rate = format!("{}bit", trunk.link.rate);
        for device in ["down", "up"].map(|end| format!("t{position}-{end}")) {
            let netem = ["root", "netem", "delay", &delay, "rate", &rate, "limit", NETEM_PACKETS];
            run("tc", &[&["-n", SWITCH, "qdisc", "replace", "dev", &device], &netem[..]].concat())?;
        }
    }
    Ok(())
}

/// Makes the port to a host serve incoming trunks in turn. The kernel's `htb` serves classes
/// that borrow from their parent by deficit round robin; packets are told apart by the source
/// host.
pub(super) fn take_turns(network: &Network, host: &str) -> Result<()> {
    let (shape, port) = (network.shape, format!("p-{host}"));
    let trunks = shape.trunks();
    let rate = format!("{}bit", shape.rate);
    let (limit, quantum) = (shape.port_part().to_string(), (shape.mtu + ETHERNET).to_string());
    let bucket = network.bucket().to_string();
    let tc = |what: &[&str], more: &[&str]| {
        run("tc", &[&["-n", SWITCH], what, &["dev", &port], more].concat()).map(drop)
    };
    // The last class is that of the switch's own hosts.
    let own = format!("{}", trunks.len() + 2);
    tc(&["qdisc", "replace"], &["root", "handle", "1:", "htb", "default", &own])?;
    let whole = ["htb", "rate", &rate, "burst", &bucket, "cburst", &bucket, "quantum", &quantum];
    tc(&["class", "add"], &[&["parent", "1:", "classid", "1:1"], &whole[..]].concat())?;
    // Only the port limits a class: its own ceiling is far above the rate of the port.
    let ceiling = format!("{}bit", shape.rate * 100);
    for number in 2..trunks.len() + 3 {
        let class = format!("1:{number}");
        let part = ["htb", "rate", OWN_RATE, "ceil", &ceiling, "cburst", &bucket, "quantum", &quantum];
        tc(&["class", "add"], &[&["parent", "1:1", "classid", &class], &part[..]].concat())?;
        tc(&["qdisc", "add"], &["parent", &class, "bfifo", "limit", &limit])?;
    }
    for sender in network.hosts() {
        let Some(trunk) = trunks.iter().position(|trunk| trunk.is_home_of(&sender)) else { continue };
        let (class, from) = (format!("1:{}", trunk + 2), format!("{}/32", super::address(&sender)?));
        let matched = ["u32", "match", "ip", "src", &from, "flowid", &class];
        tc(&["filter", "add"], &[&["parent", "1:", "protocol", "ip"], &matched[..]].concat())?;
    }
    Ok(())
}

/// Rejects trees that the lab cannot build. `least` is the smallest buffer that carries trains, in
/// bytes.
pub(super) fn check(shape: Shape, least: u64) -> Result<()> {
    ensure!(
        !(shape.trains && shape.has_turns()),
        "ports that serve trunks in turn carry single packets only: leave out --trains"
    );
    let least = if shape.trains { least } else { shape.frame() as u64 };
    for trunk in shape.trunks() {
        let Trunk { name, link, .. } = &trunk;
        ensure!(link.rate > 0, "the trunk {name} has the rate 0: give it a rate above 0");
        ensure!(
            link.buffer >= least,
            "the trunk {name} has a buffer of {} bytes, and needs at least {least}",
            link.buffer
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests;
