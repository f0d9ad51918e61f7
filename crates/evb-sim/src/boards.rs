//! [`Boards`]: the detector clocks of sources, and the board that misses triggers.

use core::time::Duration;

use evb_core::{
    alignment::{ClockWrap, DetectorClock, GuardedClocks},
    fragment::Timestamp,
    id::{EventId, SourceId},
    rng::Rng,
    units::Frequency,
};

/// Number of events that a builder must have built before a slip so that it knows the clock.
pub(crate) const LEARNT: usize = 12;
/// Number of events after a slip that say by how much.
pub(crate) const ENOUGH: usize = 60;

/// The boards of all sources. They read their clocks at the simulated trigger times, which are not
/// those of the supervisor: data of a recording are built like this.
#[derive(Clone, Debug, PartialEq)]
pub struct Boards {
    /// Clock of each source, in the order of ids; `None` for a source whose timestamps say nothing.
    pub clocks: Vec<Option<Board>>,
    /// Mean time between two triggers.
    pub interval: Duration,
    /// Part of the interval by which triggers are late at most; 0 for periodic triggers.
    pub spread: f64,
    /// Largest difference between the time of a trigger and that of a timestamp.
    pub jitter: Duration,
    /// The slip of one board, if there is one.
    pub slip: Option<Slip>,
}

/// The clock of a board.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Board {
    /// Nominal rate in Hz.
    pub hertz: f64,
    /// Deviation from this rate, in parts per million.
    pub ppm: f64,
    /// Number of bits.
    pub bits: u8,
    /// Reading at the beginning of the run.
    pub offset: u64,
}

/// A board whose fragments belong to other events from some event on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slip {
    /// Number of the run in the scenario, counted from 0.
    pub run: u32,
    /// The source.
    pub source: SourceId,
    /// The first wrong event.
    pub at: EventId,
    /// Number of triggers that the board missed; negative if it had some twice.
    pub shift: i64,
}

impl Boards {
    /// Returns the clocks as the configuration declares them.
    pub(crate) fn declared(&self) -> GuardedClocks {
        let slowest = self.clocks.iter().flatten().map(|board| board.hertz).fold(1e9, f64::min);
        let tick = Duration::from_nanos((1e9 / slowest).ceil() as u64);
        let clock = |board: &Board| {
            let clock = DetectorClock::new(Frequency::from_hertz(board.hertz)?, ClockWrap::Bits(board.bits));
            Some(DetectorClock { tolerance: 2 * (2 * self.jitter + 2 * tick), ..clock })
        };
        let all = (1..).map(SourceId::new).zip(&self.clocks);
        let clocks = all.filter_map(|(source, board)| Some((source, clock(board.as_ref()?)?))).collect();
        GuardedClocks { clocks, lead: None, host_times: false }
    }

    /// Returns the timestamp of a source's fragment. The seed is that of the run.
    pub(crate) fn timestamp(&self, seed: u64, run: u32, source: SourceId, event: EventId) -> Timestamp {
        let index = usize::from(source.number()) - 1;
        let Some(Some(board)) = self.clocks.get(index) else { return Timestamp::new(0) };
        let slips = |slip: &Slip| slip.run == run && slip.source == source && slip.at <= event;
        let shift = self.slip.filter(slips).map_or(0, |slip| slip.shift);
        let triggered = event.number().saturating_add_signed(shift);
        let jitter = self.jitter.as_nanos() as f64 * uniform(seed, triggered, 1 + u64::from(source.number()));
        let nanos = self.trigger(seed, triggered) + jitter;
        let ticks = (nanos * board.hertz / 1e9 * (1.0 + board.ppm / 1e6)) as u64;
        Timestamp::new(ticks.wrapping_add(board.offset) & (u64::MAX >> (64 - board.bits)))
    }

    /// Returns the time of a trigger in nanoseconds.
    fn trigger(&self, seed: u64, event: u64) -> f64 {
        let late = self.spread * uniform(seed, event, 0);
        self.interval.as_nanos() as f64 * (event as f64 + late)
    }
}

/// Returns a number from 0 to 1 that depends on nothing else.
fn uniform(seed: u64, event: u64, stream: u64) -> f64 {
    let place = (event << 9 ^ stream).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    Rng::new(seed ^ 0x626F_6172_6473_2121 ^ place).uniform()
}
