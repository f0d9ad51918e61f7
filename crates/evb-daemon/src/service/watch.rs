//! Who turns, and who hangs.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// When each loop was seen to have turned.
#[derive(Debug)]
pub(super) struct Watch {
    patience: Duration,
    seen: BTreeMap<String, (u64, Instant)>,
}

impl Watch {
    /// A loop hangs if it has no turn for longer than that.
    pub(super) fn new(patience: Duration) -> Self {
        Self { patience, seen: BTreeMap::new() }
    }

    /// The loops that run and their turns.
    ///
    /// # Errors
    /// The names of those that hang.
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
