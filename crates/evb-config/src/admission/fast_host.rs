//! [`FastHost`]: sources whose links are faster or slower than the way to a port.

#[cfg(test)]
mod tests;

use std::{collections::BTreeSet, time::Duration};

use evb_core::units::{Bytes, Rate};
use evb_shaper::sums::{busy_time, overload_buffer};

use super::sums::{PortSum, Sums};

/// The sums of a source whose link and whose way to a port have different rates, all in line bytes.
/// Of several sources, the one that needs the largest buffer.
#[derive(Clone, Debug, PartialEq)]
pub struct FastHost {
    /// Y, the rate of the source's link.
    pub host_rate: Rate,
    /// X, the lowest rate of the trunks on the way and of the port.
    pub network_rate: Rate,
    /// Δt = X·R/Y for each time R from a grant to its data: the part of R for which the source's
    /// link is busy, if as many bytes are under way as fill the way.
    pub busy: Vec<Duration>,
    /// (Y−X)·Δt for each time R: the buffer that these bytes need where the rate falls to X.
    pub buffer: Vec<Bytes>,
}

/// Returns the sums of the source that differs most from its way to the port; `None` if all have
/// the rate of their way, or if a rate is unknown.
pub(super) fn fast_host(sums: &Sums, port: &PortSum, times: &[Duration]) -> Option<FastHost> {
    let link = port.rate?;
    // Sources are alike if their links have the same rate and place.
    let alike: BTreeSet<(Rate, Option<usize>)> =
        sums.uplinks.iter().filter_map(|uplink| Some((uplink.rate?, uplink.trunk))).collect();
    let pairs = alike.into_iter().map(|(host, trunk)| (host, narrowest(sums, trunk, port.trunk, link)));
    let differing = pairs.filter(|(host, network)| host != network);
    let second = Duration::from_secs(1);
    let needed = |host, network| overload_buffer(host, network, busy_time(network, host, second));
    let (host_rate, network_rate) = differing.max_by_key(|(host, network)| needed(*host, *network))?;
    let busy: Vec<Duration> = times.iter().map(|time| busy_time(network_rate, host_rate, *time)).collect();
    let buffer = busy.iter().map(|busy| overload_buffer(host_rate, network_rate, *busy)).collect();
    Some(FastHost { host_rate, network_rate, busy, buffer })
}

/// Returns the lowest rate between a source and a port: that of the port's link, or of a trunk that
/// the way crosses. Trunks above both are not on the way.
fn narrowest(sums: &Sums, source: Option<usize>, port: Option<usize>, link: Rate) -> Rate {
    let (up, down) = (chain(sums, source), chain(sums, port));
    let crossed = up.iter().filter(|node| !down.contains(node));
    let crossed = crossed.chain(down.iter().filter(|node| !up.contains(node)));
    crossed.filter_map(|node| sums.nodes.get(*node)?.rate).min().map_or(link, |rate| rate.min(link))
}

/// Returns the trunks above a link, from below.
fn chain(sums: &Sums, trunk: Option<usize>) -> Vec<usize> {
    core::iter::successors(trunk, |node| sums.nodes.get(*node)?.parent).collect()
}
