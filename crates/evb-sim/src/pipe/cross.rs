//! [`CrossTraffic`]: the other traffic at a router, in bursts.

use core::time::Duration;

use evb_core::{
    rng::Rng,
    units::{Bytes, Rate},
};

/// Rate of the links by which other traffic comes to the router.
const ACCESS: Rate = Rate::from_bits_per_second(1_000_000_000);
/// Number of frames of the shortest burst.
const SHORTEST: f64 = 8.0;
/// Number of frames of the longest burst: about one window of 256 KiB.
const LONGEST: f64 = 180.0;
/// Exponent of the distribution of the bursts' sizes, which has a heavy tail (Crovella and
/// Bestavros, SIGMETRICS 1996, find 1.0 to 1.3 for transfers on the Web).
const TAIL: f64 = 1.2;

/// A source of frames in bursts of random sizes at random times.
#[derive(Debug)]
pub(super) struct CrossTraffic {
    rng: Rng,
    /// Time between the frames of a burst.
    interval: Duration,
    /// Mean time between frames that gives the wanted load; `None`: there is no other traffic.
    mean: Option<Duration>,
    /// Frames of the present burst that are still to come.
    left: u64,
}

impl CrossTraffic {
    /// Creates traffic of frames of `line` line bytes that loads a link by `load` of its rate in
    /// the mean.
    pub(super) fn new(load: f64, link: Rate, line: Bytes, seed: u64) -> Self {
        let mean = (load > 0.0).then(|| (line / link).div_f64(load));
        Self { rng: Rng::new(seed), interval: line / ACCESS, mean, left: 0 }
    }

    /// Returns the time from one frame to the next; `None` if there is no other traffic.
    pub(super) fn next(&mut self) -> Option<Duration> {
        let mean = self.mean?;
        if let Some(left) = self.left.checked_sub(1) {
            self.left = left;
            return Some(self.interval);
        }
        let size = (SHORTEST * (1.0 - self.rng.uniform()).powf(-1.0 / TAIL)).min(LONGEST);
        self.left = size as u64 - 1;
        // The burst itself takes a part of the time from its begin to the begin of the next.
        let pause = (mean.as_secs_f64() - self.interval.as_secs_f64()).max(0.0) * size;
        Some(Duration::from_secs_f64(pause * self.rng.exponential()).max(self.interval))
    }
}
