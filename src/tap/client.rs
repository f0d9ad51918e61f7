//! One client of a tap: the queue of its records, and the stream that empties it.

use std::{
    collections::VecDeque,
    future::{Future as _, poll_fn},
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker, ready},
    time::Duration,
};

use bytes::Bytes;
use evb_core::units;
use evb_file::StreamEncoder;
use evb_net::clock;
use tokio::time::{Sleep, sleep};

use super::{Offered, QUEUE, Tap, TapClientStatus, TapCounts};

#[derive(Debug)]
pub(super) struct TapClient {
    id: u64,
    sample: f64,
    /// Largest hash of an event that is in the client's share.
    highest: u64,
    newest: bool,
    /// Held for the time of a push or a pop, and by the sink's thread while it encodes a batch.
    queue: Mutex<TapQueue>,
}

#[derive(Debug, Default)]
struct TapQueue {
    /// The header of a run that has begun, until the client takes it.
    header: Option<Bytes>,
    records: VecDeque<Bytes>,
    /// Size of the records.
    bytes: u64,
    counts: TapCounts,
    /// True after the client's run.
    is_over: bool,
    waker: Option<Waker>,
}

impl TapQueue {
    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    fn discard(&mut self) {
        self.counts.dropped += self.records.len() as u64;
        self.records.clear();
        self.bytes = 0;
    }
}

impl TapClient {
    pub(super) fn new(id: u64, sample: f64, newest: bool) -> Self {
        // The product of 1 and 2⁶⁴ is rounded to the largest number of 64 bits.
        let highest = (sample * 2f64.powi(64)) as u64;
        Self { id, sample, highest, newest, queue: Mutex::default() }
    }

    pub(super) fn begin(&self, header: Bytes) {
        let mut queue = self.lock();
        if !queue.is_over {
            queue.header = Some(header);
            queue.wake();
        }
    }

    pub(super) fn end(&self) {
        let mut queue = self.lock();
        queue.is_over = true;
        queue.wake();
    }

    /// Discards what the client has not taken, which counts as dropped.
    pub(super) fn give_up(&self) {
        self.lock().discard();
    }

    /// Puts those events into the queue that are in the client's share and for which there is room.
    pub(super) fn offer(&self, offered: &mut [Offered<'_>], encoder: &StreamEncoder) {
        let mut queue = self.lock();
        if queue.is_over {
            return;
        }
        // A client that wants only the newest event gets the last one of these.
        let newest = offered.iter().rposition(|offer| self.takes(offer.hash)).filter(|_| self.newest);
        for (position, offer) in offered.iter_mut().enumerate() {
            queue.counts.seen += 1;
            if !self.takes(offer.hash) {
                queue.counts.sampled_out += 1;
                continue;
            }
            if newest.is_some_and(|newest| position < newest) {
                queue.counts.dropped += 1;
                continue;
            }
            if self.newest {
                queue.discard();
            }
            // An event for which there is surely no room is not encoded.
            let has_room = |queue: &TapQueue, size: u64| {
                queue.records.is_empty() || queue.bytes.saturating_add(size) <= QUEUE.count()
            };
            let payload = offer.event.payload_size().count();
            let record = if has_room(&queue, payload) {
                offer.record.get_or_insert_with(|| encoder.record(offer.event)).clone()
            } else {
                None
            };
            match record.filter(|record| has_room(&queue, record.len() as u64)) {
                Some(record) => {
                    queue.bytes += record.len() as u64;
                    queue.records.push_back(record);
                }
                None => queue.counts.dropped += 1,
            }
        }
        if !queue.records.is_empty() {
            queue.wake();
        }
    }

    /// Returns what the status shows of this client.
    pub(super) fn status(&self) -> TapClientStatus {
        let queue = self.lock();
        TapClientStatus {
            id: self.id,
            sample: self.sample,
            newest: self.newest,
            connected: true,
            waiting: queue.records.len() as u64,
            counts: queue.counts,
        }
    }

    /// Returns true if an event with this hash is in the client's share.
    pub(super) const fn takes(&self, hash: u64) -> bool {
        hash <= self.highest
    }

    fn lock(&self) -> MutexGuard<'_, TapQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The bytes that a client of a [`Tap`] gets: the header of an event file, then one record after
/// the other. Dropping the stream ends the subscription.
#[derive(Debug)]
pub struct TapStream {
    tap: Tap,
    client: Arc<TapClient>,
    /// The pause that the limit of the tap's rate demands.
    pause: Option<Pin<Box<Sleep>>>,
}

impl TapStream {
    pub(super) fn new(tap: Tap, client: Arc<TapClient>) -> Self {
        Self { tap, client, pause: None }
    }

    /// Returns the number of this client, counted from 1.
    pub fn id(&self) -> u64 {
        self.client.id
    }

    /// Returns what became of the events so far.
    pub fn counts(&self) -> TapCounts {
        self.client.lock().counts
    }

    /// Waits for the next bytes: the header, or one record. Returns `None` when the run has ended.
    ///
    /// Cancel safety: a call that is dropped has taken nothing.
    pub async fn next(&mut self) -> Option<Bytes> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// Polls for the next bytes as [`Self::next`] waits for them.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        loop {
            if let Some(pause) = &mut self.pause {
                ready!(pause.as_mut().poll(cx));
                self.pause = None;
            }
            let mut queue = self.client.lock();
            if let Some(header) = queue.header.take() {
                return Poll::Ready(Some(header));
            }
            let Some(next) = queue.records.front() else {
                if queue.is_over {
                    return Poll::Ready(None);
                }
                queue.waker = Some(cx.waker().clone());
                return Poll::Pending;
            };
            if let Some(wait) = self.tap.reserve(next.len()) {
                self.pause = Some(Box::pin(sleep(wait)));
                continue;
            }
            let Some(record) = queue.records.pop_front() else { continue };
            queue.bytes -= record.len() as u64;
            queue.counts.sent += 1;
            return Poll::Ready(Some(record));
        }
    }
}

impl Drop for TapStream {
    fn drop(&mut self) {
        self.tap.leave(&self.client);
    }
}

impl Tap {
    /// Reserves the tap's rate for a record that leaves now; returns the time to wait first if the
    /// rate is used up.
    fn reserve(&self, size: usize) -> Option<Duration> {
        let mut bucket = self.0.bucket.lock().unwrap_or_else(PoisonError::into_inner);
        let (bucket, now, size) = (bucket.as_mut()?, clock::now(), units::Bytes::new(size as u64));
        bucket.wake(now);
        let wait = bucket.departure_of(size, now).since(now);
        if wait.is_zero() {
            bucket.spend(size, now);
        }
        (!wait.is_zero()).then_some(wait)
    }
}
