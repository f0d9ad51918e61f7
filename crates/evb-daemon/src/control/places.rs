//! [`Places`]: limits the number of connections, and chooses the connection to close when the limit
//! is reached.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, Ordering},
};

use tokio::task::AbortHandle;

/// The open connections, oldest first. A new connection displaces an idle one, which is slow to
/// send its request, slow to read, or silent between two requests. So a command always finds a
/// place.
#[derive(Default)]
pub(super) struct Places {
    taken: Mutex<Vec<(AbortHandle, Busy)>>,
}

/// True while a command is being carried out for a connection.
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
    /// Gives a connection a place. If there are more than `most` connections, closes the oldest one
    /// that is not busy. If all connections are busy, closes the new one and returns false.
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
