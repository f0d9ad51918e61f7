//! [`Places`]: the limit on connections, and the choice of the connection to close when it is
//! reached.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, Ordering},
};

use tokio::task::AbortHandle;

/// The open connections, oldest first. A new connection displaces one that is not being served just
/// now, be it slow to ask, slow to read or silent between two requests. So a command always gets
/// in.
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
    /// Gives a connection a place. If there are more than `most`, closes the oldest one that is not
    /// busy. If all are busy, closes the new one and returns false.
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
