//! From `shaping.mode` to a policy.

use core::{ops::Range, time::Duration};

use evb_core::{
    grant::{Fate, Grant, GrantCounters, GrantPolicy, LaneDemand},
    index::LaneIndex,
    lane::Request,
    time::Instant,
    units::{Bytes, Rate},
};

use crate::{
    charges::{Charges, Room, Rule},
    cost::PacketCost,
    credit::{Credit, CreditConfig},
    open::Open,
    pace::Pace,
    window::Window,
};

/// Shaping of a run's traffic, as configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shaping {
    /// A byte budget per builder port.
    Credit {
        /// The most buffer bytes under way to one builder.
        budget: Bytes,
        /// Lane bytes of one turn.
        chunk: Bytes,
        /// Sources that have their turn at once; with `None`, as many as the budget carries.
        sources_at_once: Option<usize>,
    },
    /// A fixed number of bytes under way per lane.
    Window {
        /// Lane bytes.
        window: Bytes,
    },
    /// Sources pace themselves, each lane.
    TokenBucket(Pace),
    /// No shaping.
    None,
}

impl Shaping {
    /// Credit without a stated port buffer: megabytes, which is what loopback and one machine want.
    pub const LOOPBACK: Self =
        Self::Credit { budget: Bytes::mib(8), chunk: Bytes::kib(256), sources_at_once: None };

    /// Returns credit for a switch port with that buffer and, if known, that rate, behind that many
    /// lanes: a budget of [`PacketCost::budget`], in chunks of [`PacketCost::chunk`].
    pub fn credit_for(port_buffer: Bytes, link: Option<Rate>, lanes: u64, cost: &PacketCost) -> Self {
        let budget = cost.budget(port_buffer, link, lanes);
        Self::Credit { budget, chunk: cost.chunk(budget, link), sources_at_once: None }
    }

    /// The builder's half: who may send when. `offset` differs per builder.
    pub fn policy(&self, lanes: usize, cost: PacketCost, offset: usize) -> Policy {
        match *self {
            Self::Credit { budget, chunk, sources_at_once } => {
                Policy::credit(CreditConfig { budget, chunk, sources_at_once, offset, cost }, lanes)
            }
            Self::Window { window } => Policy::window(window, cost, lanes),
            Self::TokenBucket(_) | Self::None => Policy::open(cost, lanes),
        }
    }

    /// Returns the bytes that a builder's sources together may have under way, where the mode
    /// limits them.
    pub const fn budget(&self) -> Option<Bytes> {
        match *self {
            Self::Credit { budget, .. } => Some(budget),
            Self::Window { .. } | Self::TokenBucket(_) | Self::None => None,
        }
    }

    /// Returns the source's half: the pace that the mode gives every lane. Other paces may be added
    /// in any mode.
    pub fn pace(&self) -> Option<Pace> {
        match *self {
            Self::TokenBucket(pace) => Some(pace),
            Self::Credit { .. } | Self::Window { .. } | Self::None => None,
        }
    }

    /// Returns the longest time that data may wait on the way to a builder: for its port, if that
    /// is full, and for the source's own link, if every one of the `builders` has just requested
    /// all that it requests at once. No timer may count data as lost before.
    pub fn longest_queue(&self, port_buffer: Bytes, link: Rate, builders: usize) -> Duration {
        let at_once = match *self {
            Self::Credit { chunk, .. } => chunk,
            Self::Window { window } => window,
            Self::TokenBucket(pace) => pace.burst,
            Self::None => Bytes::ZERO,
        };
        let held = port_buffer + at_once * builders as u64;
        Duration::try_from_secs_f64(held.count() as f64 / link.bytes_per_second()).unwrap_or_default()
    }
}

/// A grant policy: a rule for who is next, and what was granted and has not arrived.
#[derive(Debug)]
pub struct Policy {
    rule: AnyRule,
    charges: Charges,
}

#[derive(Debug)]
enum AnyRule {
    Credit(Credit),
    Window(Window),
    Open(Open),
}

impl AnyRule {
    fn as_mut(&mut self) -> &mut dyn Rule {
        match self {
            Self::Credit(credit) => credit,
            Self::Window(window) => window,
            Self::Open(open) => open,
        }
    }
}

impl Policy {
    /// [`Credit`] over `lanes` lanes.
    pub fn credit(config: CreditConfig, lanes: usize) -> Self {
        Self::new(AnyRule::Credit(Credit::new(config, lanes)), lanes)
    }

    /// Creates a [`Window`] for `lanes` lanes, of `window` lane bytes each.
    pub fn window(window: Bytes, cost: PacketCost, lanes: usize) -> Self {
        Self::new(AnyRule::Window(Window::new(window, cost)), lanes)
    }

    /// [`Open`] for `lanes` lanes.
    pub fn open(cost: PacketCost, lanes: usize) -> Self {
        Self::new(AnyRule::Open(Open::new(cost)), lanes)
    }

    fn new(rule: AnyRule, lanes: usize) -> Self {
        Self { rule, charges: Charges::new(lanes) }
    }

    /// Lets lost bytes be sent again, first those that are nearest to the bytes that their lane
    /// waits for: all of a range, or one packet of it. It returns `Err` if no lost bytes can be
    /// repeated, and new grants may be given.
    fn poll_lost(&mut self, lanes: &[LaneDemand], now: Instant) -> Result<Option<Grant>, NoLoss> {
        let (rule, charges) = (self.rule.as_mut(), &mut self.charges);
        let packet = rule.cost().packet_payload();
        let mut best: Option<(u64, Grant, Bytes)> = None;
        let mut waits = false;
        for (lane, demand) in lanes.iter().enumerate().filter(|(_, demand)| demand.connected) {
            let Some(lost) = demand.lost else { continue };
            let whole = Bytes::new(lost.end - lost.start);
            let distance = lost.start.saturating_sub(demand.received);
            if best.as_ref().is_some_and(|(nearest, ..)| *nearest <= distance) {
                continue;
            }
            for length in [whole, whole.min(packet)] {
                let cost = rule.cost().buffer(length);
                let room = rule.room(charges, LaneIndex::new(lane), cost);
                if room == Room::Free {
                    let end = lost.start + length.count();
                    let grant =
                        Grant { lane: LaneIndex::new(lane), start: lost.start, end, request: lost.request };
                    best = Some((distance, grant, cost));
                    break;
                }
                waits |= room == Room::PortFull && length <= packet;
            }
        }
        match best {
            Some((_, grant, cost)) => Ok(Some(charges.give(grant, cost, now))),
            // What waits for room in the port holds up new grants, or it would wait for ever.
            None if waits => Ok(None),
            None => Err(NoLoss),
        }
    }
}

/// No lost bytes may or need be sent again now.
struct NoLoss;

impl GrantPolicy for Policy {
    fn poll(&mut self, lanes: &[LaneDemand], now: Instant) -> Option<Grant> {
        if lanes.iter().any(|lane| lane.lost.is_some())
            && let Ok(grant) = self.poll_lost(lanes, now)
        {
            return grant;
        }
        self.rule.as_mut().poll(&mut self.charges, lanes, now)
    }

    fn handle_received(&mut self, lane: LaneIndex, received: u64, now: Instant) {
        self.rule.as_mut().handle_received(lane, received);
        self.charges.handle_received(lane, received, now);
    }

    fn handle_accounted(
        &mut self,
        lane: LaneIndex,
        range: Range<u64>,
        request: Request,
        fate: Fate,
        now: Instant,
    ) {
        self.charges.handle_accounted(lane, &range, request, fate, now);
    }

    fn handle_reset(&mut self, lane: LaneIndex, received: u64, now: Instant) {
        self.rule.as_mut().handle_received(lane, received);
        self.rule.as_mut().handle_reset(lane);
        self.charges.handle_gone(lane, now);
    }

    fn handle_gone(&mut self, lane: LaneIndex, now: Instant) {
        self.charges.handle_gone(lane, now);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.charges.handle_timeout(now);
    }

    fn withholding(&self, lanes: &[LaneDemand], now: Instant) -> Option<LaneIndex> {
        match &self.rule {
            AnyRule::Credit(credit) => credit.withholding(&self.charges, lanes, now),
            AnyRule::Window(_) | AnyRule::Open(_) => None,
        }
    }

    fn next_timeout(&self) -> Option<Instant> {
        self.charges.next_timeout()
    }

    fn outstanding(&self) -> Bytes {
        self.charges.outstanding()
    }

    fn counters(&self) -> &GrantCounters {
        &self.charges.counters
    }
}
