//! Limits on the bytes that a builder keeps after they arrived out of order over datagrams.

use evb_core::{transport::Transport, units::Bytes};

use crate::policy::Shaping;

/// The smallest span within which a lane keeps bytes that arrive out of order.
const LEAST_WINDOW: Bytes = Bytes::kib(256);
/// The largest span within which a lane keeps bytes that arrive out of order.
const MOST_WINDOW: Bytes = Bytes::mib(16);

impl Shaping {
    /// Returns the bytes that may be under way at once to a builder with `lanes` lanes. For modes
    /// without a limit, the value is an estimate.
    pub fn under_way(&self, lanes: usize) -> Bytes {
        match self {
            Self::Credit { budget, .. } => *budget,
            Self::Window { window } => *window * lanes as u64,
            Self::TokenBucket(_) | Self::None => Bytes::mib(8),
        }
    }

    /// Returns the span of lane bytes within which a lane over datagrams keeps bytes that arrive
    /// out of order, if the builder has `lanes` lanes.
    pub fn out_of_order_window(&self, lanes: usize) -> Bytes {
        self.under_way(lanes).clamp(LEAST_WINDOW, MOST_WINDOW)
    }

    /// Returns the memory that a builder with `lanes` lanes may need for bytes that arrive out of
    /// order over datagrams, in addition to its event slots.
    pub fn out_of_order_memory(&self, lanes: usize) -> Bytes {
        self.out_of_order_window(lanes) * lanes as u64
    }
}

/// Returns the memory that a builder needs, besides its slots, for bytes that arrive out of order:
/// none over TCP, where the kernel holds them.
pub fn out_of_order_memory(transport: Transport, shaping: &Shaping, lanes: usize) -> Bytes {
    match transport {
        Transport::Tcp => Bytes::ZERO,
        Transport::Udp => shaping.out_of_order_memory(lanes),
    }
}
