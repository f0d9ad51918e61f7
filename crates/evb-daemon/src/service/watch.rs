//! Detection of event loops that hang.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// For each loop, the last number of turns and the time at which the number changed.
#[derive(Debug)]
pub(super) struct Watch {
    patience: Duration,
    seen: BTreeMap<String, (u64, Instant)>,
}

impl Watch {
    /// Creates a watch. A loop hangs if it makes no turn for longer than `patience`.
    pub(super) fn new(patience: Duration) -> Self {
        Self { patience, seen: BTreeMap::new() }
    }

    /// Notes the turns of all loops that run.
    ///
    /// # Errors
    /// The names of the loops that hang.
    pub(super) fn look(&mut self, turns: Vec<(String, u64)>, now: Instant) -> Result<(), Vec<String>> {
        let before = std::mem::take(&mut self.seen);
        let mut hanging = Vec::new();
        for (name, turns) in turns {
            let since = match before.get(&name) {
                Some((then, since)) if *then == turns => *since,
                _ => now,
            };
            if now - since > self.patience {
                hanging.push(name.clone());
            }
            self.seen.insert(name, (turns, since));
        }
        if hanging.is_empty() { Ok(()) } else { Err(hanging) }
    }
}
