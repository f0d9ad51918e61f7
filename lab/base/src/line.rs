//! [`Line`]: a wide-area line between the switch and a host, which a router impairs in both
//! directions.

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::network::{Network, address, run};

/// Network namespace of the router; `NEAR` is its device towards the switch, `FAR` its device
/// towards the host.
const ROUTER: &str = "evb-line";
const NEAR: &str = "near";
const FAR: &str = "far";
const DEVICES: [&str; 2] = [NEAR, FAR];
/// Length of netem's queue, in packets: more than any line of this scenario holds at once, so that
/// netem loses packets only on purpose.
const LIMIT: &str = "20000";

/// The line in a network; removing the network removes the line.
pub struct Line<'n>(&'n Network);

/// Counters of the line so far, both directions together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LineCount {
    /// Number of packets that have passed the line.
    pub packets: u64,
    pub lost: u64,
}

impl LineCount {
    pub fn since(self, before: Self) -> Self {
        Self { packets: self.packets - before.packets, lost: self.lost - before.lost }
    }
}

impl<'n> Line<'n> {
    /// Disconnects a host from the switch, connects a router in its place, and builds a line from
    /// there to the host.
    pub fn lay(network: &'n Network, host: &str) -> Result<Self> {
        let space = format!("evb-{host}");
        let address = address(host)?;
        for words in [
            format!("netns add {ROUTER}"),
            format!("-n {space} link set e0 netns {ROUTER} name {NEAR}"),
            format!("link add e0 netns {space} type veth peer name {FAR} netns {ROUTER}"),
            format!("-n {space} addr add {address}/16 dev e0"),
            format!("-n {space} link set e0 up"),
            format!("-n {space} route replace 10.77.0.0/16 dev e0 src {address} congctl cubic"),
            format!("-n {ROUTER} link add br0 type bridge"),
            format!("-n {ROUTER} link set br0 up"),
            format!("-n {ROUTER} link set {NEAR} master br0 up"),
            format!("-n {ROUTER} link set {FAR} master br0 up"),
        ] {
            run("ip", &words.split_whitespace().collect::<Vec<_>>())?;
        }
        for (space, device) in [(space.as_str(), "e0"), (ROUTER, NEAR), (ROUTER, FAR)] {
            let words = format!("netns exec {space} ethtool -K {device} tso off gso off gro off");
            run("ip", &words.split_whitespace().collect::<Vec<_>>())?;
        }
        // netem would lose a whole train of datagrams as one packet, so UDP segmentation offload is
        // switched off. Scatter-gather is switched off because in a packet of several memory
        // pieces, netem damages only the first piece, which holds the headers.
        let spaces = network.hosts().into_iter().map(|host| format!("evb-{host}"));
        for device in spaces.map(|space| (space, "e0")).chain(DEVICES.map(|device| (ROUTER.into(), device))) {
            let words =
                format!("netns exec {} ethtool -K {} tx-udp-segmentation off sg off", device.0, device.1);
            run("ip", &words.split_whitespace().collect::<Vec<_>>())?;
        }
        network.limit_host(host, network.shape().rate)?;
        Ok(Self(network))
    }

    pub fn network(&self) -> &'n Network {
        self.0
    }

    /// Impairs both directions of the line independently; `words` has the notation of `tc … netem`.
    pub fn impair(&self, words: &str) -> Result<()> {
        for device in DEVICES {
            let words = format!("-n {ROUTER} qdisc replace dev {device} root netem limit {LIMIT} {words}");
            run("tc", &words.split_whitespace().collect::<Vec<_>>())?;
        }
        Ok(())
    }

    /// Removes the checksum of every UDP packet that has passed the line, so that the receiving
    /// kernel does not check it: a checksum of 0 means that there is none (RFC 768). The checksum
    /// lies at offset 6 of the UDP header, which follows 20 bytes of IP header.
    pub fn remove_checksums(&self) -> Result<()> {
        for (space, device) in [("evb-b1", "e0"), ("evb-sw", "p-b1")] {
            let words = format!("-n {space} qdisc add dev {device} clsact");
            run("tc", &words.split_whitespace().collect::<Vec<_>>())?;
            let words = format!(
                "-n {space} filter add dev {device} ingress protocol ip flower ip_proto udp \
                 action pedit munge offset 26 u16 set 0"
            );
            run("tc", &words.split_whitespace().collect::<Vec<_>>())?;
        }
        Ok(())
    }

    /// Returns the counters of the line so far.
    pub fn count(&self) -> Result<LineCount> {
        counted(&run("tc", &["-n", ROUTER, "-s", "-j", "qdisc", "show"])?)
    }
}

/// Returns the sum of netem's counters over both directions, from tc's JSON output.
pub fn counted(json: &str) -> Result<LineCount> {
    let entries: Vec<Value> = serde_json::from_str(json).context("reading the answer of tc")?;
    let mut sum = LineCount::default();
    for entry in entries.iter().filter(|entry| entry["kind"] == "netem") {
        let count = |key: &str| entry[key].as_u64().with_context(|| format!("tc states no `{key}`"));
        sum.packets += count("packets")?;
        sum.lost += count("drops")?;
    }
    Ok(sum)
}

#[cfg(test)]
mod tests;
