//! The rules for trunks: load, paces, windows and bursts in each direction.

use evb_core::units::Bytes;

use super::{Objection, rounded_down};
use crate::{
    Config, ShapingMode,
    admission::{NodeSum, QueueSum, Sums},
};

/// Returns an objection for every rule that the loads of trunks break.
pub(super) fn objections(config: &Config, sums: &Sums) -> impl Iterator<Item = Objection> {
    let found = [
        trunk_load(sums),
        paced_trunks(config, sums),
        windows_in_trunks(config, sums),
        bursts_in_trunks(config, sums),
    ];
    found.into_iter().flatten()
}

/// Checks that each trunk can carry the fragments that cross it, in both directions.
fn trunk_load(sums: &Sums) -> Option<Objection> {
    let is_overloaded =
        |(node, queue): &(&NodeSum, &QueueSum)| node.rate.is_some_and(|rate| queue.load > Some(rate));
    let (node, worst) = queues(sums).filter(is_overloaded).max_by_key(|(_, queue)| queue.load)?;
    let reason = format!(
        "{} events/s put {} on {} ({}), but it carries only {}: triggers beyond that would be dead time",
        sums.asked?.round(),
        worst.load?,
        node.in_words(),
        way(worst),
        node.rate?
    );
    let remedy = format!(
        "ask for at most {} events/s, make fragments smaller, or put builders or sources elsewhere in the tree",
        rounded_down(sums.carried?)
    );
    Some(Objection::new("supervisor.trigger.rate", reason, remedy))
}

/// Returns the directions of all trunks.
fn queues(sums: &Sums) -> impl Iterator<Item = (&NodeSum, &QueueSum)> {
    sums.nodes.iter().flat_map(|node| node.queues.iter().map(move |queue| (node, queue)))
}

/// Names the direction of a trunk by the lanes that cross it.
fn way(queue: &QueueSum) -> String {
    format!("{} from {} sources to {} builders", queue.direction.word(), queue.sources, queue.builders)
}

/// Checks that the paces of the lanes through a trunk do not exceed its rate together.
fn paced_trunks(config: &Config, sums: &Sums) -> Option<Objection> {
    let is_overloaded = |(node, queue): &(&NodeSum, &QueueSum)| {
        node.rate.is_some_and(|rate| queue.paced.is_some_and(|paced| paced > rate))
    };
    let (node, queue) = queues(sums).filter(is_overloaded).max_by_key(|(_, queue)| queue.paced)?;
    (config.shaping.mode == ShapingMode::TokenBucket).then_some(())?;
    let reason = format!(
        "the rates of the lanes (source to builder) add up to {} on {} ({}), but it carries only {}: packets would be lost",
        queue.paced?,
        node.in_words(),
        way(queue),
        node.rate?
    );
    let remedy = "lower `rate`, or leave it out for an equal share of the trunk";
    Some(Objection::new("shaping.rate", reason, remedy))
}

/// Checks that the windows of the lanes through a trunk fit into its buffer.
fn windows_in_trunks(config: &Config, sums: &Sums) -> Option<Objection> {
    let (node, queue) = overfull(sums, |queue| queue.windows)?;
    (config.shaping.mode == ShapingMode::Window).then_some(())?;
    let reason = format!(
        "{} lanes (source to builder) with a window of {} put up to {} into {}, whose buffer has {}: packets would be lost",
        queue.sources * queue.builders,
        config.shaping.window,
        queue.windows,
        node.in_words(),
        node.buffer?
    );
    let remedy = "leave `window` out for the largest that fits, or use mode = \"credit\"";
    Some(Objection::new("shaping.window", reason, remedy))
}

/// Checks that the bursts of the lanes through a trunk fit into its buffer.
fn bursts_in_trunks(config: &Config, sums: &Sums) -> Option<Objection> {
    let (node, queue) = overfull(sums, |queue| queue.bursts)?;
    (config.shaping.mode == ShapingMode::TokenBucket).then_some(())?;
    let reason = format!(
        "the bursts of {} lanes (source to builder) put up to {} at once into {}, whose buffer has {}: packets would be lost",
        queue.sources * queue.builders,
        queue.bursts,
        node.in_words(),
        node.buffer?
    );
    Some(Objection::new("shaping.burst", reason, "lower `burst` of [shaping], or use mode = \"credit\""))
}

/// Returns the trunk in whose buffer `held` exceeds the buffer by most.
fn overfull(sums: &Sums, held: impl Fn(&QueueSum) -> Bytes) -> Option<(&NodeSum, &QueueSum)> {
    let excess = |(node, queue): (&NodeSum, &QueueSum)| {
        node.buffer.map_or(Bytes::ZERO, |buffer| held(queue).saturating_sub(buffer))
    };
    queues(sums).max_by_key(|found| excess(*found)).filter(|found| excess(*found) > Bytes::ZERO)
}
