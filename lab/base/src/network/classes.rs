//! Traffic classes at a trunk, as a managed switch with priorities has them.

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::{Network, SWITCH, address, run};

/// Share of the trunk's rate that the first class is guaranteed, in percent.
const GUARANTEED: u64 = 85;
/// Handle of the first class, which contains the packets of the favoured hosts.
const FIRST: &str = "1:2";
/// Device of the end of the first trunk that sends away from the root.
const DEVICE: &str = "t0-down";

impl Network {
    /// Divides the first trunk's direction away from the root into two classes: packets of these
    /// hosts are guaranteed 85 % of the rate and sent first; other packets have the rest, and what
    /// is left over. Each class has a buffer as large as that of the trunk without classes.
    pub fn classify(&self, hosts: &[&str]) -> Result<()> {
        let trunks = self.shape.trunks();
        let link = trunks.first().context("the network has no trunk")?.link;
        let bits = |rate: u64| format!("{rate}bit");
        let (whole, first) = (bits(link.rate), bits(link.rate * GUARANTEED / 100));
        let rest = bits(link.rate * (100 - GUARANTEED) / 100);
        let (limit, bucket) = (link.buffer.to_string(), self.bucket().to_string());
        let quantum = (self.shape.frame() as u64).to_string();
        let tc = |what: &[&str], more: &[&str]| {
            run("tc", &[&["-n", SWITCH], what, &["dev", DEVICE], more].concat()).map(drop)
        };
        let shaped = ["ceil", &whole, "burst", &bucket, "cburst", &bucket, "quantum", &quantum];
        tc(&["qdisc", "replace"], &["root", "handle", "1:", "htb", "default", "3"])?;
        for (parent, class, rate, priority) in
            [("1:", "1:1", &whole, "0"), ("1:1", FIRST, &first, "0"), ("1:1", "1:3", &rest, "1")]
        {
            let own = ["parent", parent, "classid", class, "htb", "rate", rate, "prio", priority];
            tc(&["class", "add"], &[&own[..], &shaped[..]].concat())?;
        }
        for class in [FIRST, "1:3"] {
            tc(&["qdisc", "add"], &["parent", class, "bfifo", "limit", &limit])?;
        }
        for host in hosts {
            let from = format!("{}/32", address(host)?);
            let matched = ["u32", "match", "ip", "src", &from, "flowid", FIRST];
            tc(&["filter", "add"], &[&["parent", "1:", "protocol", "ip"], &matched[..]].concat())?;
        }
        Ok(())
    }

    /// Takes the classes away again, and returns the number of packets that the first class has
    /// dropped.
    pub fn declassify(&self) -> Result<u64> {
        let said = run("tc", &["-n", SWITCH, "-s", "-j", "qdisc", "show", "dev", DEVICE])?;
        let drops = first_drops(&said).context("the trunk has no classes")?;
        let trunks = self.shape.trunks();
        let link = trunks.first().context("the network has no trunk")?.link;
        run("tc", &["-n", SWITCH, "qdisc", "del", "dev", DEVICE, "root"])?;
        self.limit(SWITCH, DEVICE, link)?;
        Ok(drops)
    }
}

/// Returns the drops of the first class's queue, from tc's JSON listing.
fn first_drops(json: &str) -> Option<u64> {
    let entries: Vec<Value> = serde_json::from_str(json).ok()?;
    entries.iter().find(|entry| entry["parent"] == FIRST)?["drops"].as_u64()
}

#[cfg(test)]
mod tests;
