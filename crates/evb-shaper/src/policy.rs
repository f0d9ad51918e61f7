//! From `shaping.mode` to a policy.

use evb_core::{
    grant::{Grant, GrantCounters, GrantPolicy, LaneDemand},
    time::Instant,
    units::Bytes,
};

use crate::{
    cost::{CELL, PacketCost},
    credit::{Credit, CreditConfig},
    open::Open,
    pace::Pace,
    window::Window,
};

/// How a run's traffic is shaped, as configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shaping {
    /// A byte budget per builder port.
    Credit {
        /// The most buffer bytes under way to one builder.
        budget: Bytes,
        /// Lane bytes of one turn.
        chunk: Bytes,
        /// How many sources are asked at once; `None`: as many as the budget carries.
        sources_at_once: Option<usize>,
    },
    /// So many buffer bytes under way per lane.
    Window {
        /// Buffer bytes.
        window: Bytes,
    },
    /// Sources pace themselves, each lane.
    TokenBucket(Pace),
    /// Not at all.
    None,
}

impl Shaping {
    /// Credit without a stated port buffer: megabytes, which is what loopback and one machine want.
    pub const LOOPBACK: Self =
        Self::Credit { budget: Bytes::mib(8), chunk: Bytes::kib(256), sources_at_once: None };

    /// Credit for a switch port with that buffer: nine tenths of it, because acknowledgements and announcements that enter
    /// the port are not charged; in chunks of [`PacketCost::chunk`].
    pub fn credit_for(port_buffer: Bytes) -> Self {
        let budget = port_buffer * 9 / 10;
        let chunk = PacketCost::tcp(1500, CELL).chunk(budget);
        Self::Credit { budget, chunk, sources_at_once: None }
    }

    /// The builder's half: who may send when. `offset` differs per builder.
    pub fn policy(&self, lanes: usize, cost: PacketCost, offset: usize) -> Policy {
        match *self {
            Self::Credit { budget, chunk, sources_at_once } => Policy::Credit(Credit::new(
                CreditConfig { budget, chunk, sources_at_once, offset, cost },
                lanes,
            )),
            Self::Window { window } => Policy::Window(Window::new(window, cost, lanes)),
            Self::TokenBucket(_) | Self::None => Policy::Open(Open::new(cost, lanes)),
        }
    }

    /// The source's half: the pace of every lane that the mode has. Others may be added in any mode.
    pub fn pace(&self) -> Option<Pace> {
        match *self {
            Self::TokenBucket(pace) => Some(pace),
            Self::Credit { .. } | Self::Window { .. } | Self::None => None,
        }
    }
}

/// One of the policies.
#[derive(Debug)]
pub enum Policy {
    /// Credit.
    Credit(Credit),
    /// Window.
    Window(Window),
    /// Everything at once.
    Open(Open),
}

macro_rules! each {
    ($policy:expr, $inner:ident => $call:expr) => {
        match $policy {
            Policy::Credit($inner) => $call,
            Policy::Window($inner) => $call,
            Policy::Open($inner) => $call,
        }
    };
}

impl GrantPolicy for Policy {
    fn poll(&mut self, lanes: &[LaneDemand], now: Instant) -> Option<Grant> {
        each!(self, policy => policy.poll(lanes, now))
    }

    fn handle_received(&mut self, lane: usize, received: u64, now: Instant) {
        each!(self, policy => policy.handle_received(lane, received, now));
    }

    fn handle_reset(&mut self, lane: usize, received: u64, now: Instant) {
        each!(self, policy => policy.handle_reset(lane, received, now));
    }

    fn handle_gone(&mut self, lane: usize, now: Instant) {
        each!(self, policy => policy.handle_gone(lane, now));
    }

    fn handle_timeout(&mut self, now: Instant) {
        each!(self, policy => policy.handle_timeout(now));
    }

    fn next_timeout(&self) -> Option<Instant> {
        each!(self, policy => policy.next_timeout())
    }

    fn outstanding(&self) -> Bytes {
        each!(self, policy => policy.outstanding())
    }

    fn counters(&self) -> &GrantCounters {
        each!(self, policy => policy.counters())
    }
}
