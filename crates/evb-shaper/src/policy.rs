//! The configuration `shaping.mode`, and the grant policy that follows from it.

use core::{ops::Range, time::Duration};

use evb_core::{
    grant::{Fate, Grant, GrantCounters, GrantPolicy, LaneDemand},
    index::LaneIndex,
    lane::Request,
    set::LaneSet,
    time::Instant,
    units::{Bytes, Rate},
};

use crate::{
    budget::BudgetGroup,
    charges::{Charges, Room, Rule},
    cost::PacketCost,
    credit::{Credit, CreditConfig},
    open::Open,
    pace::Pace,
    queue::keep,
    window::Window,
};

/// The configured shaping of the traffic in a run.
///
/// ```
/// use evb_core::units::{Bytes, Rate};
/// use evb_shaper::{
///     Shaping,
///     cost::{CELL, PacketCost},
/// };
///
/// // The builders' ports have 10 Gbit/s and 512 KiB, and there are 8 sources.
/// let (cost, port) =
///     (PacketCost::tcp(1500, CELL), Rate::from_bits_per_second(10_000_000_000));
/// let shaping = Shaping::credit_for(Bytes::kib(512), Some(port), 8, &cost);
/// assert!(shaping.budget() < Some(Bytes::kib(512)), "room is left for announcements");
/// assert_eq!(Shaping::Window { window: Bytes::kib(32) }.budget(), None);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shaping {
    /// Each builder grants within a byte budget for its switch port.
    Credit {
        /// The largest number of buffer bytes that may be under way to one builder.
        budget: Bytes,
        /// Limits for groups of the builder's lanes, in addition to the budget.
        groups: Vec<BudgetGroup>,
        /// Lane bytes of one turn, the amount that a lane is granted at a time.
        chunk: Bytes,
        /// Number of sources that may have their turn at the same time; with `None`, as many as the
        /// budget permits.
        sources_at_once: Option<usize>,
    },
    /// Each lane may have a fixed number of bytes under way.
    Window {
        /// The window of each lane, in lane bytes.
        window: Bytes,
    },
    /// Sources send on each lane at the given pace.
    TokenBucket(Pace),
    /// No limit: builders grant all announced bytes at once, and sources send them as soon as they
    /// can.
    None,
}

impl Shaping {
    /// Credit if no port buffer is configured: a budget of megabytes, which suits the loopback
    /// interface and a single machine.
    pub const LOOPBACK: Self = Self::Credit {
        budget: Bytes::mib(8),
        groups: Vec::new(),
        chunk: Bytes::kib(256),
        sources_at_once: None,
    };

    /// Returns credit for a switch port with the given buffer, rate (if known) and number of lanes.
    /// The budget is [`PacketCost::budget`], the chunk [`PacketCost::chunk`].
    pub fn credit_for(port_buffer: Bytes, link: Option<Rate>, lanes: u64, cost: &PacketCost) -> Self {
        let budget = cost.budget(port_buffer, link, lanes);
        Self::Credit { budget, groups: Vec::new(), chunk: cost.chunk(budget, link), sources_at_once: None }
    }

    /// Returns the grant policy of a builder. `offset` must differ between builders, so that they
    /// do not all ask the same source first.
    pub fn policy(&self, lanes: usize, cost: PacketCost, offset: usize) -> Policy {
        match self {
            Self::Credit { budget, groups, chunk, sources_at_once } => {
                let config = CreditConfig {
                    budget: *budget,
                    groups: groups.clone(),
                    chunk: *chunk,
                    sources_at_once: *sources_at_once,
                    offset,
                    cost,
                };
                Policy::credit(config, lanes)
            }
            Self::Window { window } => Policy::window(*window, cost, lanes),
            Self::TokenBucket(_) | Self::None => Policy::open(cost, lanes),
        }
    }

    /// Returns the bytes that all sources together may have under way to one builder; `None` in the
    /// modes that do not limit their sum.
    pub const fn budget(&self) -> Option<Bytes> {
        match *self {
            Self::Credit { budget, .. } => Some(budget),
            Self::Window { .. } | Self::TokenBucket(_) | Self::None => None,
        }
    }

    /// Returns the pace that the mode gives to every lane of a source; `None` in the modes without
    /// paces. In any mode, a source may have other paces in addition.
    pub fn pace(&self) -> Option<Pace> {
        match *self {
            Self::TokenBucket(pace) => Some(pace),
            Self::Credit { .. } | Self::Window { .. } | Self::None => None,
        }
    }

    /// Returns the longest time that data may wait in queues on the way to a builder. The builder's
    /// port may be full, and each of the `builders` may just have requested as much from the same
    /// source as it requests at once. No timer may declare data lost earlier.
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

/// A grant policy: a rule that selects the next grant, and the account of granted bytes that have
/// not arrived.
#[derive(Debug)]
pub struct Policy {
    rule: AnyRule,
    charges: Charges,
    /// Lanes with lost bytes that can be requested again.
    lost: LaneSet,
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
    /// Creates a [`Credit`] policy for `lanes` lanes.
    pub fn credit(config: CreditConfig, lanes: usize) -> Self {
        Self::new(AnyRule::Credit(Credit::new(config, lanes)), lanes)
    }

    /// Creates a [`Window`] policy for `lanes` lanes, each with a window of `window` lane bytes.
    pub fn window(window: Bytes, cost: PacketCost, lanes: usize) -> Self {
        Self::new(AnyRule::Window(Window::new(window, cost)), lanes)
    }

    /// Creates an [`Open`] policy for `lanes` lanes.
    pub fn open(cost: PacketCost, lanes: usize) -> Self {
        Self::new(AnyRule::Open(Open::new(cost)), lanes)
    }

    fn new(rule: AnyRule, lanes: usize) -> Self {
        let mut charges = Charges::new(lanes);
        if let AnyRule::Credit(credit) = &rule {
            credit.groups().for_each(|lanes| charges.add_group(lanes));
        }
        Self { rule, charges, lost: LaneSet::default() }
    }

    /// Grants the retransmission of lost bytes: of a whole lost range, or of one packet if there is
    /// no room for more. The lost range that is closest to the next byte its lane waits for comes
    /// first. Returns `Ok(None)` if lost bytes wait for room in the port, and `Err` if no lost
    /// bytes can be sent and new grants may be given.
    fn poll_lost(&mut self, lanes: &[LaneDemand], now: Instant) -> Result<Option<Grant>, NoLoss> {
        let (rule, charges) = (self.rule.as_mut(), &mut self.charges);
        let packet = rule.cost().packet_payload();
        let mut best: Option<(u64, Grant, Bytes)> = None;
        let mut waits = false;
        for lane in self.lost.iter() {
            let demand = &lanes[lane];
            let Some(lost) = demand.lost.filter(|_| demand.connected) else { continue };
            let whole = Bytes::new(lost.end - lost.start);
            let distance = lost.start.saturating_sub(demand.received);
            if best.as_ref().is_some_and(|(nearest, ..)| *nearest <= distance) {
                continue;
            }
            for length in [whole, whole.min(packet)] {
                let cost = rule.cost().buffer(length);
                let room = rule.room(charges, lane, cost);
                if room == Room::Free {
                    let end = lost.start + length.count();
                    let grant = Grant { lane, start: lost.start, end, request: lost.request };
                    best = Some((distance, grant, cost));
                    break;
                }
                waits |= room == Room::Full && length <= packet;
            }
        }
        match best {
            Some((_, grant, cost)) => Ok(Some(charges.give(grant, cost, now))),
            // While lost bytes wait for room in the port, no new grant is given: new grants could
            // take the room again and again.
            None if waits => Ok(None),
            None => Err(NoLoss),
        }
    }
}

/// Answer of [`Policy::poll_lost`] if there are no lost bytes that may be sent again now.
struct NoLoss;

impl GrantPolicy for Policy {
    /// Grants lost bytes first, then new ones by the rule of the mode.
    fn poll(&mut self, lanes: &[LaneDemand], now: Instant) -> Option<Grant> {
        if !self.lost.is_empty()
            && let Ok(grant) = self.poll_lost(lanes, now)
        {
            return grant;
        }
        self.rule.as_mut().poll(&mut self.charges, lanes, now)
    }

    fn handle_demand(&mut self, lane: LaneIndex, demand: &LaneDemand) {
        self.rule.as_mut().handle_demand(lane, demand);
        keep(&mut self.lost, lane, demand.lost.is_some());
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
