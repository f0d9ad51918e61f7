//! The simulated experiment: true triggers, every board's reading of each, and a planted fault that
//! changes what a board sends under an event's number.

use evb_core::{rng::Rng, time::Instant};

use super::{
    boards::{Board, Oscillator},
    fault::{Fault, Planted},
    triggers::{Pattern, Triggers},
};

/// Number of events whose readings are kept, so that fragments can carry other events' times.
const KEPT: u64 = 2048;
/// Jitter of the trigger's time on the host, in nanoseconds.
const HOST_JITTER: f64 = 1e6;

pub(super) struct World {
    boards: Vec<Board>,
    oscillators: Vec<Oscillator>,
    triggers: Triggers,
    pattern: Pattern,
    pub(super) rng: Rng,
    seconds: f64,
    /// Time within the second.
    nanos: f64,
    made: u64,
    readings: Vec<[u64; KEPT as usize]>,
    hosts: Vec<Instant>,
    planted: Option<Planted>,
    /// Reading of the faulty board at the first faulty event.
    frozen: u64,
    /// Timestamps of another run.
    foreign: Vec<u64>,
}

impl World {
    pub(super) fn new(boards: &[Board], pattern: Pattern, seed: u64, planted: Option<Planted>) -> Self {
        let mut rng = Rng::new(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let wrong = |board: usize| match planted {
            Some(Planted { fault: Fault::Rate(ppm), board: faulty, .. }) if faulty == board => ppm,
            _ => 0.0,
        };
        let oscillators = boards.iter().enumerate();
        let oscillators =
            oscillators.map(|(index, board)| Oscillator::new(*board, wrong(index), &mut rng)).collect();
        Self {
            boards: boards.to_vec(),
            oscillators,
            triggers: Triggers::new(pattern),
            pattern,
            rng,
            seconds: 0.0,
            nanos: 0.0,
            made: 0,
            readings: vec![[0; KEPT as usize]; boards.len()],
            hosts: vec![Instant::ZERO; KEPT as usize],
            planted,
            frozen: 0,
            foreign: Vec::new(),
        }
    }

    /// Makes the next trigger, and every board's reading of it.
    pub(super) fn make(&mut self) {
        self.made += 1;
        let mut interval = self.triggers.next(&mut self.rng);
        if let Some(Planted { fault: Fault::PauseSlip(_), at, .. }) = self.planted
            && self.made == at
        {
            interval += 1e10;
        }
        self.nanos += interval;
        while self.nanos >= 1e9 {
            self.nanos -= 1e9;
            self.seconds += 1.0;
        }
        let slot = (self.made % KEPT) as usize;
        let late = self.rng.uniform() * HOST_JITTER;
        let host = (self.seconds as u64) * 1_000_000_000 + (self.nanos + late) as u64;
        self.hosts[slot] = Instant::from_nanos(host);
        let now = self.seconds + self.nanos * 1e-9;
        for (index, oscillator) in self.oscillators.iter_mut().enumerate() {
            let jitter = match self.planted {
                Some(Planted { fault: Fault::Noise(nanos), board, at })
                    if board == index && self.made >= at =>
                {
                    nanos
                }
                _ => self.boards[index].jitter,
            };
            self.readings[index][slot] = oscillator.read(now, interval, jitter, &mut self.rng);
        }
    }

    pub(super) fn host(&self, event: u64) -> Instant {
        self.hosts[(event % KEPT) as usize]
    }

    /// Returns a healthy board's timestamp of an event.
    pub(super) fn healthy(&self, board: usize, event: u64) -> u64 {
        self.boards[board].cut(self.raw(board, event))
    }

    fn raw(&self, board: usize, event: u64) -> u64 {
        self.readings[board][(event % KEPT) as usize]
    }

    fn shifted(&self, board: usize, event: u64, shift: i64) -> u64 {
        self.raw(board, event.saturating_add_signed(shift).max(1))
    }

    /// Returns the timestamp that a board sends under an event's number.
    pub(super) fn sent(&mut self, board: usize, event: u64) -> u64 {
        let Some(planted) = self.planted.filter(|planted| planted.concerns(board, event)) else {
            return self.healthy(board, event);
        };
        let (raw, since) = (self.raw(board, event), event - planted.at.min(event));
        if since == 0 {
            self.frozen = raw;
        }
        let ticks = match planted.fault {
            Fault::Slip(shift)
            | Fault::PauseSlip(shift)
            | Fault::LeadSlip(shift)
            | Fault::TwoSlip(shift)
            | Fault::StartSlip(shift)
            | Fault::SlipForAWhile(shift, _) => self.shifted(board, event, shift),
            Fault::Doubled if since == 0 => {
                let before = self.shifted(board, event, -1);
                before.wrapping_add(raw.wrapping_sub(before) / 3)
            }
            Fault::Doubled => self.shifted(board, event, -1),
            Fault::Reset | Fault::LeadReset => raw.wrapping_sub(self.frozen),
            Fault::Jump(part) => {
                let ticks = part * self.pattern.mean() * 1e-9 * self.boards[board].hertz;
                raw.wrapping_add(ticks as u64)
            }
            Fault::Bits(bits) => raw.wrapping_sub(1 << bits),
            Fault::Swapped => self.shifted(board, event, if since == 0 { 1 } else { -1 }),
            Fault::Corrupt => raw ^ 1 << 17,
            Fault::Leftover(count) => self.leftover(board, raw, since, count),
            Fault::Exchanged => {
                let other = if board == planted.board { board + 1 } else { planted.board };
                return self.healthy(other, event);
            }
            Fault::Stuck => self.frozen,
            Fault::Rate(_) | Fault::Noise(_) => raw,
        };
        self.boards[board].cut(ticks)
    }

    /// Returns the timestamp of a fragment that another run left behind, 200 s before.
    fn leftover(&mut self, board: usize, raw: u64, since: u64, count: u64) -> u64 {
        let hertz = self.boards[board].hertz;
        if since == 0 {
            let mut triggers = Triggers::new(self.pattern);
            let back = (200.0 * hertz) as u64 + self.rng.below(5000);
            let (mut ticks, mut fraction) = (raw.wrapping_sub(back), 0.0);
            let mut next = || {
                fraction += triggers.next(&mut self.rng) * 1e-9 * hertz;
                ticks = ticks.wrapping_add(fraction as u64);
                fraction -= fraction.floor();
                ticks
            };
            self.foreign = (0..count).map(|_| next()).collect();
        }
        self.foreign[since as usize]
    }
}
