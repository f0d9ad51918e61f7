//! The cases: faults of boards, what their boards send, and what evb is to say.

use std::{sync::Arc, time::Duration};

use evb::source::{ClockWrap, CounterStart, DetectorClock, TriggerCounter};
use evb_core::{quantities::counted, rng::Rng};

use crate::{
    detector::{Layout, Readout},
    system::fragment,
};

/// Number of events of a run, and of sources.
pub(super) const EVENTS: u64 = 600;
pub(super) const SOURCES: u16 = 12;
/// The source whose board has the fault, the one whose clock counts time, and one whose cable may
/// be in the wrong place.
pub(super) const FAULTY: u16 = 5;
const LEAD: u16 = 1;
const OTHER: u16 = 6;
/// Clocks of the boards: kilohertz, bits, and the deviation of their rate in parts per million.
const CLOCKS: [(u64, u8, i64); SOURCES as usize] = [
    (250_000, 64, 12),
    (100_000, 32, -40),
    (62_500, 40, 75),
    (40_079, 24, 33),
    (125_000, 48, -90),
    (125_000, 48, 3),
    (125_000, 48, -7),
    (125_000, 48, 60),
    (80_000, 36, -25),
    (10_000, 30, 18),
    (200_000, 56, 88),
    (50_000, 32, -61),
];
/// First event of a fault before builders have learnt the clocks.
const EARLY: u64 = 20;
/// Number of fragments that are left of another run.
const LEFT: u64 = 40;
/// Number of triggers for which a board is silent whose counter of 8 bits then has wrapped.
pub(super) const SILENT: u64 = 300;
/// First value of a counter that may begin anywhere.
const ANYWHERE: u64 = 777;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Fault {
    /// The board misses that many triggers and counts on; if negative, it counts triggers twice.
    Slips(i64),
    /// The board whose clock counts time misses a trigger.
    LeadSlips,
    /// The clock of the board is reset.
    Resets,
    /// The clock of the board leaps ahead.
    Leaps,
    /// The clock of the board stands still.
    Stands,
    /// The clock of the board becomes too fast.
    OtherRate,
    /// The clock of the board has fewer bits than its declaration.
    OtherBits,
    /// The cables of two boards are exchanged.
    Exchanged,
    /// One timestamp is wrong.
    WrongStamp,
    /// Fragments of another run come in place of the right ones.
    Leftovers,
    /// The board sends nothing for that many triggers, and its counter goes on.
    LeavesOut(u64),
    /// The board sends a fragment twice.
    Repeats,
    /// The board sends two different fragments under one number.
    Contradicts,
    /// The trigger counter of the board is reset.
    CounterFalls,
    /// The trigger counter goes from its largest value to 1.
    SkipsZero,
    /// The board sends nothing for longer than its trigger counter takes to wrap.
    LosesWrap,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Triggers {
    Periodic,
    Poisson,
    Spills,
}

/// A fault from an event on, and the process that is killed soon after it.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) fault: Fault,
    pub(super) at: u64,
    pub(super) triggers: Triggers,
    pub(super) builders: u16,
    pub(super) killed: Option<&'static str>,
    /// Every third source is one of the library; this number, below three, says which.
    pub(super) turn: u16,
    /// The trigger counter that the faulty board sends in place of event ids.
    pub(super) counter: Option<TriggerCounter>,
}

impl Triggers {
    /// Returns the times of triggers in nanoseconds, about 200 in a second. The first one is that
    /// of event 0, which does not exist.
    fn times(self, seed: u64) -> Vec<u64> {
        let mut rng = Rng::new(seed);
        let mut now = 0;
        let interval = |number: u64, rng: &mut Rng| match self {
            Self::Periodic => 5_000_000,
            // So far apart that a fragment of the next event never agrees by chance.
            Self::Poisson => (5e6 * rng.exponential()) as u64 + 20_000,
            Self::Spills if number.is_multiple_of(100) => 300_000_000,
            Self::Spills => 1_000_000 + rng.below(2_000_000),
        };
        let mut times = vec![0];
        for number in 1..=EVENTS + 1 {
            now += interval(number, &mut rng);
            times.push(now);
        }
        times
    }
}

/// Returns the reading of a board's clock; boards begin at different times and have jitter.
fn reading(source: u16, nanos: u64) -> u64 {
    let (kilohertz, bits, deviation) = CLOCKS[usize::from(source) - 1];
    let jitter = (nanos / 1000 * u64::from(source) * 7919) % 9;
    let rate = u128::from(kilohertz) * u128::from(1_000_000u64.strict_add_signed(deviation));
    let ticks = u128::from(nanos + jitter) * rate / 1_000_000_000_000;
    (ticks as u64 + u64::from(source) * 1_000_000_007) & (u64::MAX >> (64 - bits))
}

/// Returns the clock of a source as a program declares it.
fn clock(source: u16) -> DetectorClock {
    let (kilohertz, bits, _) = CLOCKS[usize::from(source) - 1];
    DetectorClock::new(format!("{kilohertz} kHz").parse().unwrap(), ClockWrap::Bits(bits))
}

/// Returns the fragment of a trigger under a number.
fn fragment_of(source: u16, run: u64, trigger: u64, number: u64, stamp: u64) -> Vec<u8> {
    let mut bytes = fragment(source, run, trigger);
    bytes[4..12].copy_from_slice(&number.to_le_bytes());
    bytes[12..20].copy_from_slice(&stamp.to_le_bytes());
    bytes
}

impl Case {
    pub(super) fn all() -> Vec<Self> {
        let all_triggers = [Triggers::Periodic, Triggers::Poisson, Triggers::Spills];
        let mut all = Vec::new();
        let mut add = |fault, at, triggers, killed: Option<&'static str>| {
            let (builders, mut turn) = (if all.len() % 2 == 0 { 2 } else { 4 }, (all.len() % 3) as u16);
            // No process can be killed that hosts a source of the library.
            if killed == Some("sources 4") && turn == 1 {
                turn = 2;
            }
            let counter = counter(fault, at, all.len());
            all.push(Self { fault, at, triggers, builders, killed, turn, counter });
        };
        for triggers in all_triggers {
            for fault in [Fault::Slips(1), Fault::Slips(-1), Fault::Resets, Fault::Leftovers] {
                for at in [EARLY, 150, 330, EVENTS - 15, EVENTS] {
                    add(fault, at, triggers, None);
                }
            }
            for fault in [Fault::Slips(2), Fault::Slips(-5), Fault::LeadSlips] {
                add(fault, 150, triggers, None);
            }
            for fault in [Fault::Leaps, Fault::Stands, Fault::OtherRate, Fault::Exchanged, Fault::WrongStamp]
            {
                add(fault, 330, triggers, None);
            }
            add(Fault::OtherBits, 1, triggers, None);
        }
        for killed in ["builder:2", "sources 4", "supervisor"] {
            for triggers in [Triggers::Poisson, Triggers::Poisson, Triggers::Periodic, Triggers::Spills] {
                add(Fault::Slips(1), 330, triggers, Some(killed));
            }
        }
        for fault in [
            Fault::LeavesOut(3),
            Fault::Repeats,
            Fault::Contradicts,
            Fault::CounterFalls,
            Fault::SkipsZero,
            Fault::LosesWrap,
        ] {
            for (at, triggers) in [150, 330, EVENTS - 15, EVENTS].into_iter().zip(all_triggers.iter().cycle())
            {
                if fault != Fault::LosesWrap || at > SILENT {
                    add(fault, at, *triggers, None);
                }
            }
        }
        all
    }

    /// Returns the sources whose boards have the fault.
    pub(super) fn faulty(&self) -> &'static [u16] {
        match self.fault {
            Fault::LeadSlips => &[LEAD],
            Fault::Exchanged => &[FAULTY, OTHER],
            _ => &[FAULTY],
        }
    }

    /// Returns true if enough events follow the fault to name it.
    pub(super) fn can_be_named(&self) -> bool {
        self.at + 100 < EVENTS
    }

    /// Returns true if builders know the rates of the clocks before the fault. Until then, what
    /// they believe of a fragment is a guess.
    pub(super) fn is_learnt(&self) -> bool {
        self.at > EARLY
    }

    /// Returns true if it may stay unclear what happened, because foreign fragments come while
    /// builders learn the clocks.
    pub(super) fn may_be_unclear(&self) -> bool {
        !self.is_learnt() && self.fault == Fault::Leftovers
    }

    /// Returns by how many events the fragments of the faulty board are shifted.
    pub(super) fn shift(&self) -> Option<i64> {
        match self.fault {
            Fault::Slips(shift) => Some(shift),
            Fault::LeadSlips => Some(1),
            Fault::SkipsZero => Some(-1),
            _ => None,
        }
    }

    /// Returns the first event with a fragment of another trigger.
    pub(super) fn since(&self) -> u64 {
        // The event whose value was left out has no fragment.
        self.at + u64::from(self.fault == Fault::SkipsZero)
    }

    /// Returns the word for what happens to the clock, if it is known soon after the fault, and if
    /// the first event of it is known.
    pub(super) fn kind(&self) -> Option<&'static str> {
        match self.fault {
            Fault::Slips(_) | Fault::LeadSlips | Fault::SkipsZero => self.can_be_named().then_some("slip"),
            Fault::Leaps => Some("clock jump"),
            Fault::Resets => self.can_be_named().then_some("clock jump"),
            Fault::Stands => Some("stuck"),
            Fault::OtherRate => Some("other rate"),
            Fault::OtherBits => Some("other bits"),
            Fault::Exchanged => Some("exchanged"),
            Fault::WrongStamp => Some("single timestamps"),
            _ => None,
        }
    }

    /// Returns what evb counts at the faulty source because of its trigger counter: the key of the
    /// summary, the metric, and the number.
    pub(super) fn counted(&self) -> Vec<(&'static str, &'static str, u64)> {
        let rest = EVENTS + 1 - self.at;
        match self.fault {
            Fault::LeavesOut(count) if self.at + count <= EVENTS => vec![
                ("counter_gaps", "numbering_gaps_total{source=\"5\"}", 1),
                ("counter_skipped", "numbering_skipped_total{source=\"5\"}", count),
            ],
            Fault::Repeats => vec![("repeats", "unused_fragments_total{source=\"5\",why=\"repeated\"}", 1)],
            Fault::Contradicts => {
                vec![("contradictions", "unused_fragments_total{source=\"5\",why=\"contradicting\"}", 1)]
            }
            Fault::CounterFalls => vec![
                ("counter_resets", "numbering_resets_total{source=\"5\"}", 1),
                ("unplaced", "unused_fragments_total{source=\"5\",why=\"counter reset\"}", rest),
            ],
            Fault::SkipsZero => vec![
                ("counter_gaps", "numbering_gaps_total{source=\"5\"}", 1),
                ("counter_skipped", "numbering_skipped_total{source=\"5\"}", 1),
                ("counter_zero_skips", "numbering_zero_skips_total{source=\"5\"}", 1),
            ],
            Fault::LosesWrap => {
                vec![("lost_wraps", "unused_fragments_total{source=\"5\",why=\"counter wrapped\"}", rest)]
            }
            _ => Vec::new(),
        }
    }

    /// Returns a part of what the report says about the trigger counter, and whether this is a
    /// problem; `None` if it says nothing.
    pub(super) fn report_on_counter(&self) -> Option<(&'static str, bool)> {
        match self.fault {
            Fault::LeavesOut(_) if self.at == EVENTS => Some(("none for the last event", true)),
            Fault::LeavesOut(_) => Some(("left out 3 numbers in 1 gap", false)),
            Fault::Repeats => Some(("repeated 1 fragment", false)),
            Fault::Contradicts => Some(("sent 1 fragment with an event id that it had given to", true)),
            Fault::CounterFalls => Some(("because the trigger counter of its boards fell", true)),
            Fault::SkipsZero => Some(("left out 0 as it wrapped (1 time)", true)),
            Fault::LosesWrap => Some(("because the trigger counter of its boards may have wrapped", true)),
            _ => None,
        }
    }

    /// Returns a part of the problem in the status that comes from the trigger counter.
    pub(super) fn problem_of_counter(&self) -> Option<String> {
        match self.fault {
            Fault::Contradicts => Some("two different fragments for 1 event".to_owned()),
            Fault::CounterFalls | Fault::LosesWrap => {
                let count = EVENTS + 1 - self.at;
                Some(format!("its trigger counter gives {} no event", counted(count, "fragment")))
            }
            _ => None,
        }
    }

    /// Returns what the board of a source sends for an event: its trigger, and its timestamp.
    fn sends(&self, source: u16, event: u64, times: &[u64], other: &[u64]) -> Option<Vec<u8>> {
        if let Some(counter) = self.counter.filter(|_| source == FAULTY) {
            return self.sends_counted(counter, event, reading(source, times[event as usize]));
        }
        let (mut from, mut run, mut trigger, mut stamp) = (source, 1, event, None);
        if self.faulty().contains(&source) && event >= self.at {
            let (time, begun) = (times[event as usize], times[self.at as usize - 1]);
            match self.fault {
                Fault::Slips(shift) => trigger = event.strict_add_signed(shift),
                Fault::LeadSlips => trigger += 1,
                Fault::Resets => stamp = Some(reading(source, time - begun)),
                Fault::Leaps => stamp = Some(reading(source, time + 3_141_592_653)),
                Fault::Stands => stamp = Some(reading(source, begun)),
                Fault::OtherRate => stamp = Some(reading(source, time + (time - begun) / 1000)),
                Fault::OtherBits => stamp = Some(reading(source, time) & 0x3ff_ffff),
                Fault::Exchanged => {
                    from = FAULTY + OTHER - source;
                    stamp = Some(reading(from, time));
                }
                Fault::WrongStamp if event == self.at => stamp = Some(reading(source, time + 123_456_789)),
                Fault::Leftovers if event < self.at + LEFT => {
                    run = 2;
                    stamp = Some(reading(source, 77_000_000_000 + other[event as usize]));
                }
                _ => {}
            }
        }
        if trigger > EVENTS {
            return None;
        }
        let stamp = stamp.unwrap_or_else(|| reading(source, times[trigger as usize]));
        Some(fragment_of(from, run, trigger, event, stamp))
    }

    /// Returns what the faulty board sends for a trigger under a value of its counter.
    fn sends_counted(&self, counter: TriggerCounter, trigger: u64, stamp: u64) -> Option<Vec<u8>> {
        let first = match counter.first {
            CounterStart::At(first) => first,
            CounterStart::Any => ANYWHERE,
        };
        let (mut value, is_over) = (first + trigger - 1, trigger >= self.at);
        match self.fault {
            Fault::LeavesOut(count) if (self.at..self.at + count).contains(&trigger) => return None,
            Fault::LosesWrap if (self.at - SILENT..self.at).contains(&trigger) => return None,
            Fault::CounterFalls if is_over => value = first + trigger - self.at,
            Fault::SkipsZero if is_over => value += 1,
            _ => {}
        }
        let value = value & (u64::MAX >> (64 - counter.bits));
        let of = |trigger| fragment_of(FAULTY, 1, trigger, value, stamp);
        let again = match self.fault {
            Fault::Repeats if trigger == self.at => of(trigger),
            Fault::Contradicts if trigger == self.at => of(trigger - 1),
            _ => Vec::new(),
        };
        Some([of(trigger), again].concat())
    }

    /// Returns a detector with this case. A run that is stopped goes on behind the last trigger.
    pub(super) fn layout(&self, seed: u64, on_slip: &'static str, is_stopped: bool) -> Layout {
        let times = Arc::new(self.triggers.times(seed));
        let other = self.triggers.times(seed + 1);
        let (due, case) = (times.clone(), self.clone());
        let counter_of = |source| self.counter.filter(|_| source == FAULTY);
        let readout = |source: u16| match (source + self.turn) % 3 {
            0 => Readout::Library(Some(clock(source)), counter_of(source)),
            _ => Readout::Tcp,
        };
        let keys = |source: u16| {
            let (kilohertz, bits, _) = CLOCKS[usize::from(source) - 1];
            let counter = counter_of(source).map(counter_key).unwrap_or_default();
            (source, format!("clock = {{ rate = \"{kilohertz} kHz\", bits = {bits} }}\n{counter}"))
        };
        Layout {
            sources: SOURCES,
            together: 1,
            builders: self.builders,
            // All events may wait for a silent board.
            slots: 512,
            readouts: (1..=SOURCES).map(readout).collect(),
            run: if is_stopped { String::new() } else { format!("events = {EVENTS}") },
            supervisor: "deadline = \"2 s\"",
            keys: (1..=SOURCES).map(keys).collect(),
            sections: on_slip.to_owned(),
            due: Arc::new(move |number| match due.get(number as usize) {
                Some(nanos) if number <= EVENTS => Duration::from_nanos(*nanos),
                _ if is_stopped => Duration::MAX,
                // Later announcements make up for those that were lost while the supervisor was
                // dead.
                _ => Duration::from_nanos(due[due.len() - 1] + 5_000_000 * (number - EVENTS)),
            }),
            sent: Arc::new(move |source, event| {
                (event <= EVENTS).then(|| case.sends(source, event, &times, &other)).flatten()
            }),
        }
    }
}

/// Returns the trigger counter of a board with a fault; `None` if it sends event ids. The number of
/// the case chooses its bits and its begin.
fn counter(fault: Fault, at: u64, number: usize) -> Option<TriggerCounter> {
    let bits = match fault {
        Fault::LosesWrap => 8,
        Fault::SkipsZero => 16,
        Fault::LeavesOut(_) | Fault::Repeats | Fault::Contradicts | Fault::CounterFalls => {
            [16, 24, 32][number % 3]
        }
        _ => return None,
    };
    let first = match number % 4 {
        _ if fault == Fault::SkipsZero => CounterStart::At((1 << bits) + 1 - at),
        0 => CounterStart::At(0),
        1 => CounterStart::At(1),
        2 => CounterStart::At(u64::from(u16::MAX) & (u64::MAX >> (64 - bits))),
        _ => CounterStart::Any,
    };
    Some(TriggerCounter { first, ..TriggerCounter::new(bits) })
}

/// Returns the key of a counter in a configuration.
fn counter_key(counter: TriggerCounter) -> String {
    let first = match counter.first {
        CounterStart::At(first) => first.to_string(),
        CounterStart::Any => "\"any\"".to_owned(),
    };
    format!("counter = {{ bits = {}, first = {first} }}", counter.bits)
}
