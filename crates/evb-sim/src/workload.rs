//! `Workload`: the fragments that sources push. The fragments are a function of seed, source and
//! event, so that every byte can be checked on any host.

use core::time::Duration;

use evb_core::{
    event::Event,
    fragment::{Fragment, Timestamp},
    id::{EventId, SourceId},
    rng::Rng,
    units::Bytes,
};

use crate::boards::Boards;

/// The distribution of fragment sizes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FragmentSize {
    /// All fragments have the given size.
    Fixed(Bytes),
    /// Sizes are uniformly distributed between two sizes, both included.
    Uniform(Bytes, Bytes),
    /// Sizes are normally distributed, clipped at zero and at four sigma above the mean.
    Gaussian {
        /// The mean before clipping.
        mean: Bytes,
        /// The standard deviation before clipping.
        sigma: Bytes,
    },
}

impl FragmentSize {
    /// Returns the largest possible size.
    pub fn largest(&self) -> Bytes {
        match *self {
            Self::Fixed(size) => size,
            Self::Uniform(a, b) => a.max(b),
            Self::Gaussian { mean, sigma } => mean + sigma * 4,
        }
    }

    fn draw(&self, rng: &mut Rng) -> usize {
        match *self {
            Self::Fixed(size) => size.as_usize(),
            Self::Uniform(a, b) => {
                let (low, high) = (a.min(b).count(), a.max(b).count());
                (low + rng.below(high - low + 1)) as usize
            }
            Self::Gaussian { mean, sigma } => {
                let size = mean.count() as f64 + sigma.count() as f64 * rng.gaussian();
                (size.max(0.0) as usize).min(self.largest().as_usize())
            }
        }
    }
}

/// Sizes and delays of the fragments that readout makes, and the probability that it makes none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Readout {
    /// Sizes of fragments.
    pub size: FragmentSize,
    /// The longest time that readout takes for a fragment; delays are uniformly distributed from
    /// zero.
    pub delay: Duration,
    /// The probability that a source has no fragment for an event.
    pub silence: f64,
}

/// The fragments of a run.
#[derive(Clone, Debug)]
pub(crate) struct Workload {
    readout: Readout,
    /// Sizes of the fragments of single sources, which replace those of `readout`.
    sizes: Vec<FragmentSize>,
    seed: u64,
    /// Random bytes; every payload is a part of them.
    pattern: bytes::Bytes,
    /// Boards that give the timestamps, and the number of the run, counted from 0.
    boards: Option<(Boards, u32)>,
}

/// Number of offsets at which a payload may begin.
const PLACES: u64 = 1 << 16;

/// The contribution of a source to one event.
#[derive(Clone, Debug)]
pub(crate) struct Draw {
    /// The payload of the source's fragment; `None` if the source has no fragment for the event.
    pub(crate) payload: Option<bytes::Bytes>,
    /// Time that readout takes for the fragment.
    pub(crate) delay: Duration,
}

impl Workload {
    /// Creates the fragments of sources that are all alike.
    pub(crate) fn new(readout: Readout, seed: u64) -> Self {
        Self::of_sizes(readout, Vec::new(), seed)
    }

    /// Creates fragments; `sizes` replaces the readout's sizes for the first sources.
    pub(crate) fn of_sizes(readout: Readout, sizes: Vec<FragmentSize>, seed: u64) -> Self {
        let mut rng = Rng::new(seed ^ 0x7061_7474_6572_6e21);
        let largest = sizes.iter().map(FragmentSize::largest).fold(readout.size.largest(), Ord::max);
        let words = (largest.count() + PLACES).div_ceil(8);
        let pattern: Vec<u8> = (0..words).flat_map(|_| rng.next_u64().to_le_bytes()).collect();
        Self { readout, sizes, seed, pattern: pattern.into(), boards: None }
    }

    /// Creates the fragments of boards in one run of a system.
    pub(crate) fn of_boards(readout: Readout, boards: Option<&Boards>, run: u32, seed: u64) -> Self {
        let boards = boards.map(|boards| (boards.clone(), run));
        Self { boards, ..Self::new(readout, seed.wrapping_add(run.into())) }
    }

    /// Returns the contribution of a source to an event; sources are counted from zero.
    pub(crate) fn draw(&self, source: usize, event: EventId) -> Draw {
        let source_bits = source as u64;
        let stream = (event.number() << 9) + (source_bits & 511) + ((source_bits >> 9) << 56);
        let mut rng = Rng::new(self.seed ^ stream.wrapping_mul(0xD6E8_FEB8_6659_FD93));
        let delay = self.readout.delay.mul_f64(rng.uniform());
        let silent = rng.uniform() < self.readout.silence;
        let start = rng.below(PLACES) as usize;
        let length = self.sizes.get(source).unwrap_or(&self.readout.size).draw(&mut rng);
        Draw { payload: (!silent).then(|| self.pattern.slice(start..start + length)), delay }
    }

    /// Returns the timestamp of the fragment of a source, counted from zero.
    pub(crate) fn timestamp(&self, source: usize, event: EventId) -> Timestamp {
        match &self.boards {
            Some((boards, run)) => boards.timestamp(self.seed, *run, SourceId::new(source as u16 + 1), event),
            None => Timestamp::new(event.number() * 1000),
        }
    }

    /// Returns a fragment of a source, counted from zero.
    pub(crate) fn fragment(&self, source: usize, event: EventId, payload: bytes::Bytes) -> Fragment {
        Fragment::new(event, self.timestamp(source, event), payload)
    }

    /// Checks that the event has exactly the fragments that its sources pushed; its sources have
    /// the ids 1, 2, 3, …
    ///
    /// # Errors
    /// Returns a description of the first error found in the event.
    pub(crate) fn check(&self, event: &Event, sources: u16) -> Result<(), String> {
        let mut present = event.fragments();
        let mut missing = event.missing.iter();
        for id in 1..=sources {
            let expected = self.draw(usize::from(id) - 1, event.id).payload;
            if missing.as_slice().first().is_some_and(|missing| missing.source.number() == id) {
                missing.next();
                continue;
            }
            let found = present
                .next()
                .ok_or_else(|| format!("source {id} has no fragment and is not listed as missing"))?;
            if found.source.number() != id {
                return Err(format!("source {} is in the place of source {id}", found.source));
            }
            let payload =
                expected.ok_or_else(|| format!("source {id} pushed nothing, but has a fragment"))?;
            if found.payload != payload || found.timestamp != self.timestamp(usize::from(id) - 1, event.id) {
                return Err(format!("the fragment of source {id} is not what was pushed"));
            }
        }
        if present.len() > 0 || missing.len() > 0 {
            return Err("the event names sources that the run does not have".to_owned());
        }
        Ok(())
    }

    /// Returns true if a source, counted from zero, has a fragment for the event.
    pub(crate) fn has(&self, source: usize, event: EventId) -> bool {
        self.draw(source, event).payload.is_some()
    }
}
