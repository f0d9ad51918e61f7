//! From `push` to the driver: a bounded channel, and the backlog as permits.

use std::sync::Arc;

use evb_core::{fragment::Fragment, id::EventId, source::PushError as Refused, units::Bytes};
use tokio::sync::{Semaphore, mpsc, watch};

use super::PushError;

/// Fragments that may be between `push` and the driver, in addition to what the backlog bounds.
const CHANNEL: usize = 1024;

/// Backlog bytes that a fragment occupies besides its payload.
const OVERHEAD: u64 = 64;

/// The pushing side.
#[derive(Clone, Debug)]
pub(super) struct Intake {
    fragments: mpsc::Sender<Pushed>,
    permits: Arc<Semaphore>,
    /// The first undecided event: fragments of earlier events are admitted even if the backlog is
    /// full.
    undecided: watch::Receiver<EventId>,
    max_fragment: Bytes,
}

/// The driver's side.
#[derive(Debug)]
pub(super) struct Outlet {
    pub(super) fragments: mpsc::Receiver<Pushed>,
    permits: Arc<Semaphore>,
    undecided: watch::Sender<EventId>,
    /// Permits held by fragments that have reached the driver.
    charged: u64,
}

/// A fragment on its way to the driver, and its permits of the backlog.
#[derive(Debug)]
pub(super) struct Pushed {
    fragment: Fragment,
    permits: u32,
}

pub(super) fn intake(max_fragment: Bytes, backlog: Bytes) -> (Intake, Outlet) {
    let limit = backlog.count().clamp(1, Semaphore::MAX_PERMITS as u64).max(cost(max_fragment).into());
    let (sender, receiver) = mpsc::channel(CHANNEL);
    let permits = Arc::new(Semaphore::new(limit as usize));
    let (decided, undecided) = watch::channel(EventId::FIRST);
    (
        Intake { fragments: sender, permits: Arc::clone(&permits), undecided, max_fragment },
        Outlet { fragments: receiver, permits, undecided: decided, charged: 0 },
    )
}

/// Returns the backlog that a fragment occupies.
fn cost(size: Bytes) -> u32 {
    u32::try_from(size.count() + OVERHEAD).unwrap_or(u32::MAX)
}

impl Intake {
    pub(super) async fn push(&self, fragment: Fragment) -> Result<(), PushError> {
        let (event, size) = (fragment.event, fragment.size());
        if event.number() == 0 {
            return Err(Refused::EventZero.into());
        }
        if size > self.max_fragment {
            return Err(Refused::Oversize { event, size, limit: self.max_fragment }.into());
        }
        let first = *self.undecided.borrow();
        if event.number() >= first.number().saturating_add(evb_core::source::MAX_AHEAD) {
            return Err(Refused::TooFarAhead { event, first }.into());
        }
        let mut backlog = None;
        if event >= first {
            let mut undecided = self.undecided.clone();
            tokio::select! {
                biased;
                permits = self.permits.acquire_many(cost(size)) => {
                    backlog = Some(permits.map_err(|_| PushError::Ended)?);
                }
                decided = undecided.wait_for(|first| event < *first) => drop(decided.map_err(|_| PushError::Ended)?),
            }
        }
        // A call that is cancelled here returns its permits to the backlog.
        let place = self.fragments.reserve().await.map_err(|_| PushError::Ended)?;
        let permits = backlog.map_or(0, |permits| {
            permits.forget();
            cost(size)
        });
        place.send(Pushed { fragment, permits });
        Ok(())
    }

    pub(super) fn push_blocking(&self, fragment: Fragment) -> Result<(), PushError> {
        let in_async = tokio::runtime::Handle::try_current().is_ok();
        assert!(
            !in_async,
            "BlockingSource::push inside an async task would stop the others: use Source::push there"
        );
        pollster::block_on(self.push(fragment))
    }
}

impl Outlet {
    /// Sets the first undecided event at the time this source joins.
    pub(super) fn begin(&self, undecided: EventId) {
        self.undecided.send_replace(undecided);
    }

    /// Takes a fragment that came out of the channel; its permits belong to the driver now.
    pub(super) fn take(&mut self, pushed: Pushed) -> Fragment {
        self.charged += u64::from(pushed.permits);
        pushed.fragment
    }

    /// Tells the waiting calls which events are decided, and returns permits for the free part of
    /// the backlog: `held` payload bytes in `count` fragments wait for a decision.
    pub(super) fn update(&mut self, undecided: EventId, held: Bytes, count: usize) {
        self.undecided.send_if_modified(|known| {
            let news = *known != undecided;
            *known = undecided;
            news
        });
        let used = held.count() + count as u64 * OVERHEAD;
        let free = self.charged.saturating_sub(used);
        self.charged -= free;
        self.permits.add_permits(free as usize);
    }
}

#[cfg(test)]
mod tests;
