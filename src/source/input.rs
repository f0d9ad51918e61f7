//! The path of fragments from `push` to the driver: a bounded channel, and permits for the backlog.

mod permit;

use std::sync::Arc;

use evb_core::{
    fragment::Fragment,
    id::EventId,
    source::{MAX_AHEAD, PushError as Refused},
    units::Bytes,
};
use evb_net::host::is_forked_child;
use tokio::sync::{Semaphore, SemaphorePermit, TryAcquireError, mpsc, watch};

use super::{PushError, TryPushError};
pub use permit::Permit;

/// Number of places in the channel between `push` and the driver; the backlog is limited
/// separately.
const CHANNEL: usize = 1024;

/// Limit of the number of fragments that share one place of the channel.
const BATCH: usize = 32;

/// The first undecided event of a source with a trigger counter. The value of the counter does not
/// tell whether its event is decided, so no fragment passes a full backlog.
const COUNTED: EventId = EventId::new(0);

/// Backlog bytes that a fragment occupies besides its payload.
const OVERHEAD: u64 = 64;

/// The end of the channel that pushes fragments.
#[derive(Clone, Debug)]
pub(super) struct Intake {
    fragments: mpsc::Sender<Pushed>,
    permits: Arc<Semaphore>,
    /// The first undecided event, or [`COUNTED`]. Fragments of earlier events are admitted even if
    /// the backlog is full.
    undecided: watch::Receiver<EventId>,
    max_fragment: Bytes,
    /// Limit of the permits that one batch takes, so that a batch can always get its permits.
    batch_cost: u32,
}

/// The end of the channel at the driver.
#[derive(Debug)]
pub(super) struct Outlet {
    pub(super) fragments: mpsc::Receiver<Pushed>,
    permits: Arc<Semaphore>,
    undecided: watch::Sender<EventId>,
    /// Permits held by fragments that have reached the driver.
    charged: u64,
}

/// Fragments on their way to the driver, and the backlog permits that they hold.
#[derive(Debug)]
pub(super) struct Pushed {
    fragments: PushedFragments,
    permits: usize,
}

/// One fragment, or several fragments that are pushed together.
#[derive(Debug)]
enum PushedFragments {
    One(Fragment),
    Many(Vec<Fragment>),
}

/// Room for fragments: a place in the channel, and permits of the backlog unless the fragments
/// belong to decided events. Dropping the room gives the place and the permits back.
#[derive(Debug)]
struct Room<'a> {
    place: mpsc::Permit<'a, Pushed>,
    permits: Option<SemaphorePermit<'a>>,
}

impl Room<'_> {
    /// Sends fragments to the role, which returns the permits for their bytes when these leave the
    /// backlog.
    fn fill(self, fragments: PushedFragments) {
        let permits = self.permits.map_or(0, |permits| {
            let count = permits.num_permits();
            permits.forget();
            count
        });
        self.place.send(Pushed { fragments, permits });
    }
}

/// Reason for which there is no room at this moment.
#[derive(Debug)]
enum NoRoom {
    Full,
    Ended,
}

/// Creates both ends of the queue into a source: `Intake` takes fragments of at most
/// `max_fragment`, and `Outlet` gives them to the role. Permits limit their bytes to the backlog.
pub(super) fn intake(max_fragment: Bytes, backlog: Bytes, has_counter: bool) -> (Intake, Outlet) {
    let largest = permits_for(max_fragment);
    let limit = backlog.count().clamp(1, Semaphore::MAX_PERMITS as u64).max(largest.into());
    let (sender, receiver) = mpsc::channel(CHANNEL);
    let permits = Arc::new(Semaphore::new(limit as usize));
    let (decided, undecided) = watch::channel(if has_counter { COUNTED } else { EventId::FIRST });
    // A batch waits for room as a whole, so it takes only a part of the backlog.
    let batch_cost = u32::try_from(limit / 8).unwrap_or(u32::MAX).max(largest);
    (
        Intake { fragments: sender, permits: Arc::clone(&permits), undecided, max_fragment, batch_cost },
        Outlet { fragments: receiver, permits, undecided: decided, charged: 0 },
    )
}

/// Returns the number of backlog permits that a fragment needs.
fn permits_for(size: Bytes) -> u32 {
    u32::try_from(size.count() + OVERHEAD).unwrap_or(u32::MAX)
}

impl Intake {
    /// Pushes a fragment, and waits for room.
    pub(super) async fn push(&self, fragment: Fragment) -> Result<(), PushError> {
        check_not_forked()?;
        let first = *self.undecided.borrow();
        self.check(&fragment, first)?;
        let room = self.room_for(&fragment, first).await?;
        room.fill(PushedFragments::One(fragment));
        Ok(())
    }

    /// Pushes a fragment if there is room now.
    pub(super) fn try_push(&self, fragment: Fragment) -> Result<(), TryPushError> {
        if is_forked_child() {
            return Err(TryPushError::Forked(fragment));
        }
        let first = *self.undecided.borrow();
        if let Err(reason) = self.check(&fragment, first) {
            return Err(TryPushError::Refused { reason, fragment });
        }
        match self.try_room(fragment.event, permits_for(fragment.size()), first) {
            Ok(room) => room.fill(PushedFragments::One(fragment)),
            Err(NoRoom::Full) => return Err(TryPushError::Full(fragment)),
            Err(NoRoom::Ended) => return Err(TryPushError::Ended(fragment)),
        }
        Ok(())
    }

    /// Pushes the fragments in their order and removes them, until `fragments` is empty.
    pub(super) async fn push_many(&self, fragments: &mut Vec<Fragment>) -> Result<(), PushError> {
        check_not_forked()?;
        while let Some(head) = fragments.first() {
            let first = *self.undecided.borrow();
            self.check(head, first)?;
            let (count, cost) = self.batch(fragments, first);
            let room = match self.try_room(head.event, cost, first) {
                Ok(room) => room,
                Err(NoRoom::Ended) => return Err(PushError::Ended),
                Err(NoRoom::Full) => {
                    // This call waits for room for one fragment, not for the whole batch: the event
                    // of the first fragment must not wait for room that later events need.
                    let room = self.room_for(head, first).await?;
                    room.fill(PushedFragments::One(fragments.remove(0)));
                    continue;
                }
            };
            room.fill(PushedFragments::Many(fragments.drain(..count).collect()));
        }
        Ok(())
    }

    /// Waits for memory, and for a place in the queue, for a fragment of at most `size`.
    pub(super) async fn reserve(&self, size: Bytes) -> Result<Permit<'_>, PushError> {
        check_not_forked()?;
        if size > self.max_fragment {
            return Err(PushError::Reservation { size, limit: self.max_fragment });
        }
        let permits = self.permits.acquire_many(permits_for(size)).await.map_err(|_| PushError::Ended)?;
        let place = self.fragments.reserve().await.map_err(|_| PushError::Ended)?;
        Ok(Permit::new(Room { place, permits: Some(permits) }, size))
    }

    /// Checks a fragment; `first` is the first undecided event.
    fn check(&self, fragment: &Fragment, first: EventId) -> Result<(), Refused> {
        let (event, size) = (fragment.event, fragment.size());
        if event.number() == 0 && first != COUNTED {
            return Err(Refused::EventZero);
        }
        if size > self.max_fragment {
            return Err(Refused::Oversize { event, size, limit: self.max_fragment });
        }
        if first != COUNTED && event.number() >= first.number().saturating_add(MAX_AHEAD) {
            return Err(Refused::TooFarAhead { event, first });
        }
        Ok(())
    }

    /// Returns the number of fragments at the head of `fragments` that can be pushed together, and
    /// their cost: they pass the check, and all or none of them belong to decided events.
    fn batch(&self, fragments: &[Fragment], first: EventId) -> (usize, u32) {
        let is_decided = fragments.first().is_some_and(|head| head.event < first);
        let (mut count, mut total) = (0, 0);
        for fragment in fragments.iter().take(BATCH) {
            let with_it = permits_for(fragment.size()).saturating_add(total);
            let fits = count == 0 || with_it <= self.batch_cost;
            if !fits || (fragment.event < first) != is_decided || self.check(fragment, first).is_err() {
                break;
            }
            (count, total) = (count + 1, with_it);
        }
        (count, total)
    }

    /// Waits for room for a fragment that has passed the check. A fragment of a decided event does
    /// not wait for the backlog. A call that is cancelled returns its permits.
    async fn room_for(&self, fragment: &Fragment, first: EventId) -> Result<Room<'_>, PushError> {
        let (event, cost) = (fragment.event, permits_for(fragment.size()));
        match self.try_room(event, cost, first) {
            Ok(room) => return Ok(room),
            Err(NoRoom::Ended) => return Err(PushError::Ended),
            Err(NoRoom::Full) => {}
        }
        let mut backlog = None;
        if event >= first {
            let mut undecided = self.undecided.clone();
            tokio::select! {
                biased;
                permits = self.permits.acquire_many(cost) => {
                    backlog = Some(permits.map_err(|_| PushError::Ended)?);
                }
                decided = undecided.wait_for(|first| event < *first) => drop(decided.map_err(|_| PushError::Ended)?),
            }
        }
        let place = self.fragments.reserve().await.map_err(|_| PushError::Ended)?;
        Ok(Room { place, permits: backlog })
    }

    /// Returns room for fragments of events from `event` on; fails if there is none at this moment.
    fn try_room(&self, event: EventId, cost: u32, first: EventId) -> Result<Room<'_>, NoRoom> {
        // Events from `first` on are not decided, so their fragments need room in the backlog.
        let backlog = (event >= first).then(|| self.permits.try_acquire_many(cost));
        let permits = backlog.transpose().map_err(|error| match error {
            TryAcquireError::NoPermits => NoRoom::Full,
            TryAcquireError::Closed => NoRoom::Ended,
        })?;
        match self.fragments.try_reserve() {
            Ok(place) => Ok(Room { place, permits }),
            Err(mpsc::error::TrySendError::Full(())) => Err(NoRoom::Full),
            Err(mpsc::error::TrySendError::Closed(())) => Err(NoRoom::Ended),
        }
    }
}

impl Outlet {
    /// Sets the event that is the first undecided one when this source joins.
    pub(super) fn begin(&self, undecided: EventId) {
        self.note_undecided(undecided);
    }

    /// Takes fragments from the channel one by one; from now on, their permits belong to the
    /// driver.
    pub(super) fn take(&mut self, pushed: Pushed) -> impl Iterator<Item = Fragment> + use<> {
        self.charged += pushed.permits as u64;
        let (one, many) = match pushed.fragments {
            PushedFragments::One(fragment) => (Some(fragment), Vec::new()),
            PushedFragments::Many(fragments) => (None, fragments),
        };
        one.into_iter().chain(many)
    }

    /// Tells the waiting calls which events are decided, and returns permits for the free part of
    /// the backlog: `held` payload bytes in `count` fragments wait for a decision.
    pub(super) fn update(&mut self, undecided: EventId, held: Bytes, count: usize) {
        self.note_undecided(undecided);
        let used = held.count() + count as u64 * OVERHEAD;
        let free = self.charged.saturating_sub(used);
        self.charged -= free;
        self.permits.add_permits(free as usize);
    }

    /// Tells the intake which event is decided next. With a trigger counter, this source sets the
    /// event ids itself, so nothing is told.
    fn note_undecided(&self, undecided: EventId) {
        self.undecided.send_if_modified(|known| {
            let is_new = *known != undecided && *known != COUNTED;
            if is_new {
                *known = undecided;
            }
            is_new
        });
    }

    /// Returns true if the backlog has no room, so that readout may have to wait.
    pub(super) fn is_full(&self) -> bool {
        self.permits.available_permits() == 0
    }
}

/// Refuses a forked child, in which nobody takes fragments.
fn check_not_forked() -> Result<(), PushError> {
    if is_forked_child() { Err(PushError::Forked) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
