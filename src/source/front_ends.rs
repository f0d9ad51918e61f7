//! [`FrontEnds`]: the state that a source shares with the listener of its front ends.

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use evb_core::source::BeforeStart;
use tokio::sync::watch;

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
pub struct FrontEnds(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    before_start: BeforeStart,
    /// Number of front ends that should be connected; 0 if they may come and go.
    expected: u32,
    /// Number of front ends that are connected.
    connected: watch::Sender<u32>,
    /// Number of times that the source has asked for all that has arrived.
    asked: watch::Sender<u64>,
    /// The latest of these times for which the listener has pushed all.
    read_out: watch::Sender<u64>,
    /// Number of starts of the run.
    starts: AtomicU64,
    /// True until fragments are kept.
    is_discarding: AtomicBool,
    /// Fragments from before the start that the listener discarded itself.
    discarded: AtomicU64,
}

impl FrontEnds {
    /// Creates the state of front ends that have sent nothing. `before_start` is what becomes of
    /// fragments that arrive before the run has started. `expected` is the number of front ends
    /// that should be connected: a source with fewer says so, and the readout of a source with none
    /// counts as gone. With 0, front ends may come and go.
    pub fn new(before_start: BeforeStart, expected: u32) -> Self {
        Self(Arc::new(Shared {
            before_start,
            expected,
            connected: watch::Sender::new(0),
            asked: watch::Sender::new(0),
            read_out: watch::Sender::new(0),
            starts: AtomicU64::new(0),
            is_discarding: AtomicBool::new(before_start == BeforeStart::Discard),
            discarded: AtomicU64::new(0),
        }))
    }

    /// Returns the number of front ends that should be connected; 0 if they may come and go.
    pub(super) fn expected(&self) -> u32 {
        self.0.expected
    }

    /// Returns the number of front ends that are connected, and its changes.
    pub(super) fn connected(&self) -> watch::Receiver<u32> {
        let mut connected = self.0.connected.subscribe();
        connected.mark_changed();
        connected
    }

    /// Counts a front end as connected until the returned value is dropped.
    pub(crate) fn connect(&self) -> Connected {
        self.0.connected.send_modify(|count| *count += 1);
        Connected(self.clone())
    }

    pub(super) fn before_start(&self) -> BeforeStart {
        self.0.before_start
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
    pub(super) fn start(&self) {
        self.0.starts.fetch_add(1, Ordering::Release);
        self.join();
    }

    /// Returns the number of fragments from before the start that the listener discarded itself.
    pub(super) fn discarded(&self) -> u64 {
        self.0.discarded.load(Ordering::Relaxed)
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
        self.0.discarded.fetch_add(1, Ordering::Relaxed);
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
