//! How much a builder keeps of what comes out of order over datagrams.

use evb_core::units::Bytes;

use crate::policy::Shaping;

/// The least that a lane keeps out of order.
const LEAST_WINDOW: Bytes = Bytes::kib(256);
/// The most.
const MOST_WINDOW: Bytes = Bytes::mib(16);

impl Shaping {
    /// Returns the bytes that may be under way at once to a builder with that many lanes; a guess
    /// for modes without a bound.
    pub fn under_way(&self, lanes: usize) -> Bytes {
        match self {
            Self::Credit { budget, .. } => *budget,
            Self::Window { window } => *window * lanes as u64,
            Self::TokenBucket(_) | Self::None => Bytes::mib(8),
        }
    }

    /// Returns the span within which a lane over datagrams keeps bytes that arrive out of order,
    /// where a builder has that many lanes.
    pub fn out_of_order_window(&self, lanes: usize) -> Bytes {
        self.under_way(lanes).clamp(LEAST_WINDOW, MOST_WINDOW)
    }

    /// Returns the memory that a builder with that many lanes may use, beside its slots, for bytes
    /// that arrive out of order over datagrams.
    pub fn out_of_order_memory(&self, lanes: usize) -> Bytes {
        self.out_of_order_window(lanes) * lanes as u64
    }
}
