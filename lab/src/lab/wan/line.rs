//! The line behind a router, between the switch and builder 1, impaired both ways.

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::super::network::{Network, address, run};

/// The router's namespace, with the device towards the switch and the one towards the builder.
const ROUTER: &str = "evb-line";
const NEAR: &str = "near";
const FAR: &str = "far";
const DEVICES: [&str; 2] = [NEAR, FAR];
/// A queue's limit, in packets: more than any line here holds at once, so that all losses are
/// intended.
const LIMIT: &str = "20000";

/// A line in use; it is removed with its network.
pub(super) struct Line<'n>(&'n Network);

/// Counters of the line so far, both ways.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct LineCount {
    /// Packets that have passed.
    pub(super) packets: u64,
    pub(super) lost: u64,
}

impl LineCount {
    pub(super) fn since(self, before: Self) -> Self {
        Self { packets: self.packets - before.packets, lost: self.lost - before.lost }
    }
}

impl<'n> Line<'n> {
    /// Disconnects builder 1 from the switch, connects a router in its place, and builds a line
    /// from there to the builder.
    pub(super) fn lay(network: &'n Network) -> Result<Self> {
        let builder = "evb-b1";
        let address = format!("{}/16", address("b1")?);
        for words in [
            format!("netns add {ROUTER}"),
            format!("-n {builder} link set e0 netns {ROUTER} name {NEAR}"),
            format!("link add e0 netns {builder} type veth peer name {FAR} netns {ROUTER}"),
            format!("-n {builder} addr add {address} dev e0"),
            format!("-n {builder} link set e0 up"),
            format!(
                "-n {builder} route replace 10.77.0.0/16 dev e0 src {} congctl cubic",
                &address[..address.len() - 3]
            ),
            format!("-n {ROUTER} link add br0 type bridge"),
            format!("-n {ROUTER} link set br0 up"),
            format!("-n {ROUTER} link set {NEAR} master br0 up"),
            format!("-n {ROUTER} link set {FAR} master br0 up"),
        ] {
            run("ip", &words.split_whitespace().collect::<Vec<_>>())?;
        }
        for (space, device) in [(builder, "e0"), (ROUTER, NEAR), (ROUTER, FAR)] {
            let words = format!("netns exec {space} ethtool -K {device} tso off gso off gro off");
            run("ip", &words.split_whitespace().collect::<Vec<_>>())?;
        }
        // A train of datagrams would be one packet to the line, lost as a whole; and in a packet of
        // several pieces, netem damages only the first one, which holds the headers.
        let spaces = network.hosts().into_iter().map(|host| format!("evb-{host}"));
        for device in spaces.map(|space| (space, "e0")).chain(DEVICES.map(|device| (ROUTER.into(), device))) {
            let words =
                format!("netns exec {} ethtool -K {} tx-udp-segmentation off sg off", device.0, device.1);
            run("ip", &words.split_whitespace().collect::<Vec<_>>())?;
        }
        network.limit_host("b1", network.shape().rate)?;
        Ok(Self(network))
    }

    pub(super) fn network(&self) -> &'n Network {
        self.0
    }

    /// Impairs the line as netem's words say, each way separately.
    pub(super) fn impair(&self, words: &str) -> Result<()> {
        for device in DEVICES {
            let words = format!("-n {ROUTER} qdisc replace dev {device} root netem limit {LIMIT} {words}");
            run("tc", &words.split_whitespace().collect::<Vec<_>>())?;
        }
        Ok(())
    }

    /// Removes the checksum of every UDP packet that has passed the line, so that the kernels
    /// behind it do not check: 0 means that there is none (RFC 768). It is 6 bytes behind an IP
    /// header of 20.
    pub(super) fn remove_checksums(&self) -> Result<()> {
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

    /// Returns the counters so far.
    pub(super) fn count(&self) -> Result<LineCount> {
        counted(&run("tc", &["-n", ROUTER, "-s", "-j", "qdisc", "show"])?)
    }
}

/// Returns the sum of tc's counters over both devices.
pub(super) fn counted(json: &str) -> Result<LineCount> {
    let entries: Vec<Value> = serde_json::from_str(json).context("reading the answer of tc")?;
    let mut sum = LineCount::default();
    for entry in entries.iter().filter(|entry| entry["kind"] == "netem") {
        let count = |key: &str| entry[key].as_u64().with_context(|| format!("tc states no `{key}`"));
        sum.packets += count("packets")?;
        sum.lost += count("drops")?;
    }
    Ok(sum)
}
