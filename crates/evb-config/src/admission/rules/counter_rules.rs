//! The rule for trigger counters.

use evb_core::alignment::CounterStart;

use super::{Objection, Weight};
use crate::{Config, SourceEntry, ranges};

/// Warns of boards whose frames have neither a counter nor a clock.
pub(super) fn unprotected(config: &Config) -> Option<Objection> {
    let found: Vec<u16> = config
        .sources
        .iter()
        .filter(|source| source.is_unprotected())
        .map(|source| source.id.number())
        .collect();
    if found.is_empty() {
        return None;
    }
    let of = if found.len() == 1 { "source" } else { "sources" };
    Some(Objection {
        key: "source.input.frame",
        weight: Weight::Risk,
        reason: format!(
            "not protected: the frames of {of} {} have neither a counter nor a clock, and count in the order in which they arrive: a frame that is lost shifts all later ones into wrong events, and nothing shows it",
            ranges(found.into_iter())
        ),
        remedy: "declare the `counter` of the frame, or its `clock` and that of the source; if the board sends neither, the run starts all the same".to_owned(),
    })
}

/// Warns of sources that take any value of a counter for event 1, while nothing confirms it.
pub(super) fn objection(config: &Config) -> Option<Objection> {
    let is_unproven = |source: &&SourceEntry| {
        source.clock.is_none()
            && !source.is_unprotected()
            && source.counter.is_some_and(|counter| counter.first == CounterStart::Any)
    };
    let found: Vec<u16> =
        config.sources.iter().filter(is_unproven).map(|source| source.id.number()).collect();
    if found.is_empty() {
        return None;
    }
    let (of, each) = if found.len() == 1 { ("source", "its") } else { ("sources", "their") };
    Some(Objection {
        key: "source.counter",
        weight: Weight::Risk,
        reason: format!(
            "the first fragment of {of} {} counts as event 1 (first = \"any\"), and no clock confirms it: if a board misses the first trigger, all {each} fragments are built into wrong events, and nothing shows it",
            ranges(found.into_iter())
        ),
        remedy: "reset the boards before each run and write the first value of the counter, or declare the `clock` of the boards".to_owned(),
    })
}
