//! [`TurnCounters`]: counts the turns of the roles' event loops, for a watchdog that must notice a
//! loop that hangs.

use std::{
    future::Future,
    pin::pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

/// Counts the turns of the event loops of all roles that hold a clone of it. Clones of a
/// `TurnCounters` share one count. A role's loop turns some times a second even when it has nothing
/// to do; it is not counted while the role connects to its supervisor.
#[derive(Clone, Debug, Default)]
pub struct TurnCounters(Arc<Mutex<Vec<Loop>>>);

#[derive(Clone, Debug)]
struct Loop {
    name: String,
    turns: Arc<AtomicU64>,
}

impl TurnCounters {
    /// Returns the name and the number of turns of every loop that runs now.
    pub fn turns(&self) -> Vec<(String, u64)> {
        let loops = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        loops.iter().map(|each| (each.name.clone(), each.turns.load(Relaxed))).collect()
    }

    /// Counts each poll of a loop as a turn until the loop ends or is dropped.
    pub(crate) async fn count<F: Future>(&self, name: String, future: F) -> F::Output {
        let counted = Counted { turn_counters: self, turns: Arc::default() };
        let each = Loop { name, turns: Arc::clone(&counted.turns) };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(each);
        let mut future = pin!(future);
        std::future::poll_fn(|cx| {
            counted.turns.fetch_add(1, Relaxed);
            future.as_mut().poll(cx)
        })
        .await
    }
}

/// Clones of one `TurnCounters` are equal; separately created ones are not.
impl PartialEq for TurnCounters {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// Removes its loop from the list of counted loops when dropped.
struct Counted<'b> {
    turn_counters: &'b TurnCounters,
    turns: Arc<AtomicU64>,
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        let mut loops = self.turn_counters.0.lock().unwrap_or_else(PoisonError::into_inner);
        loops.retain(|each| !Arc::ptr_eq(&each.turns, &self.turns));
    }
}

#[cfg(test)]
mod tests;
