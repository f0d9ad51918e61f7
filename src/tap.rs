//! [`Tap`]: shows the events of a builder to onlookers while a run goes on, and never delays the
//! run.
//!
//! ```text
//!   sink's thread ── event accepted ──► record, encoded once ──► queue of client 1 ──► TapStream
//!   (never waits)                                            └─► queue of client 2 ──► TapStream
//! ```

mod client;
#[cfg(test)]
mod tests;

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use evb_core::{
    event::Event,
    id::{EventId, RunId},
    rng::Rng,
    units::{Bytes, Rate},
    wire::control::TapReport,
};
use evb_file::{FileIdentity, StreamEncoder};
use evb_shaper::EdtBucket;
use serde::Serialize;

use client::TapClient;
pub use client::TapStream;

/// Limit of the bytes of records that wait for a client. An event that is larger by itself waits
/// alone.
pub const QUEUE: Bytes = Bytes::mib(8);

/// Number of clients that have left and whose counts are kept.
const FORMER: usize = 64;

/// Bytes that may leave at once where a tap has a limit of its rate.
const BURST: Bytes = Bytes::kib(64);

/// The limits of a tap.
///
/// ```
/// use evb::{prelude::*, tap::{Tap, TapOptions}};
///
/// let options = TapOptions { sample: 0.01, clients: 2, ..TapOptions::default() };
/// let mut config = BuilderConfig::new(BuilderId::new(1), "daq0:7000");
/// config.tap = Some(Tap::new(options));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct TapOptions {
    /// Largest share of the events that a client can have, above 0 and at most 1.
    pub sample: f64,
    /// Limit of the rate of all clients together; `None`: no limit.
    pub max_rate: Option<Rate>,
    /// Limit of the number of clients.
    pub clients: usize,
    /// Address at which the program serves this tap, `host:port`, which the supervisor shows; empty
    /// if it serves none.
    pub address: String,
}

impl Default for TapOptions {
    /// Returns the defaults: every event, any rate, 8 clients.
    fn default() -> Self {
        Self { sample: 1.0, max_rate: None, clients: 8, address: String::new() }
    }
}

/// The events that a client wants.
///
/// ```
/// use evb::tap::{Tap, TapError, TapOptions, Wanted};
///
/// let tap = Tap::new(TapOptions { sample: 0.1, ..TapOptions::default() });
/// assert!(tap.subscribe(Wanted { sample: Some(0.05), newest: false }).is_ok());
/// let too_many = tap.subscribe(Wanted { sample: Some(0.5), newest: false });
/// assert!(matches!(too_many, Err(TapError::Share { .. })));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Wanted {
    /// Share of the events; `None`: as many as the tap allows.
    pub sample: Option<f64>,
    /// Only the newest event: a client that is slow loses older events, and never lags behind.
    pub newest: bool,
}

/// The reason why a tap refuses a client.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum TapError {
    /// The client wants too many of the events.
    #[error(
        "the share {asked} of the events was asked for, and this tap gives shares above 0 up to {largest}; ask for such a share, or raise `sample` of the tap"
    )]
    Share {
        /// The share that was asked for.
        asked: f64,
        /// The largest share that the tap gives.
        largest: f64,
    },
    /// The tap has as many clients as it may have.
    #[error(
        "this tap has {clients} clients already, which is its limit; end one of them, or raise `clients` of the tap"
    )]
    Full {
        /// The limit.
        clients: usize,
    },
}

/// Counts of the events that a client could have had, by their fate. When its stream has ended,
/// `seen` = `sent` + `sampled_out` + `dropped`; before that, the difference waits in its queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TapCounts {
    /// Events that the builder's sink accepted while the client was connected.
    pub seen: u64,
    /// Events that the client's stream has given.
    pub sent: u64,
    /// Events that are not in the client's share.
    pub sampled_out: u64,
    /// Events that the client had no room for, because it reads too slowly.
    pub dropped: u64,
}

impl TapCounts {
    fn add(&mut self, other: Self) {
        self.seen += other.seen;
        self.sent += other.sent;
        self.sampled_out += other.sampled_out;
        self.dropped += other.dropped;
    }
}

/// A client of a tap, for the operator.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TapClientStatus {
    /// Number of the client, counted from 1.
    pub id: u64,
    /// Share of the events that it gets.
    pub sample: f64,
    /// True if it gets only the newest event.
    pub newest: bool,
    /// False if it has left.
    pub connected: bool,
    /// Number of events in its queue.
    pub waiting: u64,
    /// Counts of the events.
    #[serde(flatten)]
    pub counts: TapCounts,
}

/// Shows the events of one builder to any number of clients, up to a limit. Give each builder
/// another tap; a copy is the same tap, and serves its builder run after run.
///
/// A client gets the bytes of an event file: the header when a run has begun, then the records of
/// the events that the builder's sink has accepted. Its stream ends with the run. Without a client,
/// a tap costs the builder one read of a number for each batch of events.
///
/// ```
/// use evb::{
///     file::EventStream,
///     prelude::*,
///     tap::{Tap, Wanted},
/// };
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let tap = Tap::default();
/// let mut stream = tap.subscribe(Wanted::default())?;
/// let of_builder = tap.clone();
/// let system = LocalSystem::new(1, 1).events(1);
/// let system = system.with_builders(|config| config.tap = Some(of_builder));
/// let run = system.start(|_| NullSink).await?;
/// let data = Fragment::new(EventId::FIRST, Timestamp::new(0), "detector data");
/// run.sources()[0].push(data).await?;
/// run.finished().await?;
///
/// let mut bytes = Vec::new();
/// while let Some(chunk) = stream.next().await {
///     bytes.extend_from_slice(&chunk);
/// }
/// assert_eq!(EventStream::new(&bytes[..], "the tap")?.count(), 1);
/// assert_eq!((stream.counts().seen, stream.counts().sent), (1, 1));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Tap(Arc<SharedTap>);

#[derive(Debug, Default)]
struct SharedTap {
    options: TapOptions,
    /// Number of clients, so that a builder without one takes no lock.
    watched: AtomicUsize,
    /// Held for the time of a change, or of handing over a batch.
    state: Mutex<Audience>,
    /// The limit of the rate, which the clients keep when they take records from their queues.
    bucket: Mutex<Option<EdtBucket>>,
}

/// The run that a tap shows, and its clients.
#[derive(Debug, Default)]
struct Audience {
    run: Option<TapRun>,
    clients: Vec<Arc<TapClient>>,
    /// Clients that have left, the latest last.
    former: VecDeque<TapClientStatus>,
    /// Sum of the counts of all clients that have left.
    past: TapCounts,
    next_id: u64,
}

#[derive(Debug)]
struct TapRun {
    encoder: StreamEncoder,
    seed: u64,
}

/// An event that is offered to the clients.
struct Offered<'e> {
    event: &'e Event,
    hash: u64,
    /// The record, once a client has taken the event; no record if the format cannot hold it.
    record: Option<Option<bytes::Bytes>>,
}

/// Returns the lowest bits of a run's id, which differ from run to run.
fn seed(run: RunId) -> u64 {
    let [.., a, b, c, d, e, f, g, h] = run.to_bytes();
    u64::from_be_bytes([a, b, c, d, e, f, g, h])
}

/// Returns a number that is uniform over the events of a run and the same at every builder.
const fn hash(seed: u64, event: EventId) -> u64 {
    Rng::new(seed ^ event.number()).next_u64()
}

impl Tap {
    /// Creates a tap. A share below 0 or that is no number counts as 0, and one above 1 as 1.
    pub fn new(options: TapOptions) -> Self {
        let bucket = options.max_rate.map(|rate| EdtBucket::new(rate, BURST));
        let sample = if options.sample > 0.0 { options.sample.min(1.0) } else { 0.0 };
        let options = TapOptions { sample, ..options };
        Self(Arc::new(SharedTap { options, bucket: Mutex::new(bucket), ..SharedTap::default() }))
    }

    /// Returns the limits of the tap.
    pub fn options(&self) -> &TapOptions {
        &self.0.options
    }

    /// Adds a client. Its stream begins with the run that is under way, or else with the next one.
    ///
    /// # Errors
    /// The tap has too many clients, or the client wants too many events.
    pub fn subscribe(&self, wanted: Wanted) -> Result<TapStream, TapError> {
        let (mut state, options) = (self.0.lock(), &self.0.options);
        let share = wanted.sample.unwrap_or(options.sample);
        if !(share > 0.0 && share <= options.sample) {
            return Err(TapError::Share { asked: share, largest: options.sample });
        }
        if state.clients.len() >= options.clients {
            return Err(TapError::Full { clients: options.clients });
        }
        state.next_id += 1;
        let client = Arc::new(TapClient::new(state.next_id, share, wanted.newest));
        if let Some(run) = &state.run {
            client.begin(run.encoder.header());
        }
        state.clients.push(Arc::clone(&client));
        self.0.watched.store(state.clients.len(), Relaxed);
        drop(state);
        Ok(TapStream::new(self.clone(), client))
    }

    /// Returns the clients, and those that left last, the latest first.
    pub fn clients(&self) -> Vec<TapClientStatus> {
        let state = self.0.lock();
        let present = state.clients.iter().map(|client| client.status());
        present.chain(state.former.iter().rev().copied()).collect()
    }

    /// Returns the number of clients, and the sum of the counts of all clients so far.
    pub fn totals(&self) -> (usize, TapCounts) {
        let state = self.0.lock();
        let mut sum = state.past;
        state.clients.iter().for_each(|client| sum.add(client.status().counts));
        (state.clients.len(), sum)
    }

    /// Returns the totals for the builder's report.
    pub(crate) fn report(&self) -> TapReport {
        let (clients, TapCounts { seen, sent, sampled_out, dropped }) = self.totals();
        TapReport { clients: u32::try_from(clients).unwrap_or(u32::MAX), seen, sent, sampled_out, dropped }
    }

    /// Begins a run: streams of an earlier one end, and clients that wait get the header.
    pub(crate) fn begin(&self, identity: &FileIdentity) {
        self.end();
        let mut state = self.0.lock();
        let run = TapRun { encoder: StreamEncoder::new(identity), seed: seed(identity.run_id) };
        state.clients.iter().for_each(|client| client.begin(run.encoder.header()));
        state.run = Some(run);
    }

    /// Ends the run: each stream ends when its client has taken what waits for it.
    pub(crate) fn end(&self) {
        let mut state = self.0.lock();
        if state.run.take().is_some() {
            state.clients.iter().for_each(|client| client.end());
        }
    }

    /// Offers events that the sink has accepted to all clients.
    pub(crate) fn offer<'e>(&self, events: impl Iterator<Item = &'e Event>) {
        if self.0.watched.load(Relaxed) == 0 {
            return;
        }
        let state = self.0.lock();
        let Some(run) = &state.run else { return };
        let offer = |event: &'e Event| Offered { event, hash: hash(run.seed, event.id), record: None };
        let mut offered: Vec<Offered<'_>> = events.map(offer).collect();
        for client in &state.clients {
            client.offer(&mut offered, &run.encoder);
        }
    }

    /// Lets a client leave, whose counts are kept.
    fn leave(&self, client: &Arc<TapClient>) {
        let mut state = self.0.lock();
        client.give_up();
        state.clients.retain(|other| !Arc::ptr_eq(other, client));
        self.0.watched.store(state.clients.len(), Relaxed);
        let status = TapClientStatus { connected: false, ..client.status() };
        state.past.add(status.counts);
        state.former.push_back(status);
        if state.former.len() > FORMER {
            state.former.pop_front();
        }
    }
}

impl SharedTap {
    fn lock(&self) -> MutexGuard<'_, Audience> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
