//! Advice on the shaping mode, the budget and the slots, each with its reason.

use std::time::Duration;

use evb_core::units::{Bytes, Rate};
use evb_shaper::{
    ByteMeasure, Pace,
    cost::{CELL, PacketCost},
    sums::{drain_time, full_budget, utilisation},
};

use super::Numbers;
use crate::{ShapingMode, admission::HANDLING, nine_tenths};

/// The advice of a plan, with a reason for each part.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Advice {
    pub(super) mode: ShapingMode,
    pub(super) mode_reason: String,
    /// Budget to write into the configuration; `None`: the configuration leaves the budget to its
    /// default, which follows from the port's buffer.
    pub(super) budget: Option<Bytes>,
    pub(super) budget_shown: String,
    pub(super) budget_reason: String,
    /// Rate and burst of each lane, if the shaping mode uses paces.
    pub(super) pace: Option<(Rate, Bytes)>,
    pub(super) slots: u32,
    pub(super) slots_reason: String,
}

impl Advice {
    /// Returns key, value and reason of each part of the advice.
    pub(super) fn rows(&self) -> impl Iterator<Item = (&'static str, String, &str)> {
        [
            ("mode", self.mode.word().to_owned(), self.mode_reason.as_str()),
            ("budget", self.budget_shown.clone(), self.budget_reason.as_str()),
            ("slots", self.slots.to_string(), self.slots_reason.as_str()),
        ]
        .into_iter()
    }
}

/// Budget in units of C·R (link rate × time from a grant to its data) if the port's buffer is
/// unknown. A budget slightly above C·R keeps the link busy, because a builder gives its next
/// grants as soon as data arrive and holds back only a packet or two; the rest is margin.
const UNSTATED_MARGIN: u64 = 4;
/// Largest suggested number of slots. Where the calculation asks for more, events are small, and
/// larger events are a better use of memory.
const MOST_SLOTS: f64 = 1024.0;

/// Part of the triggers that may find all slots taken.
const DEAD_TIME: f64 = 0.001;
/// Load above which token buckets are not advised. The default paces give the lanes 95 % of the
/// link together, and not every train of packets is full.
const PACED_LOAD: f64 = 0.92;

/// The quantities from which all advice is computed.
struct Measures {
    cost: PacketCost,
    /// Rate of the link in buffer bytes.
    frames: Rate,
    /// Time from a grant to its data.
    path: Duration,
    /// Buffer bytes that an event of mean size takes in a port.
    event: Bytes,
}

/// Computes the advice for these numbers; `path` is the longest time from a grant to its data.
pub(super) fn advise(arguments: &Numbers, path: Duration) -> Advice {
    let cost = PacketCost::tcp(arguments.mtu, CELL);
    let frames = cost.rate_in(arguments.link_rate, ByteMeasure::Line, ByteMeasure::Buffer);
    let fragment = Bytes::new(arguments.event_size.count().div_ceil(u64::from(arguments.sources)));
    let event = cost.buffer(fragment) * u64::from(arguments.sources);
    let measures = Measures { cost, frames, path, event };
    let (mode, mode_reason) = mode(arguments, &measures);
    let (budget, budget_shown, budget_reason) = budget(arguments, &measures, mode);
    let held = budget.or_else(|| arguments.port_buffer.map(|buffer| usual_budget(arguments, &cost, buffer)));
    let (slots, slots_reason) = slots(arguments, &measures, held);
    let pace = (mode == ShapingMode::TokenBucket).then(|| pace(arguments, &measures)).flatten();
    Advice { mode, mode_reason, budget, budget_shown, budget_reason, pace, slots, slots_reason }
}

/// Chooses the mode of shaping, and says why: credit, unless it leaves the link partly idle and
/// token buckets fit.
fn mode(arguments: &Numbers, measures: &Measures) -> (ShapingMode, String) {
    let Some(buffer) = arguments.port_buffer else {
        let reason = "with credit, a port loses no packets, but evb must know the size of its buffer: measure it with `evbd probe-buffer`, and give it as --port-buffer";
        return (ShapingMode::Credit, reason.to_owned());
    };
    let budget = usual_budget(arguments, &measures.cost, buffer);
    let part = utilisation(budget, measures.frames, measures.path);
    if part >= 1.0 {
        let reason = format!(
            "the port's buffer leaves a budget of {budget}, which fills the link if data arrive within {} of a builder's grant (its permission to send); {} is expected, and no source can overrun the port",
            short(drain_time(budget, measures.frames)),
            short(measures.path)
        );
        return (ShapingMode::Credit, reason);
    }
    let bursts = measures.cost.packet_buffer() * 2 * u64::from(arguments.sources);
    let filled = format!(
        "credit fills {:.0} % of the link, because {} pass from a builder's grant (its permission to send) to the arrival of the data",
        part * 100.0,
        short(measures.path)
    );
    // The port of each of B builders carries all fragments of every B-th event. The link of each
    // source carries one fragment of every event.
    let busiest = f64::from(arguments.builders.min(arguments.sources));
    let asked = arguments.trigger_rate.map_or(0.0, |rate| rate.hertz() / busiest);
    let load = asked * measures.event.count() as f64 / measures.frames.bytes_per_second();
    if bursts <= budget && load > PACED_LOAD {
        let reason = format!(
            "{filled}; token buckets carry at most 95 % of the link, and this trigger rate loads it to {:.0} %: to fill the link, use a switch with a larger port buffer",
            load * 100.0
        );
        (ShapingMode::Credit, reason)
    } else if bursts <= budget {
        let reason = format!(
            "{filled}; token buckets do not wait for grants, and the port's buffer has room for two packets of each of {} sources ({bursts})",
            arguments.sources
        );
        (ShapingMode::TokenBucket, reason)
    } else {
        let reason = format!(
            "{filled}; token buckets would lose packets, because two packets of each of {} sources ({bursts}) are more \
             than the budget of {budget}: to fill the link, use a switch with a larger port buffer, or shorten this time",
            arguments.sources
        );
        (ShapingMode::Credit, reason)
    }
}

fn usual_budget(arguments: &Numbers, cost: &PacketCost, buffer: Bytes) -> Bytes {
    cost.budget(buffer, Some(arguments.link_rate), u64::from(arguments.sources))
}

/// Chooses the budget: the value for the configuration, unless the default is right; the value to
/// show; and the reason.
fn budget(arguments: &Numbers, measures: &Measures, mode: ShapingMode) -> (Option<Bytes>, String, String) {
    let least = full_budget(measures.frames, measures.path);
    match arguments.port_buffer {
        Some(_) if mode == ShapingMode::TokenBucket => {
            (None, "-".to_owned(), "none, because token buckets limit what meets in the port".to_owned())
        }
        Some(buffer) => {
            let budget = usual_budget(arguments, &measures.cost, buffer);
            let reason = format!(
                "the part of the port buffer of {buffer} for data; the rest is for acknowledgements, announcements and what hosts send again on their own; a full link needs {least}, which it carries in the {} from a builder's grant (its permission to send) to the arrival of the data",
                short(measures.path)
            );
            (None, budget.to_string(), reason)
        }
        None => {
            // The budget has room for at least two grants of the default size, so that two sources
            // can send in turn.
            let budget = (least * UNSTATED_MARGIN).max(Bytes::kib(64));
            let reason = format!(
                "{UNSTATED_MARGIN} times the {least} that the link carries in the {} from a builder's grant (its permission to send) to the arrival of the data, so that the link is full; better measure the port's buffer with `evbd probe-buffer`, and give it as --port-buffer",
                short(measures.path)
            );
            (Some(budget), budget.to_string(), reason)
        }
    }
}

/// Returns rate and burst of a lane. The lanes' rates together exceed neither the link of a port,
/// which receives a lane from every source, nor the link of a source, which has a lane to every
/// builder. The burst is a millisecond of the rate, but at most the lane's part of the port's
/// buffer, because the bursts of all lanes may arrive at the same time.
fn pace(arguments: &Numbers, measures: &Measures) -> Option<(Rate, Bytes)> {
    let lanes = u64::from(arguments.sources.max(arguments.builders));
    let rate = Rate::from_bits_per_second(arguments.link_rate.bits_per_second() / 100 * 95 / lanes);
    let share = nine_tenths(arguments.port_buffer?) / u64::from(arguments.sources);
    let burst = (rate * Pace::USUAL_LATENESS).min(share).max(measures.cost.packet_buffer() * 2);
    Some((rate, burst))
}

/// Returns a number of slots for which triggers seldom find all slots taken, and the events in the
/// slots can use the whole budget.
fn slots(arguments: &Numbers, measures: &Measures, held: Option<Bytes>) -> (u32, String) {
    let event = measures.event.count().max(1) as f64;
    let carried = measures.frames.bytes_per_second() / event;
    let asked = arguments.trigger_rate.map(|rate| rate.hertz() / f64::from(arguments.builders));
    let rate = asked.unwrap_or(carried).min(carried);
    // The time of an event besides its time on the link.
    let overhead = measures.path * 2 + HANDLING;
    let time = measures.event / measures.frames + overhead;
    let under_way = rate * overhead.as_secs_f64();
    let of_budget = held.map_or(0.0, |held| held.count() as f64 / event + 1.0);
    let load = rate / carried;
    let (of_chance, reason) = match asked {
        Some(_) if load < 0.99 => {
            let queue = queue_for(load);
            let reason = format!(
                "{rate:.0} events/s for each builder load its link to {:.0} %: with {queue} slots, at most {:.1} % of random \
                 triggers find none free; on average, {:.1} more slots are taken by events on their way through the hosts",
                load * 100.0,
                DEAD_TIME * 100.0,
                under_way
            );
            (f64::from(queue) + under_way, reason)
        }
        // The link is always busy here. By Little's law, the rate times the duration of an event is
        // the mean number of events under way; twice as many slots allow for random variation.
        _ => {
            let reason = format!(
                "{rate:.0} events/s for each builder, each under way for {}: {:.1} events at a time, and twice as many slots for random variation",
                short(time),
                rate * time.as_secs_f64()
            );
            (rate * time.as_secs_f64() * 2.0, reason)
        }
    };
    let slots = of_chance.max(of_budget).clamp(2.0, MOST_SLOTS).ceil() as u32;
    match of_chance >= of_budget {
        true => (slots, reason),
        false => (
            slots,
            format!("{slots} events fill the budget of {} for events in memory", held.unwrap_or_default()),
        ),
    }
}

/// Returns the least K with (1−ρ)ρᴷ/(1−ρᴷ⁺¹) ≤ [`DEAD_TIME`]: the part of Poisson arrivals that
/// find a queue of K places full (M/M/1/K: Kleinrock, "Queueing Systems" I, 1975, 3.6). Events of
/// similar sizes have more regular service times than this model assumes, so that the real dead
/// time is smaller.
fn queue_for(load: f64) -> u32 {
    let blocked = |places: i32| (1.0 - load) * load.powi(places) / (1.0 - load.powi(places + 1));
    (1..MOST_SLOTS as i32).find(|places| blocked(*places) <= DEAD_TIME).unwrap_or(MOST_SLOTS as i32) as u32
}

fn short(time: Duration) -> String {
    match time.as_secs_f64() {
        seconds if seconds >= 1e-3 => format!("{:.2} ms", seconds * 1e3),
        seconds => format!("{:.0} µs", seconds * 1e6),
    }
}
