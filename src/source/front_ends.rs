//! [`FrontEnds`]: the state that a source shares with the listener of its front ends.

use std::{
    future::Future,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
};

use evb_core::{
    framing::Losses,
    id::{EventId, RunId, RunNumber},
    session::{FrontEndCounts, RunIdentity},
    source::BeforeStart,
};
use evb_shaper::role::RunStage;
use tokio::sync::{mpsc, oneshot, watch};

/// The front ends of a source, as the source and the listener of its front ends see them. Clones
/// share one state.
///
/// ```
/// use evb::{
///     input::FrontEndListener,
///     prelude::*,
///     source::{BeforeStart, FrontEnds},
/// };
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // The run begins when all that has arrived by then is read and discarded.
/// let front_ends = FrontEnds::new(BeforeStart::Discard, 1);
/// let listener = FrontEndListener::tcp(&["127.0.0.1:0".parse()?], Bytes::mib(1)).await?;
/// let listener = listener.with_front_ends(front_ends.clone());
/// let mut config = SourceConfig::new(SourceId::new(1), "daq0:7000");
/// config.front_ends = Some(front_ends);
/// // Both need the same front ends: a run does not begin before its source's listener serves.
/// # drop(listener);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct FrontEnds(Arc<SharedFrontEnds>);

#[derive(Debug)]
struct SharedFrontEnds {
    before_start: BeforeStart,
    /// Number of front ends that should be connected; 0 if they may come and go.
    expected: u32,
    /// Number of front ends that are connected.
    connected: watch::Sender<u32>,
    /// The one who prepares for runs, if there is any.
    beginnings: OnceLock<mpsc::Sender<Beginning>>,
    /// Number of times that the source has asked for all that has arrived.
    asked: watch::Sender<u64>,
    /// The latest of these times for which the listener has pushed all.
    read_out: watch::Sender<u64>,
    /// Number of starts of the run.
    starts: AtomicU64,
    /// True until fragments are kept.
    is_discarding: AtomicBool,
    /// The run as front ends are told of it.
    run: watch::Sender<ToldRun>,
    counts: Counts,
}

/// The run as front ends are told of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ToldRun {
    pub(crate) id: RunId,
    pub(crate) number: RunNumber,
    /// The first event of which the source may have a fragment.
    pub(crate) first: EventId,
    pub(crate) stage: RunStage,
    /// True if the source's part in the run is over.
    pub(crate) is_over: bool,
}

/// Counts of what the front ends have sent.
#[derive(Debug, Default)]
struct Counts {
    discarded: AtomicU64,
    of_other_runs: AtomicU64,
    malformed: AtomicU64,
    run_not_stated: AtomicU64,
    losses: Mutex<Losses>,
    /// Lowest version of the protocol by which fragments came; 0 if none came.
    protocol: AtomicU32,
}

impl FrontEnds {
    /// Creates the state of front ends that have sent nothing. `before_start` is what becomes of
    /// fragments that arrive before the run has started. `expected` is the number of front ends
    /// that should be connected: a source with fewer says so, and the readout of a source with none
    /// counts as gone. With 0, front ends may come and go.
    pub fn new(before_start: BeforeStart, expected: u32) -> Self {
        Self(Arc::new(SharedFrontEnds {
            before_start,
            expected,
            connected: watch::Sender::new(0),
            beginnings: OnceLock::new(),
            asked: watch::Sender::new(0),
            read_out: watch::Sender::new(0),
            starts: AtomicU64::new(0),
            is_discarding: AtomicBool::new(before_start == BeforeStart::Discard),
            run: watch::Sender::default(),
            counts: Counts::default(),
        }))
    }

    /// Returns the number of front ends that should be connected; 0 if they may come and go.
    pub(crate) fn expected(&self) -> u32 {
        self.0.expected
    }

    /// Returns the number of front ends that are connected, and its changes.
    pub(crate) fn connected(&self) -> watch::Receiver<u32> {
        let mut connected = self.0.connected.subscribe();
        connected.mark_changed();
        connected
    }

    /// Counts a front end as connected until the returned value is dropped.
    pub(crate) fn connect(&self) -> Connected {
        self.0.connected.send_modify(|count| *count += 1);
        Connected(self.clone())
    }

    pub(crate) fn before_start(&self) -> BeforeStart {
        self.0.before_start
    }

    /// Lets each run of the source wait until the receiver has prepared for it, for example has
    /// reset the boards; `None` if there is such a receiver already. Call this before the source
    /// joins a run. A source that joins a run that is under way does not prepare for it.
    pub fn beginnings(&self) -> Option<mpsc::Receiver<Beginning>> {
        let (sender, beginnings) = mpsc::channel(1);
        self.0.beginnings.set(sender).is_ok().then_some(beginnings)
    }

    /// Prepares for a run, and asks the listener for all that had arrived then, if it is discarded.
    /// Dropping the future gives the preparation up.
    pub(super) fn prepare(
        &self,
        run: RunIdentity,
    ) -> impl Future<Output = Result<(), String>> + Send + use<> {
        let front_ends = self.clone();
        async move {
            if let Some(beginnings) = front_ends.0.beginnings.get() {
                let (answer, answered) = oneshot::channel();
                // An error means that the receiver has ended, as that of the answer says.
                let _ = beginnings.send(Beginning { run: run.run, id: run.id, answer }).await;
                answered.await.unwrap_or_else(|_| Err("its input has ended".to_owned()))?;
            }
            if front_ends.before_start() == BeforeStart::Discard {
                front_ends.ask().await;
            }
            Ok(())
        }
    }

    /// Asks the listener to push all that has arrived, and returns a future that waits for this.
    pub(super) fn ask(&self) -> impl Future<Output = ()> + Send + use<> {
        let shared = Arc::clone(&self.0);
        shared.asked.send_modify(|count| *count += 1);
        let asked = *shared.asked.borrow();
        async move {
            // The sender is in `shared`, so there is no error.
            let _ = shared.read_out.subscribe().wait_for(|read_out| *read_out >= asked).await;
        }
    }

    /// Notes that fragments are kept, because the run is under way.
    pub(super) fn join(&self) {
        self.0.is_discarding.store(false, Ordering::Release);
    }

    /// Notes that fragments which begin to arrive from now on belong to the run.
    pub(crate) fn start(&self) {
        self.0.starts.fetch_add(1, Ordering::Release);
        self.join();
    }

    /// Notes the run, of which front ends are told.
    pub(crate) fn note_run(&self, run: ToldRun) {
        self.0.run.send_replace(run);
    }

    /// Notes that the source's part in the run is over.
    pub(crate) fn end(&self) {
        self.0.run.send_modify(|run| run.is_over = true);
    }

    /// Returns the run and its changes.
    pub(crate) fn run(&self) -> watch::Receiver<ToldRun> {
        self.0.run.subscribe()
    }

    /// Returns true if the run is under way and has that id.
    pub(crate) fn is_run(&self, id: RunId) -> bool {
        let run = self.0.run.borrow();
        run.id == id && run.stage != RunStage::Waiting
    }

    /// Returns the counts so far.
    pub(crate) fn counts(&self) -> FrontEndCounts {
        let value_of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let counts = &self.0.counts;
        FrontEndCounts {
            discarded: value_of(&counts.discarded),
            of_other_runs: value_of(&counts.of_other_runs),
            malformed: value_of(&counts.malformed),
            protocol: counts.protocol.load(Ordering::Relaxed),
            run_not_stated: value_of(&counts.run_not_stated),
            losses: *counts.losses.lock().unwrap_or_else(PoisonError::into_inner),
        }
    }

    /// Returns the requests of the source for all that has arrived, by their number.
    pub(crate) fn requests(&self) -> watch::Receiver<u64> {
        let mut requests = self.0.asked.subscribe();
        requests.mark_changed();
        requests
    }

    /// Notes that all that had arrived at the source's request of that number is pushed.
    pub(crate) fn note_read_out(&self, request: u64) {
        self.0.read_out.send_replace(request);
    }

    /// Returns the number of starts so far, which differs before and after the start of the run.
    pub(crate) fn starts(&self) -> u64 {
        self.0.starts.load(Ordering::Acquire)
    }

    /// Returns true as long as fragments are from before the start, and are discarded.
    pub(crate) fn is_discarding(&self) -> bool {
        self.0.is_discarding.load(Ordering::Acquire)
    }

    /// Counts a fragment from before the start that the listener discards itself: one that ends
    /// after the start, or that the source refuses.
    pub(crate) fn count_discarded(&self) {
        self.0.counts.discarded.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a fragment that is discarded, because its front end stated another run.
    pub(crate) fn count_of_other_run(&self) {
        self.0.counts.of_other_runs.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a fragment that was cut off, or bytes that cannot be a fragment.
    pub(crate) fn count_malformed(&self) {
        self.0.counts.malformed.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts what the decoder of a board's frames has lost since the last call.
    pub(crate) fn count_losses(&self, losses: &Losses) {
        let counts = &self.0.counts;
        counts.malformed.fetch_add(losses.cut_short + losses.bad_lengths, Ordering::Relaxed);
        counts.losses.lock().unwrap_or_else(PoisonError::into_inner).add(losses);
    }

    /// Counts a fragment that is taken. It came by that version of the protocol.
    pub(crate) fn count_taken(&self, protocol: u32, states_run: bool) {
        let counts = &self.0.counts;
        let lowest = counts.protocol.load(Ordering::Relaxed);
        if lowest == 0 || protocol < lowest {
            counts.protocol.store(protocol, Ordering::Relaxed);
        }
        if !states_run {
            counts.run_not_stated.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// A run that begins when it is prepared for: see [`FrontEnds::beginnings`].
#[derive(Debug)]
pub struct Beginning {
    /// The run's number.
    pub run: RunNumber,
    /// The run's id.
    pub id: RunId,
    answer: oneshot::Sender<Result<(), String>>,
}

impl Beginning {
    /// Lets the run begin, or refuses to take part for a reason.
    pub fn answer(self, prepared: Result<(), String>) {
        // An error means that this beginning was given up.
        let _ = self.answer.send(prepared);
    }

    /// Returns true if this beginning is given up, so that the answer changes nothing.
    pub fn is_given_up(&self) -> bool {
        self.answer.is_closed()
    }

    /// Waits until this beginning is given up.
    pub async fn given_up(&mut self) {
        self.answer.closed().await;
    }
}

/// A connected front end.
#[derive(Debug)]
pub(crate) struct Connected(FrontEnds);

impl Drop for Connected {
    fn drop(&mut self) {
        self.0.0.connected.send_modify(|count| *count -= 1);
    }
}
