//! [`ConnectionLimit`]: limits the number of connections, and chooses the connection to close when
//! the limit is reached.

use std::{
    net::IpAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio::task::AbortHandle;

/// The open connections, oldest first. A new connection displaces an idle one, which is slow to
/// send its request, slow to read, or silent between two requests: the oldest one of the address
/// that has most of them. So a client with many connections displaces its own, and a command finds
/// a place unless its own address floods run control.
#[derive(Default)]
pub(super) struct ConnectionLimit {
    taken: Mutex<Vec<OpenConnection>>,
}

/// An open connection.
pub(super) struct OpenConnection {
    pub(super) connection: AbortHandle,
    /// Address of the client.
    pub(super) from: IpAddr,
    pub(super) busy: Busy,
}

/// True while a connection must not be closed: a command is being carried out for it, or it shows
/// events.
#[derive(Clone, Debug, Default)]
pub(crate) struct Busy(Arc<AtomicBool>);

impl Busy {
    pub(crate) fn set(&self, busy: bool) {
        self.0.store(busy, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl ConnectionLimit {
    /// Gives a connection a place. If there are more than `most` connections, closes an idle one.
    /// If all connections are busy, closes the new one and returns false.
    pub(super) fn take(&self, most: usize, own: OpenConnection) -> bool {
        let Ok(mut taken) = self.taken.lock() else { return false };
        taken.retain(|place| !place.connection.is_finished());
        let mut is_room = taken.len() < most;
        if !is_room && let Some(idle) = to_displace(&taken) {
            taken.remove(idle).connection.abort();
            is_room = true;
        }
        if is_room {
            taken.push(own);
        } else {
            own.connection.abort();
        }
        is_room
    }
}

/// Returns the position of the oldest idle connection of the address with most idle ones.
fn to_displace(taken: &[OpenConnection]) -> Option<usize> {
    let idle = || taken.iter().enumerate().filter(|(_, place)| !place.busy.get());
    let count = |from: IpAddr| idle().filter(|(_, place)| place.from == from).count();
    // Of equal maxima, `max_by_key` returns the last, which is the first in the reverse order.
    idle().rev().max_by_key(|(_, place)| count(place.from)).map(|(position, _)| position)
}

#[cfg(test)]
mod tests;
