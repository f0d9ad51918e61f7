//! A shaper that wakes up at a fixed frequency, as an executor in software does: a `timerfd` wakes
//! its thread, and a token bucket computes the time of the next departure. It sends nothing.

use std::{
    io,
    sync::{
        Barrier,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use evb_core::units::{Bytes, Frequency, Rate};
use evb_net::{
    clock, host,
    pacing::{Executor as _, Software},
};
use evb_shaper::EdtBucket;

/// Size of the messages for which the token bucket computes departure times.
const MESSAGE: Bytes = Bytes::new(1000);

/// A result that was measured beside the shaper.
#[derive(Clone, Copy, Debug)]
pub(super) struct Beside<T> {
    pub(super) result: T,
    /// Number of wake-ups during the measurement.
    pub(super) wakes: u64,
    /// Duration of the measurement.
    pub(super) time: Duration,
}

/// Measures beside a shaper, which runs on the given core until the measurement ends.
pub(super) fn beside<T>(rate: Frequency, core: usize, measure: impl FnOnce() -> T) -> io::Result<Beside<T>> {
    let (wakes, is_over, is_ready) = (AtomicU64::new(0), AtomicBool::new(false), Barrier::new(2));
    thread::scope(|scope| {
        let shaper = scope.spawn(|| wake_up(rate, core, &wakes, &is_over, &is_ready));
        is_ready.wait();
        let (before, begin) = (wakes.load(Ordering::Relaxed), Instant::now());
        let result = measure();
        let (wakes, time) = (wakes.load(Ordering::Relaxed) - before, begin.elapsed());
        is_over.store(true, Ordering::Relaxed);
        shaper.join().map_err(|_| io::Error::other("the shaper's thread crashed"))??;
        Ok(Beside { result, wakes, time })
    })
}

fn wake_up(
    rate: Frequency,
    core: usize,
    wakes: &AtomicU64,
    is_over: &AtomicBool,
    is_ready: &Barrier,
) -> io::Result<()> {
    let prepared = host::pin_to_core(core)
        .and_then(|()| tokio::runtime::Builder::new_current_thread().enable_all().build());
    // Sources and builders take precedence where they may; without it, the scheduler delays the
    // shaper beside a busy thread.
    let _ = host::take_precedence();
    is_ready.wait();
    prepared?.block_on(async {
        let mut timer = Software::timer().timer()?;
        let bits = MESSAGE.count() as f64 * 8.0 * rate.hertz();
        let mut bucket = EdtBucket::new(Rate::from_bits_per_second(bits.round() as u64), MESSAGE * 2);
        bucket.wake(clock::now());
        while !is_over.load(Ordering::Relaxed) {
            timer.arm(Some(bucket.departure_of(MESSAGE, clock::now())));
            timer.expired().await;
            bucket.spend(MESSAGE, clock::now());
            wakes.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    })
}
