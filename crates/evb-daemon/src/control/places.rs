//! [`Places`]: how many connections there are at a time, and who gives way when all places are taken.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, Ordering},
};

use tokio::task::AbortHandle;

/// The connections that are open, the oldest first. Whoever is not being served just now, because it is slow to ask, slow to
/// read or silent between two requests, gives way to a newcomer: a command always gets in.
#[derive(Default)]
pub(super) struct Places {
    taken: Mutex<Vec<(AbortHandle, Busy)>>,
}

/// Whether a command is being carried out for a connection.
#[derive(Clone, Debug, Default)]
pub(super) struct Busy(Arc<AtomicBool>);

impl Busy {
    pub(super) fn set(&self, busy: bool) {
        self.0.store(busy, Ordering::Relaxed);
    }

    fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Places {
    /// Gives a connection its place, and closes the oldest that is not busy where there are more than `most`. Returns false if
    /// all are busy: then nobody else can be let in for now.
    pub(super) fn take(&self, most: usize, own: AbortHandle, busy: Busy) -> bool {
        let Ok(mut taken) = self.taken.lock() else { return false };
        taken.retain(|(connection, _)| !connection.is_finished());
        let mut is_room = taken.len() < most;
        if !is_room && let Some(idle) = taken.iter().position(|(_, busy)| !busy.get()) {
            taken.remove(idle).0.abort();
            is_room = true;
        }
        if is_room {
            taken.push((own, busy));
        } else {
            own.abort();
        }
        is_room
    }
}

#[cfg(test)]
mod tests;
