//! The machine on which a measurement was made, as every result in JSON states it.

#[cfg(test)]
mod tests;

use std::net::IpAddr;

use evb_host::cores;
use evb_net::host::{
    kernel,
    link::{self, Link},
    qdisc::{self, Place},
    text_of,
};
use serde::Serialize;

/// Facts about this machine that determine the results of a measurement. A fact that this system
/// does not report is `None`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Machine {
    /// Release of the kernel.
    pub kernel: Option<String>,
    /// Name of the processor.
    pub processor: Option<String>,
    /// Number of cores on which this process may run.
    pub cores: Option<usize>,
    /// Name of the network device on the route to the peer: the loopback device if the measurement
    /// used no other host.
    pub device: Option<String>,
    /// Size of the device's largest IP packet, in bytes.
    pub mtu: Option<u32>,
    /// Queueing disciplines of the device, as tc(8) writes them.
    pub queueing_discipline: Option<String>,
    /// Mean number of runnable threads during the last 1, 5 and 15 minutes, at the end of the
    /// measurement.
    pub load_average: Option<[f64; 3]>,
}

impl Machine {
    /// Reads the facts, with the device on the route to `peer`; `None` stands for the loopback
    /// device.
    pub fn read(peer: Option<IpAddr>) -> Self {
        let device = device(peer);
        Self {
            kernel: kernel::release().ok(),
            processor: text_of("/proc/cpuinfo").ok().and_then(|text| processor(&text)),
            cores: cores::cores().allowed.ok().map(|allowed| allowed.len()),
            mtu: device.as_ref().and_then(|device| device.mtu),
            queueing_discipline: device.as_ref().and_then(|device| disciplines(device.index)),
            device: device.map(|device| device.name),
            load_average: text_of("/proc/loadavg").ok().and_then(|text| load(&text)),
        }
    }
}

/// Returns the network device on the route to `peer`; `None` stands for the loopback device.
pub(super) fn device(peer: Option<IpAddr>) -> Option<Link> {
    match peer {
        None => link::links().ok()?.into_iter().find(|link| link.loopback),
        Some(peer) => link::on_route(peer, None),
    }
}

/// Returns the name of the first processor in the text of `/proc/cpuinfo`.
fn processor(text: &str) -> Option<String> {
    let name = |line: &str| {
        let (key, value) = line.split_once(':')?;
        ["model name", "Model"].contains(&key.trim()).then(|| value.trim().to_owned())
    };
    text.lines().find_map(name).filter(|name| !name.is_empty())
}

/// Returns the disciplines that take packets to send, each once: a device with many queues has many
/// equal ones.
fn disciplines(device: u32) -> Option<String> {
    let mut found: Vec<String> = Vec::new();
    for qdisc in qdisc::qdiscs(device).ok()?.iter().filter(|qdisc| qdisc.place != Place::Ingress) {
        let text = qdisc.to_string();
        if !found.contains(&text) {
            found.push(text);
        }
    }
    (!found.is_empty()).then(|| found.join(", "))
}

/// Returns the three load averages in the text of `/proc/loadavg`.
fn load(text: &str) -> Option<[f64; 3]> {
    let mut numbers = text.split_whitespace().map(str::parse);
    let mut next = || numbers.next()?.ok();
    Some([next()?, next()?, next()?])
}
