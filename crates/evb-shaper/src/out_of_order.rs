//! How much a builder keeps of what comes out of order over datagrams.

use evb_core::units::Bytes;

use crate::policy::Shaping;

/// The least that a lane keeps out of order.
const LEAST_WINDOW: Bytes = Bytes::kib(256);
/// The most.
const MOST_WINDOW: Bytes = Bytes::mib(16);

impl Shaping {
    /// Returns how much may be under way at once to a builder with so many lanes; of modes without a bound, a guess.
    pub fn under_way(&self, lanes: usize) -> Bytes {
        match self {
            Self::Credit { budget, .. } => *budget,
            Self::Window { window } => *window * lanes as u64,
            Self::TokenBucket(_) | Self::None => Bytes::mib(8),
        }
    }

    /// Returns how far out of order a lane's bytes are kept over datagrams, where a builder has so many lanes.
    pub fn out_of_order_window(&self, lanes: usize) -> Bytes {
        self.under_way(lanes).clamp(LEAST_WINDOW, MOST_WINDOW)
    }

    /// Returns what a builder with so many lanes may hold of bytes that came out of order over datagrams, beside its slots.
    pub fn out_of_order_memory(&self, lanes: usize) -> Bytes {
        self.out_of_order_window(lanes) * lanes as u64
    }
}
