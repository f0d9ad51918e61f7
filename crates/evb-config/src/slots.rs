//! The default number of a builder's slots.

use std::time::Duration;

use evb_core::{
    supervisor::{MOST_SLOTS, RunPlan, SLOTS_BESIDE},
    units::Bytes,
};

use super::{Config, TriggerConfig};

/// Number of slots if the sizes of events or the event rate are unknown before the run.
const USUAL: u64 = 16;
/// Time for which a message may wait when several programs share a machine's cores.
const HANDS: Duration = Duration::from_millis(50);
/// Duration of an event through a full port, in units of the time that the port takes to send its
/// budget. The announcements and the data each wait in the port, and the supervisor learns of the
/// end equally late; the sum is doubled because events do not come evenly.
const PASSES: u64 = 8;

/// Returns a number of slots that keeps the builder's port busy while events wait in the port and
/// in busy programs.
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

/// Returns the number of slots if triggers come as fast as possible.
fn of_bytes(config: &Config, event: Bytes) -> u64 {
    let passes = if config.network.port_buffer.is_some() { PASSES } else { 1 };
    let budget = config.builders.iter().map(|builder| builder.budget).max().unwrap_or_default();
    let in_hands = config.network.link_rate.map_or(Bytes::ZERO, |link| link * HANDS);
    let held = (budget * passes).max(in_hands);
    RunPlan::usual_slots(event, held).into()
}

/// Returns the number of slots for a known event rate, by Little's law. The number is no larger
/// than necessary, because the events in all slots are built incomplete when a source hangs.
fn of_rate(config: &Config, rate: f64) -> u64 {
    let under_way = rate / config.builders.len().max(1) as f64 * HANDS.as_secs_f64();
    (under_way.ceil() as u64).saturating_add(SLOTS_BESIDE).clamp(USUAL, MOST_SLOTS.into())
}

/// Returns the number of slots that fit into the configured memory of every builder.
fn bearable(config: &Config) -> u64 {
    let rooms = config.builders.iter().filter_map(|builder| {
        let out_of_order = config.out_of_order_memory(builder);
        builder
            .memory
            .map(|memory| memory.saturating_sub(out_of_order).count() / config.slot_memory().count().max(1))
    });
    rooms.min().unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
