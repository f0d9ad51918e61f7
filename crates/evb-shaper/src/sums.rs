//! The sums of planning: what meets in a port, how long it stays, and what a budget carries.
//!
//! All are worst cases of fluid flow in and out of one buffer (network calculus: Cruz, 1991), in
//! the units of their arguments: buffer bytes with buffer-byte rates, line bytes with line rates. A
//! sum that mixes them is wrong by the headers.

use core::time::Duration;

use evb_core::units::{Bytes, Rate};

use crate::cost::PacketCost;

/// Returns (N − 1)·ℓ·Δt: the bytes that a port's buffer must hold when that many sources send at
/// link rate for that time to one port of the same rate. The port itself carries one of them away.
pub fn incast_buffer(sources: u64, link: Rate, time: Duration) -> Bytes {
    flow(u128::from(sources.saturating_sub(1)) * u128::from(link.bits_per_second()), time)
}

/// (Y − X)·Δt: what a buffer must hold when more flows in (Y) than out (X) for that long.
pub fn overload_buffer(inflow: Rate, outflow: Rate, time: Duration) -> Bytes {
    flow(inflow.bits_per_second().saturating_sub(outflow.bits_per_second()).into(), time)
}

/// Returns the time that a buffer takes to empty, and so the longest wait of a packet in it. It is
/// also the jitter of the loop from grant to data that a budget beyond the port's buffer can bear.
pub fn drain_time(held: Bytes, link: Rate) -> Duration {
    held / link
}

/// Returns min(1, L / (C·R)): the part of a link of rate C that a budget of L can fill, when R
/// passes from a grant to its data.
pub fn utilisation(budget: Bytes, link: Rate, round_trip: Duration) -> f64 {
    let carried = link.bytes_per_second() * round_trip.as_secs_f64();
    if carried <= budget.count() as f64 { 1.0 } else { budget.count() as f64 / carried }
}

/// C·R: the least budget that fills a link, when R passes from a grant to its data.
pub fn full_budget(link: Rate, round_trip: Duration) -> Bytes {
    flow(link.bits_per_second().into(), round_trip)
}

/// Returns N·window, headers included: the most buffer bytes that this many lanes put into a port,
/// each with a window of lane bytes.
pub fn windows_buffer(lanes: u64, window: Bytes, cost: &PacketCost) -> Bytes {
    cost.buffer(window) * lanes
}

/// Returns the window bound: the most lane bytes that each of that many lanes may have under way to
/// a port of that buffer; `None` where not even a packet fits for each.
pub fn largest_window(port_buffer: Bytes, lanes: u64, cost: &PacketCost) -> Option<Bytes> {
    let window = cost.affordable(port_buffer / lanes.max(1));
    (window > Bytes::ZERO).then_some(window)
}

/// Returns the number of lanes with that window that a port's buffer bears.
pub fn most_windows(port_buffer: Bytes, window: Bytes, cost: &PacketCost) -> u64 {
    port_buffer.count() / cost.buffer(window).count().max(1)
}

/// bits/s over a time, rounded up: a buffer that is a byte too small drops a packet.
fn flow(bits_per_second: u128, time: Duration) -> Bytes {
    let bytes = bits_per_second.saturating_mul(time.as_nanos()).div_ceil(8_000_000_000);
    Bytes::new(u64::try_from(bytes).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests;
