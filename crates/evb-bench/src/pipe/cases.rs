//! The cases of the study.

use std::{fmt, str::FromStr, time::Duration};

use evb_core::units::{Bytes, Rate};
use evb_net::pacing::{Executor, Software, Txtime};
use evb_shaper::{
    ByteMeasure, Clusters, Pace,
    cost::{CELL, PacketCost},
};
use evb_sim::{Departures, KeptPace, LongPipe};

use super::{MTU, PipeArguments};

/// Part of the rate that other traffic leaves free to which paces are set.
const PACED: f64 = 0.95;

/// An executor of evb's paces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keeper {
    /// A timer of the operating system, which wakes the sender for trains of a millisecond.
    Timerfd,
    /// A spinning thread, which sends single packets.
    Spin,
    /// The kernel's `fq`, to which packets carry their departure times.
    Txtime,
}

/// The part that a case has in the study.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The host whose link is faster than the path.
    Fast,
    /// The host whose link is the slowest of the path.
    Equal,
    /// The fast host with longer gaps, of this many bytes.
    Gap(u64),
    /// The fast host with clustered packet spacing.
    Clusters,
    /// The fast host with a pace.
    Pace {
        /// True if the executor sends packets in trains.
        sends_trains: bool,
    },
}

/// A case: a flow that is simulated several times.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) name: String,
    pub(super) kind: Kind,
    pub(super) pipe: LongPipe,
}

impl Keeper {
    const ALL: [Self; 3] = [Self::Timerfd, Self::Spin, Self::Txtime];

    fn word(self) -> &'static str {
        match self {
            Self::Timerfd => "timerfd",
            Self::Spin => "spin",
            Self::Txtime => "txtime",
        }
    }

    /// Returns the spacing of the executor's trains and its precision, as evb assumes them before
    /// it has measured them.
    fn times(self) -> (Duration, Duration) {
        let of = |executor: &dyn Executor| (executor.spacing(), executor.precision());
        match self {
            Self::Timerfd => of(&Software::timer()),
            Self::Spin => of(&Software::spinning()),
            Self::Txtime => of(&Txtime),
        }
    }
}

impl FromStr for Keeper {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|keeper| keeper.word() == text.trim());
        known.ok_or_else(|| format!("`{text}` is none of timerfd, spin, txtime"))
    }
}

impl fmt::Display for Keeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// Returns all cases, in the order of the table.
pub(super) fn cases(arguments: &PipeArguments) -> Vec<Case> {
    let fast = pipe(arguments, arguments.fast_rate);
    let equal = pipe(arguments, arguments.equal_rate);
    let mut cases = Vec::new();
    for queue in &arguments.transmit_queues {
        for (name, kind, pipe) in [("fast host", Kind::Fast, &fast), ("equal-rate host", Kind::Equal, &equal)]
        {
            let pipe = LongPipe { transmit_queue: *queue, ..pipe.clone() };
            cases.push(Case { name: name.to_owned(), kind, pipe });
        }
    }
    let longest = arguments.transmit_queues.iter().copied().max().unwrap_or_default();
    let mut remedy = |name: String, kind, departures| {
        cases.push(Case {
            name,
            kind,
            pipe: LongPipe { transmit_queue: longest, departures, ..fast.clone() },
        });
    };
    for gap in &arguments.gaps {
        remedy(format!("gap {gap} B"), Kind::Gap(*gap), Departures::Gap(Bytes::new(*gap)));
    }
    for precision in &arguments.clusters {
        remedy(format!("clusters {precision:?}"), Kind::Clusters, Departures::Spaced(*precision));
    }
    for keeper in &arguments.executors {
        let kept = pace(arguments, *keeper);
        let sends_trains = Clusters::of(&kept.pace, kept.spacing, &PacketCost::tcp(MTU, CELL)).packets > 1;
        remedy(format!("pace by {keeper}"), Kind::Pace { sends_trains }, Departures::Paced(kept));
    }
    cases
}

fn pipe(arguments: &PipeArguments, host_rate: Rate) -> LongPipe {
    LongPipe {
        host_rate,
        bottleneck: arguments.bottleneck,
        round_trip: arguments.rtt,
        router_buffer: arguments.router_buffer,
        transmit_queue: 0,
        window: arguments.window(),
        begins_at_once: false,
        departures: Departures::Unpaced,
        cross_load: arguments.cross_load,
        mtu: MTU,
        span: arguments.span(),
        seed: arguments.seed,
    }
}

/// Returns the pace of the paced cases.
pub(super) fn pace_rate(arguments: &PipeArguments) -> Rate {
    let free = arguments.bottleneck.bits_per_second() as f64 * (1.0 - arguments.cross_load);
    Rate::from_bits_per_second((free * PACED) as u64)
}

fn pace(arguments: &PipeArguments, keeper: Keeper) -> KeptPace {
    let (spacing, precision) = keeper.times();
    let cost = PacketCost::tcp(MTU, CELL);
    let share = Some(arguments.router_buffer);
    KeptPace { pace: Pace::usual(pace_rate(arguments), ByteMeasure::Line, &cost, share), spacing, precision }
}

/// Returns the two flows whose longest queue shows the buffer that the fast host needs: one that
/// begins with a slow start, and one that begins with its whole window, both alone on the path.
pub(super) fn needs(arguments: &PipeArguments) -> [LongPipe; 2] {
    let alone = LongPipe {
        router_buffer: Bytes::new(u64::MAX / 2),
        transmit_queue: usize::MAX / 2,
        cross_load: 0.0,
        span: (arguments.rtt * 30).min(arguments.span()),
        ..pipe(arguments, arguments.fast_rate)
    };
    [alone.clone(), LongPipe { begins_at_once: true, ..alone }]
}
