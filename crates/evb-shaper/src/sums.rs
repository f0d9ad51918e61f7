//! Formulas for planning: the bytes that meet in a port, the time that they stay, and the rate that
//! a budget sustains.
//!
//! All formulas are worst cases of fluid flow in and out of one buffer (network calculus: Cruz,
//! 1991). Results have the units of the arguments: buffer bytes with rates of buffer bytes, line
//! bytes with rates of line bytes. A formula that mixes both measures is wrong by the size of the
//! headers.

use core::time::Duration;

use evb_core::units::{Bytes, Rate};

use crate::cost::PacketCost;

/// Returns (N − 1)·ℓ·Δt: the bytes that a port's buffer must hold if N sources send at the link
/// rate ℓ for a time Δt to one port of the same rate. In this time, the port forwards as many bytes
/// as one source sends.
pub fn incast_buffer(sources: u64, link: Rate, time: Duration) -> Bytes {
    flow(u128::from(sources.saturating_sub(1)) * u128::from(link.bits_per_second()), time)
}

/// Returns (Y − X)·Δt: the bytes that a buffer must hold if they flow in at a rate Y and out at a
/// lower rate X for a time Δt.
pub fn overload_buffer(inflow: Rate, outflow: Rate, time: Duration) -> Bytes {
    flow(inflow.bits_per_second().saturating_sub(outflow.bits_per_second()).into(), time)
}

/// Returns Δt = X·RTT/Y: the time of each round trip for which a host sends, if it puts X·RTT, the
/// bytes that a path of rate X carries in a round trip, onto a link of rate Y at once. For the rest
/// of the round trip, the link is idle. A link that is not faster than the path is never idle.
///
/// In this time, the path needs a buffer of (Y − X)·Δt in front of its slowest link:
/// [`overload_buffer`]. Source of both: Hiraki et al., "End-node transmission rate control kind to
/// intermediate routers" (the full reference is at [`Clusters`](crate::Clusters)).
pub fn busy_time(path: Rate, link: Rate, round_trip: Duration) -> Duration {
    let (path, link) = (path.bits_per_second(), link.bits_per_second());
    if path >= link {
        return round_trip;
    }
    let nanos = round_trip.as_nanos().saturating_mul(path.into()) / u128::from(link);
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// Returns the time that a buffer with `held` bytes takes to empty, which is the longest wait of a
/// packet in it. For a budget of `held` bytes, the result is the longest time from a grant to its
/// data at which the budget still fills the link.
pub fn drain_time(held: Bytes, link: Rate) -> Duration {
    held / link
}

/// Returns min(1, L / (C·R)): the part of a link of rate C that a budget of L bytes can fill, if a
/// time R passes from a grant to the arrival of its data.
pub fn utilisation(budget: Bytes, link: Rate, round_trip: Duration) -> f64 {
    let carried = link.bytes_per_second() * round_trip.as_secs_f64();
    if carried <= budget.count() as f64 { 1.0 } else { budget.count() as f64 / carried }
}

/// Returns C·R: the smallest budget that fills a link of rate C, if a time R passes from a grant to
/// the arrival of its data.
pub fn full_budget(link: Rate, round_trip: Duration) -> Bytes {
    flow(link.bits_per_second().into(), round_trip)
}

/// Returns N·window, including headers: the largest number of buffer bytes that N lanes put into a
/// port, if each has a window of `window` lane bytes.
pub fn windows_buffer(lanes: u64, window: Bytes, cost: &PacketCost) -> Bytes {
    cost.buffer(window) * lanes
}

/// Returns the largest window: the lane bytes that each of `lanes` lanes may have under way so that
/// the port's buffer holds them all; `None` if it cannot hold even a packet of each lane.
pub fn largest_window(port_buffer: Bytes, lanes: u64, cost: &PacketCost) -> Option<Bytes> {
    let window = cost.affordable(port_buffer / lanes.max(1));
    (window > Bytes::ZERO).then_some(window)
}

/// Returns the largest number of lanes with the given window whose bytes fit into a port's buffer.
pub fn most_windows(port_buffer: Bytes, window: Bytes, cost: &PacketCost) -> u64 {
    port_buffer.count() / cost.buffer(window).count().max(1)
}

/// Returns the bytes that flow at a rate in a time. The result is rounded up, because a buffer that
/// is one byte too small drops a packet.
fn flow(bits_per_second: u128, time: Duration) -> Bytes {
    let bytes = bits_per_second.saturating_mul(time.as_nanos()).div_ceil(8_000_000_000);
    Bytes::new(u64::try_from(bytes).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests;
