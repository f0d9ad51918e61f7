use std::{collections::VecDeque, time::Duration};

use bytes::{Bytes as Payload, BytesMut};
use evb_core::{
    alignment::DetectorClock,
    fragment::{Fragment, Timestamp},
    id::{EventId, SourceId},
    rng::Rng,
    units::Bytes,
};

use super::{
    board_clock::{self, BoardClock},
    pattern::{PatternStart, Stamp},
};
use crate::source::Readout;

#[cfg(test)]
mod tests;

/// Sizes of generated fragments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FragmentSize {
    /// All fragments have the same size.
    Fixed(Bytes),
    /// Normally distributed size, cut at zero.
    Gaussian {
        /// Mean size.
        mean: Bytes,
        /// Standard deviation of the size.
        sigma: Bytes,
    },
    /// Log-normally distributed size.
    LogNormal {
        /// Mean of the size itself, not of its logarithm.
        mean: Bytes,
        /// Standard deviation of the size itself.
        sigma: Bytes,
    },
}

impl FragmentSize {
    /// Draws a random size of at most `limit`.
    fn draw(self, rng: &mut Rng, limit: Bytes) -> Bytes {
        let drawn = match self {
            Self::Fixed(size) => return size.min(limit),
            Self::Gaussian { mean, sigma } => mean.count() as f64 + sigma.count() as f64 * rng.gaussian(),
            Self::LogNormal { mean, sigma } => {
                // A log-normal size with mean m and standard deviation s has a logarithm with
                // variance σ² = ln(1 + s²/m²) and mean µ = ln m − σ²/2.
                let (mean, sigma) = (mean.count() as f64, sigma.count() as f64);
                let variance = (1.0 + (sigma / mean.max(1.0)).powi(2)).ln();
                mean * (variance.sqrt() * rng.gaussian() - variance / 2.0).exp()
            }
        };
        // A cast from float to integer saturates, so a negative size becomes zero.
        Bytes::new(drawn.round() as u64).min(limit)
    }
}

/// Size from which each payload has memory of its own, which is reused after the payload is
/// committed. Smaller payloads share blocks.
const OWN_MEMORY: usize = 16 << 10;

/// Size of a block of memory that several small payloads share.
const BLOCK: usize = 64 << 10;

/// Limits of the payloads and bytes that are kept to be used again: about as many as a run may have
/// under way.
const KEPT_PAYLOADS: usize = 8192;
const KEPT_BYTES: usize = 512 << 20;

/// Number of kept payloads that are examined in search of one that is committed; builders do not
/// commit in the order of events.
const LOOKS: usize = 4;

/// Generates fragments on demand, with content that [`CheckContent`](super::CheckContent)
/// recognizes.
///
/// The size of a fragment depends on seed, source and event alone. A fragment's timestamp is the
/// event's number, unless the generator [has a clock](Self::with_clock). Large payloads resemble
/// those of a readout card: their memory was written before, the program writes only the stamp into
/// it, and it is reused once no reference to the payload is left.
///
/// ```
/// use evb::{
///     input::{FragmentSize, Generator},
///     prelude::*,
/// };
///
/// let size = FragmentSize::Fixed(Bytes::kib(64));
/// // The limit is the source's `max_fragment`.
/// let mut generator = Generator::new(SourceId::new(1), size, Bytes::kib(16), 1);
/// let fragment = generator.generate(EventId::new(5));
/// assert_eq!((fragment.size(), fragment.timestamp), (Bytes::kib(16), Timestamp::new(5)));
/// ```
#[derive(Debug)]
pub struct Generator {
    source: SourceId,
    size: FragmentSize,
    limit: Bytes,
    seed: u64,
    /// Clock of the timestamps; `None`: these are the numbers of the events.
    clock: Option<BoardClock>,
    /// Events by which the fragments from an event on are wrong.
    slip: (i8, EventId),
    block: BytesMut,
    /// Large payloads in the order of their use, the oldest first.
    kept: VecDeque<Kept>,
    kept_bytes: usize,
}

/// A payload that was passed on and whose memory may be used again.
#[derive(Debug)]
struct Kept {
    memory: Payload,
    place: PatternStart,
}

impl Generator {
    /// Mean interval between events on the clocks of generators.
    pub const MEAN_INTERVAL: Duration = board_clock::MEAN_INTERVAL;

    /// Creates a generator for one source; no fragment exceeds `limit`, the source's
    /// `max_fragment`.
    pub fn new(source: SourceId, size: FragmentSize, limit: Bytes, seed: u64) -> Self {
        let seed = Rng::new(seed ^ (u64::from(source.number()) << 48)).next_u64();
        Self {
            source,
            size,
            limit: limit.min(Bytes::new(u32::MAX.into())),
            seed,
            clock: None,
            slip: (0, EventId::FIRST),
            block: BytesMut::new(),
            kept: VecDeque::new(),
            kept_bytes: 0,
        }
    }

    /// Lets timestamps be readings of a clock, with the jitter of a healthy board. Event *n*
    /// happens at *n* × [`MEAN_INTERVAL`](Self::MEAN_INTERVAL), and up to half of that later: the
    /// same time for the generators of all sources, whatever their seeds. The phase of the clock
    /// follows from seed and source. The jitter is at most a twentieth of the tolerance, and 10 ns.
    ///
    /// ```
    /// use evb::{
    ///     input::{FragmentSize, Generator},
    ///     prelude::*,
    ///     source::{ClockWrap, DetectorClock},
    /// };
    ///
    /// let clock = DetectorClock::new("125 MHz".parse()?, ClockWrap::Bits(48));
    /// let (size, limit) = (FragmentSize::Fixed(Bytes::kib(1)), Bytes::kib(1));
    /// let mut generator = Generator::new(SourceId::new(1), size, limit, 1).with_clock(&clock);
    /// let mut time = |event| generator.generate(EventId::new(event)).timestamp.ticks();
    /// // Between events 1 and 1001 is a second, or up to half a millisecond more or less.
    /// let ticks = time(1001).wrapping_sub(time(1)) % (1 << 48);
    /// assert!(ticks.abs_diff(125_000_000) < 63_000);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_clock(self, clock: &DetectorClock) -> Self {
        Self { clock: Some(BoardClock::new(clock, self.seed)), ..self }
    }

    /// Plants the fault of a board that missed `by` triggers, or had some twice if the number is
    /// negative: from event `at` on, the fragment of event *n* has the content and the timestamp of
    /// event *n* + `by`.
    ///
    /// ```
    /// use evb::{
    ///     input::{FragmentSize, Generator},
    ///     prelude::*,
    /// };
    ///
    /// let (size, limit) = (FragmentSize::Fixed(Bytes::kib(1)), Bytes::kib(1));
    /// let healthy = || Generator::new(SourceId::new(1), size, limit, 1);
    /// let mut faulty = healthy().with_slip(1, EventId::new(500));
    /// let fragment = faulty.generate(EventId::new(500));
    /// assert_eq!(fragment.event, EventId::new(500));
    /// assert_eq!(fragment.payload, healthy().generate(EventId::new(501)).payload);
    /// ```
    #[must_use]
    pub fn with_slip(self, by: i8, at: EventId) -> Self {
        Self { slip: (by, at), ..self }
    }

    /// Returns the size of the generated fragment of that event.
    pub fn size(&self, event: EventId) -> Bytes {
        self.drawn(self.seen_by_board(event))
    }

    fn drawn(&self, seen: EventId) -> Bytes {
        self.size.draw(&mut Rng::new(self.seed ^ seen.number()), self.limit)
    }

    /// Makes the fragment of that event.
    pub fn generate(&mut self, event: EventId) -> Fragment {
        let seen = self.seen_by_board(event);
        let length = self.drawn(seen).as_usize();
        let payload = if length < OWN_MEMORY { self.small(seen, length) } else { self.large(seen, length) };
        let number = Timestamp::new(seen.number());
        let timestamp = self.clock.as_ref().map_or(number, |clock| clock.reading(seen));
        Fragment::new(event, timestamp, payload)
    }

    /// Returns the event whose content the board sends as that of `event`.
    fn seen_by_board(&self, event: EventId) -> EventId {
        let (by, at) = self.slip;
        if event < at { event } else { EventId::new(event.number().saturating_add_signed(by.into())) }
    }

    /// Writes a payload into the block of memory that small payloads share.
    fn small(&mut self, event: EventId, length: usize) -> Payload {
        if self.block.capacity() < length {
            self.block = BytesMut::with_capacity(BLOCK);
        }
        let place = PatternStart::of(event, self.source, length);
        place.write(length, &mut self.block);
        Stamp::new(event, self.source, place, length).write(&mut self.block);
        self.block.split().freeze()
    }

    /// Stamps the memory of a payload to which no reference is left, or allocates and fills new
    /// memory.
    fn large(&mut self, event: EventId, length: usize) -> Payload {
        let (mut memory, place) = self.free(length).unwrap_or_else(|| {
            let mut memory = BytesMut::with_capacity(length);
            let place = PatternStart::of(event, self.source, length);
            place.write(length, &mut memory);
            (memory, place)
        });
        Stamp::new(event, self.source, place, length).write(&mut memory);
        let memory = memory.freeze();
        let payload = memory.slice(..length);
        if self.kept.len() < KEPT_PAYLOADS && self.kept_bytes + memory.len() <= KEPT_BYTES {
            self.kept_bytes += memory.len();
            self.kept.push_back(Kept { memory, place });
        }
        payload
    }

    /// Takes memory for a payload of `length` bytes, with the content written before, from the
    /// payloads to which no reference is left.
    fn free(&mut self, length: usize) -> Option<(BytesMut, PatternStart)> {
        for _ in 0..LOOKS.min(self.kept.len()) {
            let kept = self.kept.pop_front()?;
            if !kept.memory.is_unique() {
                self.kept.push_back(kept);
                continue;
            }
            self.kept_bytes -= kept.memory.len();
            // Memory that is shorter than the next payload is freed; longer memory takes its place.
            if kept.memory.len() >= length
                && let Ok(memory) = kept.memory.try_into_mut()
            {
                return Some((memory, kept.place));
            }
        }
        None
    }
}

impl Readout for Generator {
    fn fragment(&mut self, event: EventId) -> Option<Fragment> {
        Some(self.generate(event))
    }
}
