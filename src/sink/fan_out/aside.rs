//! An optional sink: on a thread of its own, behind a queue that loses events when it is full.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use evb_core::{
    alignment::Episode,
    builder::SINK_RETRY,
    event::Event,
    id::{EventId, RunNumber},
    ledger::OwingChange,
    quantities::counted,
    units::Bytes,
};
use evb_file::ClosedFile;
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, sleep, timeout},
};

use super::any::AnySink;
use crate::sink::{RunFacts, Sink, SinkError, with_remedy};

/// Most events that wait for an optional sink.
pub(super) const WAITING: usize = 1024;

/// Most bytes of events that wait for an optional sink. An event that is larger by itself waits
/// alone.
pub(super) const WAITING_BYTES: Bytes = Bytes::mib(64);

/// Room of the queue for calls other than events; further ones are dropped and logged.
const CALLS: usize = 64;

/// Time for which the beginning or end of runs waits for an optional sink.
const GRACE: Duration = Duration::from_secs(2);

/// Interval at which a continuing failure is logged.
const REMIND: Duration = Duration::from_secs(10);

/// The remedy for an optional sink that misses events.
const REMEDY: &str =
    "look at the disk or program to which it writes, or make it required if it must have every event";

/// A call of the sink.
enum Call {
    Prepare(oneshot::Sender<Result<Option<RunNumber>, SinkError>>),
    Begin(RunFacts),
    Event(Event),
    Episodes(Vec<Episode>),
    Changes(Vec<OwingChange>),
    /// Closes the sink, and returns the number of events that it did not accept.
    Close(oneshot::Sender<u64>),
}

/// A sink that may miss events.
pub(super) struct Aside {
    /// The sink until its thread starts.
    sink: Option<Box<dyn AnySink>>,
    calls: Option<mpsc::Sender<Call>>,
    /// Bytes of the events in the queue.
    bytes: Arc<AtomicU64>,
    /// Files that the sink has closed, until they are taken.
    closed: Arc<Mutex<Vec<ClosedFile>>>,
    /// Events of the run that the sink was to get, and those for which the queue had no room.
    offered: u64,
    left_out: u64,
    builder: u16,
    /// Place of the sink among all sinks of the builder, counted from 1.
    place: usize,
}

impl Aside {
    pub(super) fn new(sink: impl Sink, place: usize) -> Self {
        let sink: Option<Box<dyn AnySink>> = Some(Box::new(sink));
        let (bytes, closed) = (Arc::default(), Arc::default());
        Self { sink, calls: None, bytes, closed, offered: 0, left_out: 0, builder: 0, place }
    }

    /// Starts the thread, and asks the sink for the highest run number that it knows. A sink that
    /// fails, or does not answer, knows none.
    pub(super) async fn prepare(&mut self) -> Result<Option<RunNumber>, SinkError> {
        let place = self.place;
        if let Some(sink) = self.sink.take() {
            let (calls, to_call) = mpsc::channel(WAITING + CALLS);
            let (bytes, span) = (Arc::clone(&self.bytes), tracing::Span::current());
            let closed = Arc::clone(&self.closed);
            let refused =
                |error| SinkError::lost(format!("a thread cannot be started: {error}; raise `ulimit -u`"));
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(refused)?;
            let begun = crate::threads::start("optional sink", move || {
                let _builder = span.entered();
                let (run, told, refused) = (None, None, 0);
                let worker = Worker {
                    sink,
                    place,
                    bytes,
                    closed,
                    run,
                    has_begun: false,
                    told,
                    refused,
                    written: Vec::new(),
                };
                runtime.block_on(worker.run(to_call));
            });
            begun.map_err(refused)?;
            self.calls = Some(calls);
        }
        let (answer, answered) = oneshot::channel();
        self.call(Call::Prepare(answer));
        // The outer results are those of the time limit and of the thread, and the inner one is
        // that of the sink.
        match timeout(GRACE, answered).await {
            Ok(Ok(Ok(number))) => Ok(number),
            Ok(Ok(Err(error))) => {
                tracing::warn!(%error, "sink {place} of this builder (optional) cannot be used yet, and the builder takes part without it: {}", with_remedy(&error, REMEDY));
                Ok(None)
            }
            _ => {
                tracing::warn!(
                    "sink {place} of this builder (optional) does not answer, and the builder takes part without it: {REMEDY}"
                );
                Ok(None)
            }
        }
    }

    pub(super) fn begin(&mut self, run: &RunFacts) {
        (self.offered, self.left_out, self.builder) = (0, 0, run.builder.number());
        self.call(Call::Begin(run.clone()));
    }

    /// Offers an event, which is left out if the queue has no room for it.
    pub(super) fn offer(&mut self, event: &Event) {
        self.offered += 1;
        let size = event.payload_size().count();
        let waiting = self.bytes.load(Relaxed);
        let has_room = waiting == 0 || waiting + size <= WAITING_BYTES.count();
        match &self.calls {
            Some(calls) if has_room && calls.capacity() > CALLS => {
                self.bytes.fetch_add(size, Relaxed);
                self.call(Call::Event(event.clone()));
            }
            _ => self.left_out += 1,
        }
    }

    pub(super) fn note_episodes(&mut self, episodes: &[Episode]) {
        self.call(Call::Episodes(episodes.to_vec()));
    }

    pub(super) fn note_changes(&mut self, changes: &[OwingChange]) {
        self.call(Call::Changes(changes.to_vec()));
    }

    /// Returns the files that the sink has closed since the last call.
    pub(super) fn take_closed(&self) -> Vec<ClosedFile> {
        std::mem::take(&mut *self.closed.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Ends the run, and logs how many of its events the sink has missed; returns the number, if it
    /// is known.
    pub(super) async fn close(&mut self) -> Option<u64> {
        let (answer, answered) = oneshot::channel();
        self.call(Call::Close(answer));
        let (builder, place, offered) = (self.builder, self.place, counted(self.offered, "event"));
        // The outer results are those of the time limit and of the thread.
        match timeout(GRACE, answered).await {
            Ok(Ok(refused)) if refused + self.left_out == 0 => Some(0),
            Ok(Ok(refused)) => {
                let missed = refused + self.left_out;
                tracing::warn!(
                    builder,
                    missed,
                    "sink {place} of builder {builder} (optional) has missed {missed} of {offered}, which the required sinks have: {REMEDY}"
                );
                Some(missed)
            }
            _ => {
                tracing::warn!(
                    builder,
                    "sink {place} of builder {builder} (optional) does not end, and has missed an unknown number of {offered}, which the required sinks have: {REMEDY}"
                );
                None
            }
        }
    }

    /// Queues a call. If the thread could not be started, which `prepare` has reported, the call is
    /// dropped.
    fn call(&self, call: Call) {
        if self.calls.as_ref().is_some_and(|calls| calls.try_send(call).is_err()) {
            let (builder, place) = (self.builder, self.place);
            tracing::warn!(
                builder,
                "sink {place} of builder {builder} (optional) does not answer, so it may miss when runs begin and end: {REMEDY}"
            );
        }
    }
}

/// The thread of an optional sink.
struct Worker {
    sink: Box<dyn AnySink>,
    place: usize,
    bytes: Arc<AtomicU64>,
    closed: Arc<Mutex<Vec<ClosedFile>>>,
    run: Option<RunFacts>,
    has_begun: bool,
    /// Time at which a failure was logged.
    told: Option<Instant>,
    /// Events of the run that the sink did not accept.
    refused: u64,
    /// Events since the last commit.
    written: Vec<EventId>,
}

impl Worker {
    /// Carries out the calls of the builder until it drops its end. After each batch of events, the
    /// sink commits.
    async fn run(mut self, mut calls: mpsc::Receiver<Call>) {
        let mut batch = Vec::new();
        while calls.recv_many(&mut batch, WAITING).await > 0 {
            let mut outcome = Ok(());
            for call in batch.drain(..) {
                outcome = match call {
                    Call::Event(event) => {
                        self.bytes.fetch_sub(event.payload_size().count(), Relaxed);
                        self.take(&event, outcome).await
                    }
                    call => {
                        // The events before this call must be accepted or refused before it.
                        let outcome = self.commit(outcome).await;
                        self.answer(call).await;
                        outcome
                    }
                };
            }
            let outcome = self.commit(outcome).await;
            self.note_closed();
            if let Err(error) = outcome {
                self.tell(&error);
                sleep(SINK_RETRY).await;
            }
        }
    }

    /// Gives an event to the sink, unless the batch has failed.
    async fn take(&mut self, event: &Event, outcome: Result<(), SinkError>) -> Result<(), SinkError> {
        let ready = match outcome {
            Ok(()) => self.begin().await,
            failed => failed,
        };
        let taken = match &ready {
            Ok(()) => self.sink.write(event).await,
            Err(_) => ready,
        };
        match taken {
            Ok(()) => self.written.push(event.id),
            Err(error) if self.has_begun && !error.is_passing() => {
                // This event alone is lost.
                self.refused += 1;
                self.tell(&error);
            }
            Err(error) => {
                self.refuse(&error, 1);
                return Err(error);
            }
        }
        Ok(())
    }

    async fn begin(&mut self) -> Result<(), SinkError> {
        if let Some(run) = self.run.as_ref().filter(|_| !self.has_begun) {
            self.sink.begin(run).await?;
            self.has_begun = true;
        }
        Ok(())
    }

    /// Lets the sink commit, unless the batch has failed.
    async fn commit(&mut self, outcome: Result<(), SinkError>) -> Result<(), SinkError> {
        if outcome.is_err() || self.written.is_empty() {
            return outcome;
        }
        let committed = self.sink.commit().await;
        match &committed {
            Ok(()) => self.written.clear(),
            Err(error) => self.refuse(error, 0),
        }
        committed
    }

    /// Counts events that the sink did not accept: some of those since the last commit, and `more`.
    fn refuse(&mut self, error: &SinkError, more: u64) {
        let is_refused = |event: &EventId| !error.is_passing() || error.holds(*event);
        self.refused += self.written.drain(..).filter(is_refused).count() as u64 + more;
    }

    /// Carries out a call that is not an event, and answers it if an answer is waited for.
    async fn answer(&mut self, call: Call) {
        match call {
            Call::Event(_) => {}
            // The other side may have stopped waiting for an answer.
            Call::Prepare(answer) => drop(answer.send(self.sink.prepare().await)),
            Call::Begin(run) => (self.run, self.has_begun, self.refused) = (Some(run), false, 0),
            Call::Episodes(episodes) => self.sink.note_episodes(&episodes),
            Call::Changes(changes) => self.sink.note_changes(&changes),
            Call::Close(answer) => {
                if std::mem::take(&mut self.has_begun)
                    && let Err(error) = self.sink.close().await
                {
                    self.tell(&error);
                }
                self.note_closed();
                let _ = answer.send(self.refused);
            }
        }
    }

    fn note_closed(&mut self) {
        let files = self.sink.take_closed();
        self.closed.lock().unwrap_or_else(PoisonError::into_inner).extend(files);
    }

    fn tell(&mut self, error: &SinkError) {
        if self.told.is_none_or(|told| told.elapsed() >= REMIND) {
            self.told = Some(Instant::now());
            let (place, words) = (self.place, error.gone_in_words());
            let words = words.unwrap_or_else(|| with_remedy(error, REMEDY));
            tracing::warn!(%error, "sink {place} of this builder (optional) accepts no events, and the run goes on without it: {words}");
        }
    }
}
