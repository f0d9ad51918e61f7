//! Departure times and GCRA behind one trait, in simulated time: measures how exactly each keeps a
//! rate, and how much leaves after a pause.

use core::{num::NonZeroU32, time::Duration};

use evb_core::{
    time::Instant,
    units::{Bytes, Rate},
};
use evb_shaper::EdtBucket;
use governor::{
    Quota, RateLimiter,
    clock::{Clock as _, FakeRelativeClock},
    middleware::NoOpMiddleware,
    nanos::Nanos,
    state::{InMemoryState, NotKeyed},
};

const START: Instant = Instant::from_nanos(1_000_000_000);

/// A pacer that decides when trains may leave.
pub trait Pacer {
    /// Tells the pacer that a queue that was empty has a train to send.
    fn wake(&mut self, now: Instant);
    /// Lets a train leave now, or returns the time of the next try.
    fn try_depart(&mut self, size: Bytes, now: Instant) -> Result<(), Instant>;
}

impl Pacer for EdtBucket {
    fn wake(&mut self, now: Instant) {
        Self::wake(self, now);
    }

    #[inline]
    fn try_depart(&mut self, size: Bytes, now: Instant) -> Result<(), Instant> {
        let at = self.departure_of(size, now);
        if at > now {
            return Err(at);
        }
        self.spend(size, at);
        Ok(())
    }
}

/// The GCRA of the crate `governor` with cells of a fixed number of bytes; a train takes whole
/// cells.
pub struct Gcra {
    limiter: RateLimiter<NotKeyed, InMemoryState, FakeRelativeClock, NoOpMiddleware<Nanos>>,
    clock: FakeRelativeClock,
    now: Instant,
    cell: Bytes,
}

impl Gcra {
    /// Creates a pacer; returns `None` if `governor` cannot express the quota, because the crate
    /// counts cells in 32 bits.
    pub fn new(rate: Rate, burst: Bytes, cell: Bytes) -> Option<Self> {
        let cells = (rate.bits_per_second() as f64 / (8 * cell.count()) as f64).round();
        let per_second = NonZeroU32::new(u32::try_from(cells as u64).ok()?)?;
        let burst = NonZeroU32::new(u32::try_from(burst.count().div_ceil(cell.count())).ok()?)?;
        Some(Self::of(Quota::per_second(per_second).allow_burst(burst), cell))
    }

    /// Creates a pacer with the given quota of cells.
    pub fn of(quota: Quota, cell: Bytes) -> Self {
        let clock = FakeRelativeClock::default();
        Self {
            limiter: RateLimiter::direct_with_clock(quota, clock.clone()),
            clock,
            now: Instant::ZERO,
            cell,
        }
    }
}

impl Pacer for Gcra {
    fn wake(&mut self, _now: Instant) {}

    #[inline]
    fn try_depart(&mut self, size: Bytes, now: Instant) -> Result<(), Instant> {
        self.clock.advance(now.since(self.now));
        self.now = now;
        let cells = size.count().div_ceil(self.cell.count());
        let cells = NonZeroU32::new(cells as u32).expect("a train has bytes");
        match self.limiter.check_n(cells).expect("a train fits the burst") {
            Ok(()) => Ok(()),
            Err(refused) => Err(now + refused.wait_time_from(self.clock.now())),
        }
    }
}

/// Returns the relative error of the long-term rate of a queue that is never empty. Every wake-up
/// comes later than requested, by `late`.
pub fn rate_error(pacer: &mut impl Pacer, sizes: &[u64], rate: Rate, late: Duration) -> f64 {
    /// Number of trains after which the burst is over.
    const BEFORE: usize = 1000;
    const MEASURED: usize = 50_000;
    let mut sizes = sizes.iter().copied().cycle().map(Bytes::new);
    let mut now = START;
    pacer.wake(now);
    let mut send = |trains: usize| {
        let mut sent = Bytes::ZERO;
        for size in sizes.by_ref().take(trains) {
            while let Err(at) = pacer.try_depart(size, now) {
                now = at + late;
            }
            sent += size;
        }
        (sent, now)
    };
    let (_, begin) = send(BEFORE);
    let (sent, end) = send(MEASURED);
    let seconds = end.since(begin).as_secs_f64();
    sent.count() as f64 * 8.0 / seconds / rate.bits_per_second() as f64 - 1.0
}

/// Returns the bytes that leave at once after one second with an empty queue.
pub fn after_pause(pacer: &mut impl Pacer, sizes: &[u64]) -> Bytes {
    let mut sent = Bytes::ZERO;
    pacer.wake(START);
    for size in sizes.iter().copied().cycle().map(Bytes::new) {
        if pacer.try_depart(size, START).is_err() {
            break;
        }
        sent += size;
    }
    sent
}
