use bytes::{Bytes as Payload, BytesMut};
use evb_core::{
    fragment::{Fragment, Timestamp},
    id::{EventId, SourceId},
    rng::Rng,
    units::Bytes,
};

use super::pattern::Pattern;
use crate::source::Readout;

#[cfg(test)]
mod tests;

/// How large generated fragments are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FragmentSize {
    /// All the same.
    Fixed(Bytes),
    /// Normally distributed, cut at zero.
    Gaussian {
        /// Mean size.
        mean: Bytes,
        /// Standard deviation of the size.
        sigma: Bytes,
    },
    /// Log-normally distributed.
    LogNormal {
        /// Mean of the size itself, not of its logarithm.
        mean: Bytes,
        /// Standard deviation of the size itself.
        sigma: Bytes,
    },
}

impl FragmentSize {
    /// Draws a size, `limit` at most.
    fn draw(self, rng: &mut Rng, limit: Bytes) -> Bytes {
        let drawn = match self {
            Self::Fixed(size) => return size.min(limit),
            Self::Gaussian { mean, sigma } => mean.count() as f64 + sigma.count() as f64 * rng.gaussian(),
            Self::LogNormal { mean, sigma } => {
                // Mean m and deviation s of the size give σ² = ln(1 + s²/m²) and µ = ln m − σ²/2 of its logarithm.
                let (mean, sigma) = (mean.count() as f64, sigma.count() as f64);
                let variance = (1.0 + (sigma / mean.max(1.0)).powi(2)).ln();
                mean * (variance.sqrt() * rng.gaussian() - variance / 2.0).exp()
            }
        };
        // A cast from float to integer saturates, and takes what is below zero for zero.
        Bytes::new(drawn.round() as u64).min(limit)
    }
}

/// From this size on, a fragment is made when it is to be sent: a few of them fill the cache.
const WORTH_A_PROMISE: Bytes = Bytes::kib(128);

/// How much memory of committed fragments is kept for new ones: that of a few thousand small ones, or a few large ones.
const POOL_BYTES: usize = 64 << 20;
const POOL_PIECES: usize = 8192;

/// Makes up fragments on demand, with content that [`CheckContent`](super::CheckContent) recognizes.
///
/// The size depends on seed, source and event alone, the content on source, event and size. Every fragment is freshly
/// written, into the memory of one that is done with where there is any. Its timestamp is the event's number.
#[derive(Debug)]
pub struct Generator {
    source: SourceId,
    size: FragmentSize,
    limit: Bytes,
    seed: u64,
    pool: Vec<BytesMut>,
    pooled: usize,
}

impl Generator {
    /// A generator for one source; no fragment is larger than `limit`, the source's `max_fragment`.
    pub fn new(source: SourceId, size: FragmentSize, limit: Bytes, seed: u64) -> Self {
        let seed = Rng::new(seed ^ (u64::from(source.number()) << 48)).next_u64();
        Self {
            source,
            size,
            limit: limit.min(Bytes::new(u32::MAX.into())),
            seed,
            pool: Vec::new(),
            pooled: 0,
        }
    }

    /// The size of its fragment of that event.
    pub fn size(&self, event: EventId) -> Bytes {
        self.size.draw(&mut Rng::new(self.seed ^ event.number()), self.limit)
    }

    /// Makes the fragment of that event.
    pub fn generate(&mut self, event: EventId) -> Fragment {
        let length = self.size(event).as_usize();
        let mut payload = self.pool.pop().unwrap_or_default();
        self.pooled -= payload.capacity();
        if payload.capacity() < length {
            payload = BytesMut::with_capacity(length);
        }
        let checksum = Pattern::of(event, self.source, length).write(length, &mut payload);
        Fragment { event, timestamp: timestamp(event), payload: payload.freeze(), checksum }
    }
}

impl Readout for Generator {
    fn fragment(&mut self, event: EventId) -> Option<Fragment> {
        Some(self.generate(event))
    }

    fn promise(&mut self, event: EventId) -> Option<(Timestamp, u32)> {
        let length = self.size(event);
        (length >= WORTH_A_PROMISE).then(|| (timestamp(event), length.count() as u32))
    }

    fn makes_again(&self) -> bool {
        true
    }

    fn recycle(&mut self, payload: Payload) {
        if self.pool.len() < POOL_PIECES
            && self.pooled < POOL_BYTES
            && let Ok(mut memory) = payload.try_into_mut()
        {
            memory.clear();
            self.pooled += memory.capacity();
            self.pool.push(memory);
        }
    }
}

fn timestamp(event: EventId) -> Timestamp {
    Timestamp::new(event.number())
}
