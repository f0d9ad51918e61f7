//! The rules of admission control. The rules keep the switch from dropping packets and backlogs
//! from growing without limit.

mod counter_rules;
mod descriptor_rules;
mod trunk_rules;

use evb_core::{
    quantities,
    units::{Bytes, Rate},
    wire::control::MAX_OUTSTANDING,
};

pub(super) use self::descriptor_rules::too_few as too_few_descriptors;
use super::sums::{PortSum, Sums, UplinkSum};
use crate::{Config, ShapingMode, nine_tenths};

/// The severity of a broken rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weight {
    /// The configuration is refused even with `admission = "warn"`.
    Fatal,
    /// The configuration is refused unless `admission = "warn"` permits a test of overload.
    Overload,
    /// The configuration is accepted with a warning; it will usually work.
    Risk,
}

/// A rule that a configuration breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Objection {
    /// The configuration key that the user should change.
    pub key: &'static str,
    /// Severity of the broken rule.
    pub weight: Weight,
    /// Description of the excess, with numbers.
    pub reason: String,
    /// Advice for the user.
    pub remedy: String,
}

impl Objection {
    fn new(key: &'static str, reason: String, remedy: impl Into<String>) -> Self {
        Self { key, weight: Weight::Overload, reason, remedy: remedy.into() }
    }
}

/// Returns an objection for every rule that `config` breaks, given its `sums`.
pub fn objections(config: &Config, sums: &Sums) -> Vec<Objection> {
    let mut findings = Vec::new();
    findings.extend(port_load(config, sums));
    findings.extend(uplink_load(sums));
    findings.extend(paced_ports(config, &sums.ports));
    findings.extend(paced_uplinks(config, &sums.uplinks));
    findings.extend(trunk_rules::objections(config, sums));
    if let Some(port_buffer) = config.network.port_buffer {
        findings.extend(budget(config, port_buffer));
        findings.extend(windows(config, &sums.ports, port_buffer));
        findings.extend(bursts(config, &sums.ports, port_buffer));
        findings.extend(unshaped(config, sums, port_buffer));
        findings.extend(large_packets(config, port_buffer));
    }
    findings.extend(lane_pace(config, sums));
    findings.extend(memory(config, sums));
    findings.extend(outstanding(config));
    findings.extend(counter_rules::objection(config));
    findings.extend(counter_rules::unprotected(config));
    findings.extend(descriptor_rules::objection(&sums.descriptors));
    findings
}

/// Formats an event rate for people, rounded down so that admission control accepts the printed
/// rate.
pub(crate) fn rounded_down(events_per_second: f64) -> String {
    if events_per_second < 100.0 {
        format!("{:.2}", (events_per_second * 100.0).floor() / 100.0)
    } else {
        format!("{:.0}", events_per_second.floor())
    }
}

/// Number of packets in a port's buffer below which credit has too few packets to divide between
/// sources.
const FEW_PACKETS: u64 = 32;

/// Warns of jumbo frames at a switch port with a small buffer. Jumbo frames save headers, but only
/// fourteen packets of 9000 bytes fit into 128 KiB.
fn large_packets(config: &Config, port_buffer: Bytes) -> Option<Objection> {
    let mtu = config.network.mtu;
    let fit = port_buffer.count() / config.cost().packet_buffer().count();
    if mtu <= Bytes::new(1500) || fit >= FEW_PACKETS {
        return None;
    }
    Some(Objection {
        key: "network.mtu",
        weight: Weight::Risk,
        reason: format!(
            "only {fit} packets of {mtu} fit into port_buffer = {port_buffer}, so few sources can send at a time, and the link may stay partly idle"
        ),
        remedy: "write mtu = 1500, or use a switch with larger port buffers".to_owned(),
    })
}

/// Checks the load of each port: the rate of all fragments of the events for its builders must not
/// exceed the link rate. The fragments of an event arrive as a burst from N sources; if data arrive
/// faster than they leave for long enough, any buffer overflows (the stability condition ρ ≤ 1 of
/// every queue).
fn port_load(config: &Config, sums: &Sums) -> Option<Objection> {
    let is_over = |port: &&PortSum| port.rate.is_some_and(|link| port.load > Some(link));
    let worst = sums.ports.iter().filter(is_over).max_by_key(|port| port.load)?;
    let (load, link, events) = (worst.load?, worst.rate?, rounded_down(sums.carried?));
    let reason = format!(
        "{} events/s put {load} on the port of {}, whose link carries {link}: triggers beyond that would be dead time",
        sums.asked?.round(),
        worst.name
    );
    let builders =
        if config.builders.len() == 1 { "a second builder" } else { "more builders on ports of their own" };
    let remedy =
        format!("ask for at most {events} events/s in all, make fragments smaller, or add {builders}");
    Some(Objection::new("supervisor.trigger.rate", reason, remedy))
}

/// Checks that the link from each source can carry a fragment of every event.
fn uplink_load(sums: &Sums) -> Option<Objection> {
    let is_over = |uplink: &&UplinkSum| uplink.rate.is_some_and(|link| uplink.load > Some(link));
    let worst = sums.uplinks.iter().filter(is_over).max_by_key(|uplink| uplink.load)?;
    let reason = format!(
        "{} events/s put {} on the link from {}, which carries {}: triggers beyond that would be dead time",
        sums.asked?.round(),
        worst.load?,
        worst.name,
        worst.rate?
    );
    let remedy = format!(
        "ask for at most {} events/s, or make the fragments of the sources on this link smaller",
        rounded_down(sums.carried?)
    );
    Some(Objection::new("supervisor.trigger.rate", reason, remedy))
}

/// Checks that the budgets of a port's builders together fit into the port's buffer. The bytes that
/// the builders permit to be under way are the most that the buffer can receive at once. (Nomachi
/// et al.'s event builder, whose builders request data from one source after the other, permits a
/// single fragment to be under way.)
fn budget(config: &Config, port_buffer: Bytes) -> Option<Objection> {
    let budget = config.shaping.budget;
    if config.shaping.mode != ShapingMode::Credit || budget <= nine_tenths(port_buffer) {
        return None;
    }
    let remedy = "leave `budget` out: evb then leaves a part of the port buffer to acknowledgements and to what hosts send again";
    Some(if budget > port_buffer {
        let reason = format!(
            "a budget of {budget} does not fit into a port buffer of {port_buffer}: packets would be lost"
        );
        Objection::new("shaping.budget", reason, remedy)
    } else {
        let reason = format!(
            "a budget of {budget} leaves less than a tenth of the port buffer of {port_buffer} free: packets may be lost"
        );
        Objection { weight: Weight::Risk, ..Objection::new("shaping.budget", reason, remedy) }
    })
}

/// Checks that N windows fit into the port's buffer for N lanes: N · window ≤ port buffer. BaBar's
/// event builder limited its senders by the TCP window in the same way.
fn windows(config: &Config, ports: &[PortSum], port_buffer: Bytes) -> Option<Objection> {
    let worst = ports.iter().max_by_key(|port| port.windows)?;
    if config.shaping.mode != ShapingMode::Window || worst.windows <= port_buffer {
        return None;
    }
    let lanes = config.sources.len() * worst.builders.len();
    let reason = format!(
        "{lanes} lanes (source to builder) with a window of {} put up to {} into the port of {}, whose buffer has {port_buffer}: packets would be lost",
        config.shaping.window, worst.windows, worst.name
    );
    Some(Objection::new(
        "shaping.window",
        reason,
        "leave `window` out for the largest that fits, or use mode = \"credit\"",
    ))
}

/// Checks that the lanes' paces at each port do not exceed the link rate together. Token buckets
/// pass all data at their configured rates, so that the port's buffer overflows if these rates add
/// up to more than the link (Yasu et al.: token bucket filters within class-based queueing).
fn paced_ports(config: &Config, ports: &[PortSum]) -> Option<Objection> {
    let (paced, name, link) = paced(config, ports.iter().map(|port| (port.paced, &port.name, port.rate)))?;
    let reason = format!(
        "the rates of the lanes (source to builder) add up to {paced} at the port of {name}, whose link carries {link}: packets would be lost"
    );
    Some(Objection::new(
        "shaping.rate",
        reason,
        "lower `rate`, or leave it out for an equal share of the link",
    ))
}

/// Checks that the paces of the lanes from a source's link do not exceed its rate together.
fn paced_uplinks(config: &Config, uplinks: &[UplinkSum]) -> Option<Objection> {
    let each = uplinks.iter().map(|uplink| (uplink.paced, &uplink.name, uplink.rate));
    let (paced, name, link) = paced(config, each)?;
    let reason = format!(
        "the rates of the lanes (source to builder) add up to {paced} on the link from {name}, which carries {link}: sources could not send at these rates"
    );
    Some(Objection::new("shaping.rate", reason, "lower `rate`, at which a source sends to every builder"))
}

/// Returns the link with the largest sum of paces among those whose rate is lower.
fn paced<'a>(
    config: &Config,
    sums: impl Iterator<Item = (Option<Rate>, &'a String, Option<Rate>)>,
) -> Option<(Rate, &'a String, Rate)> {
    let known = sums.filter_map(|(paced, name, link)| Some((paced?, name, link?)));
    let worst = known.filter(|(paced, _, link)| paced > link).max_by_key(|(paced, ..)| *paced)?;
    (config.shaping.mode == ShapingMode::TokenBucket).then_some(worst)
}

/// Checks that the bursts of all N lanes fit into the port's buffer: N · burst ≤ port buffer. All
/// lanes may send their full bursts at the same time.
fn bursts(config: &Config, ports: &[PortSum], port_buffer: Bytes) -> Option<Objection> {
    let worst = ports.iter().max_by_key(|port| port.bursts)?;
    if config.shaping.mode != ShapingMode::TokenBucket || worst.bursts <= port_buffer {
        return None;
    }
    let lanes = config.sources.len() * worst.builders.len();
    let reason = format!(
        "the bursts of {lanes} lanes (source to builder) put up to {} at once into the port of {}, whose buffer has {port_buffer}: packets would be lost",
        worst.bursts, worst.name
    );
    Some(Objection::new("shaping.burst", reason, "lower `burst` of [shaping], or use mode = \"credit\""))
}

/// Warns of incast: without shaping, all sources send at once, and N fragments arrive in the buffer
/// of one port.
fn unshaped(config: &Config, sums: &Sums, port_buffer: Bytes) -> Option<Objection> {
    let burst = sums.event.burst.filter(|burst| *burst > port_buffer)?;
    (config.shaping.mode == ShapingMode::None).then(|| {
        let reason = format!(
            "unshaped, one event puts {burst} at once into a port buffer of {port_buffer}: packets will be lost"
        );
        let remedy = "use mode = \"credit\", unless you want to see what happens without it";
        Objection { weight: Weight::Risk, ..Objection::new("shaping.mode", reason, remedy) }
    })
}

/// Checks that a lane's pace is at least the data rate that the trigger produces for it. A lower
/// pace lets the source's backlog grow without limit.
fn lane_pace(config: &Config, sums: &Sums) -> Option<Objection> {
    let pace = config.builders.iter().filter_map(|builder| config.paced_line_rate([builder])).min()?;
    let per_builder = sums.asked? / config.builders.len() as f64;
    let factor = config.cost().line_factor() * 8.0 * per_builder;
    let largest = config.sources.iter().filter_map(|source| source.input.mean_size()).max()?;
    let needed = Rate::from_bits_per_second((largest.count() as f64 * factor) as u64);
    (needed > pace).then(|| {
        let reason = format!(
            "a lane (source to builder) needs {needed} at {} events/s, but may send only {pace}: sources would fill up, and triggers become dead time",
            per_builder.round()
        );
        let remedy = "raise `rate` of [shaping] or of the builder, or lower the rate of the trigger";
        Objection::new("shaping.rate", reason, remedy)
    })
}

/// Checks memory: slots × Σ max_fragment ≤ memory. A builder reserves memory for every announced
/// byte before it requests the data.
fn memory(config: &Config, sums: &Sums) -> Option<Objection> {
    let excess = |sum: &&super::MemorySum| sum.limit.is_some_and(|limit| sum.needed > limit);
    let worst = sums.memory.iter().filter(excess).min_by_key(|sum| sum.limit)?;
    let reason = format!(
        "builder {} may need {} for slots = {}, the events that it may hold at once, each of up to {}, but it may use only {}",
        worst.builder,
        quantities::size(worst.needed),
        config.slots(),
        quantities::size(sums.event.largest),
        quantities::size(worst.limit?)
    );
    let remedy = "give the sources a smaller max_fragment, lower `slots`, or raise `memory` of the builder if its host has more";
    Some(Objection { weight: Weight::Fatal, ..Objection::new("supervisor.slots", reason, remedy) })
}

/// Checks the product of slots and builders: sources keep a limited number of outstanding events in
/// memory, and are told of all of them at once when a builder is lost.
fn outstanding(config: &Config) -> Option<Objection> {
    let (slots, builders) = (config.slots() as usize, config.builders.len().max(1));
    (slots.saturating_mul(builders) > MAX_OUTSTANDING).then(|| {
        let reason = format!(
            "{slots} slots at each of {builders} builders may hold more than {MAX_OUTSTANDING} events, the most that sources keep"
        );
        let most = MAX_OUTSTANDING / builders;
        let remedy = format!("give at most {most} slots to each builder, or use fewer builders");
        Objection { weight: Weight::Fatal, ..Objection::new("supervisor.slots", reason, remedy) }
    })
}
