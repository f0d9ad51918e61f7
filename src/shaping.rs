//! Traffic shaping: its modes, paces, and the sums of packets on the wire.
//!
//! ```
//! use evb::{
//!     prelude::*,
//!     shaping::{CELL, PacketCost, Shaping},
//! };
//!
//! // Credit for a port of 10 Gbit/s with 512 KiB behind eight sources.
//! let cost = PacketCost::tcp(1500, CELL);
//! let port = Rate::from_bits_per_second(10_000_000_000);
//! let mut config = BuilderConfig::new(BuilderId::new(1), "daq0:7000");
//! config.shaping = Shaping::credit_for(Bytes::kib(512), Some(port), 8, &cost);
//! ```

pub use evb_shaper::{
    ByteMeasure, LinkPlan, Pace, Shaping,
    cost::{CELL, PacketCost},
};
