//! The planted faults of the study, and the verdict that each of them must get.

use evb_core::{alignment::Explanation, index::ClockIndex};

/// A fault of a board. Shifts are in events, and positive if the board missed triggers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Fault {
    Slip(i64),
    /// One spurious trigger, and one event late from then on.
    Doubled,
    /// The lead slips.
    LeadSlip(i64),
    /// Two of the five boards slip.
    TwoSlip(i64),
    /// A slip since before event 1.
    StartSlip(i64),
    /// A slip in a pause of 10 s.
    PauseSlip(i64),
    /// A slip that heals after that many events.
    SlipForAWhile(i64, u64),
    /// The clock starts at zero again.
    Reset,
    /// The clock leaps by that part of the mean interval.
    Jump(f64),
    LeadReset,
    /// The clock has fewer bits than declared.
    Bits(u8),
    /// The timestamps of two neighbouring events are exchanged.
    Swapped,
    /// One bit of one timestamp is wrong.
    Corrupt,
    /// That many fragments of another run come first.
    Leftover(u64),
    /// Two boards are exchanged.
    Exchanged,
    /// The rate is wrong by that many parts per million.
    Rate(f64),
    /// All timestamps are the same.
    Stuck,
    /// The jitter grows to that many nanoseconds.
    Noise(f64),
}

/// Name of each fault of the study, in the order of its tables.
pub(super) const FAULTS: [(&str, Fault); 23] = [
    ("slip +1", Fault::Slip(1)),
    ("slip −1", Fault::Slip(-1)),
    ("slip +2", Fault::Slip(2)),
    ("slip −5", Fault::Slip(-5)),
    ("slip +16", Fault::Slip(16)),
    ("doubled trigger", Fault::Doubled),
    ("lead slips +1", Fault::LeadSlip(1)),
    ("two of five slip +1", Fault::TwoSlip(1)),
    ("slip +1 for 40 events", Fault::SlipForAWhile(1, 40)),
    ("slip +1 before event 1", Fault::StartSlip(1)),
    ("slip +2 before event 1", Fault::StartSlip(2)),
    ("slip +1 in a pause", Fault::PauseSlip(1)),
    ("clock reset", Fault::Reset),
    ("clock jump", Fault::Jump(0.37)),
    ("lead's clock reset", Fault::LeadReset),
    ("20 bits", Fault::Bits(20)),
    ("swapped pair", Fault::Swapped),
    ("corrupt timestamp", Fault::Corrupt),
    ("40 leftover fragments", Fault::Leftover(40)),
    ("boards exchanged", Fault::Exchanged),
    ("rate +800 ppm", Fault::Rate(800.0)),
    ("clock stuck", Fault::Stuck),
    ("jitter of 2 µs", Fault::Noise(2e3)),
];

impl Fault {
    /// Returns true if the fault is there from the first event on.
    pub(super) fn is_from_start(self) -> bool {
        matches!(self, Self::StartSlip(_) | Self::Rate(_))
    }
}

/// A fault, and where it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Planted {
    pub(super) fault: Fault,
    /// The faulty board; the second one of two is the next.
    pub(super) board: usize,
    /// The first faulty event.
    pub(super) at: u64,
}

impl Planted {
    /// Returns true if the fault changes the fragment of that board in that event.
    pub(super) fn concerns(&self, board: usize, event: u64) -> bool {
        let (is_board, is_next) = (board == self.board, board == self.board + 1);
        let since = event.checked_sub(self.at);
        match self.fault {
            Fault::StartSlip(_) => is_board,
            Fault::LeadSlip(_) | Fault::LeadReset => board == 0 && since.is_some(),
            Fault::TwoSlip(_) | Fault::Exchanged => (is_board || is_next) && since.is_some(),
            Fault::SlipForAWhile(_, count) | Fault::Leftover(count) => {
                is_board && since.is_some_and(|since| since < count)
            }
            Fault::Swapped => is_board && since.is_some_and(|since| since < 2),
            Fault::Corrupt => is_board && since == Some(0),
            _ => is_board && since.is_some(),
        }
    }

    /// Returns true if the fragments of that board deserve a flag.
    pub(super) fn blames(&self, board: usize) -> bool {
        match self.fault {
            Fault::LeadSlip(_) | Fault::LeadReset => board == 0,
            Fault::TwoSlip(_) | Fault::Exchanged => board == self.board || board == self.board + 1,
            _ => board == self.board,
        }
    }

    /// Returns true if a verdict names board and fault.
    pub(super) fn deserves(&self, clock: ClockIndex, verdict: Explanation) -> bool {
        let names_it = match (self.fault, verdict) {
            (
                Fault::Slip(wanted)
                | Fault::StartSlip(wanted)
                | Fault::PauseSlip(wanted)
                | Fault::LeadSlip(wanted)
                | Fault::TwoSlip(wanted)
                | Fault::SlipForAWhile(wanted, _),
                Explanation::Slip { shift, .. },
            ) => shift == wanted,
            (Fault::Doubled, Explanation::Slip { shift, .. }) => shift == -1,
            (Fault::Bits(wanted), Explanation::OtherBits(bits)) => bits == u32::from(wanted),
            (Fault::Exchanged, Explanation::ExchangedWith(other)) => {
                other.get() != clock.get() && self.blames(other.get())
            }
            (Fault::Rate(wanted), Explanation::OtherRate { ppm }) => (ppm - wanted).abs() < 350.0,
            (Fault::Reset | Fault::LeadReset | Fault::Jump(_), Explanation::ClockJump { .. })
            | (Fault::Swapped, Explanation::SwappedPair)
            | (Fault::Corrupt, Explanation::SingleStamps)
            | (Fault::Leftover(_), Explanation::Foreign)
            | (Fault::Stuck, Explanation::Stuck)
            | (Fault::Noise(_), Explanation::SingleStamps | Explanation::Unclear | Explanation::Foreign) => {
                true
            }
            _ => false,
        };
        names_it && self.blames(clock.get())
    }
}
