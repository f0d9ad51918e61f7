//! How many slots a builder has where the configuration does not say.

use std::time::Duration;

use evb_core::units::Bytes;

use super::{Config, TriggerConfig};

/// Where sizes or rate are not known before the run.
const USUAL: u64 = 16;
/// Beyond, more slots only add to the wait in queues.
const MOST: u64 = 256;
/// As fast as possible: one that arrives, one at the sink, and as many on their way.
const FEWEST: u64 = 4;
/// Programs that share a machine's cores let a message lie for so long.
const HANDS: Duration = Duration::from_millis(50);
/// A port that is kept full delays an event twice, its announcements and its bytes, by a budget's time each; as much again for what the
/// supervisor hears of it, and all of it twice, as events do not come evenly.
const PASSES: u64 = 8;
/// Of the events that the slots are counted for: one that arrives, and one at the sink.
const BESIDE: u64 = 2;

/// So many that the way of an event through its builder's port and everybody's hands is hidden behind others.
pub(super) fn usual(config: &Config) -> u32 {
    let cost = config.cost();
    let event: Option<Bytes> =
        config.sources.iter().map(|source| source.mean_in_lane().map(|size| cost.buffer(size))).sum();
    let slots = match (event, &config.supervisor.trigger) {
        (None, _) => USUAL,
        (Some(event), TriggerConfig::AsFastAsPossible) => of_bytes(config, event),
        (Some(_), trigger) => trigger.events_per_second().map_or(USUAL, |rate| of_rate(config, rate)),
    };
    u32::try_from(slots.min(bearable(config)).max(1)).unwrap_or(u32::MAX)
}

/// The more bytes an event has, the fewer it takes, and the more of them stay in processor caches.
fn of_bytes(config: &Config, event: Bytes) -> u64 {
    let passes = if config.network.port_buffer.is_some() { PASSES } else { 1 };
    let budget = config.builders.iter().map(|builder| builder.budget).max().unwrap_or_default();
    let in_hands = config.network.link_rate.map_or(Bytes::ZERO, |link| link * HANDS);
    let held = (budget * passes).max(in_hands);
    held.count().div_ceil(event.count().max(1)).saturating_add(BESIDE).clamp(FEWEST, MOST)
}

/// Little's law. No more than that: when a source hangs, what the slots hold is built without it.
fn of_rate(config: &Config, rate: f64) -> u64 {
    let under_way = rate / config.builders.len().max(1) as f64 * HANDS.as_secs_f64();
    (under_way.ceil() as u64).saturating_add(BESIDE).clamp(USUAL, MOST)
}

/// What the builders' memory has room for, where it is stated.
fn bearable(config: &Config) -> u64 {
    let rooms = config.builders.iter().filter_map(|builder| {
        let beside = config.out_of_order_memory(builder);
        builder
            .memory
            .map(|memory| memory.saturating_sub(beside).count() / config.slot_memory().count().max(1))
    });
    rooms.min().unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
