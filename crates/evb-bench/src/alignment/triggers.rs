//! The trigger patterns of the study.

use evb_core::rng::Rng;

/// A pattern of triggers; times are in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Pattern {
    Periodic {
        period: f64,
    },
    Poisson {
        mean: f64,
    },
    /// Poisson triggers with a dead time after each.
    DeadTime {
        mean: f64,
        dead: f64,
    },
    /// Groups of triggers at equal distances.
    Bursts {
        count: u32,
        gap: f64,
        period: f64,
    },
    /// Poisson triggers in spills, with pauses between them.
    Spills {
        mean: f64,
        on: f64,
        off: f64,
    },
    Gaussian {
        mean: f64,
        sigma: f64,
    },
    /// Trains of triggers and pauses, both with Pareto-distributed lengths.
    OnOff {
        gap: f64,
    },
}

/// Name of each pattern of the study, in the order of its tables.
pub(super) const PATTERNS: [(&str, Pattern); 15] = [
    ("periodic 1 kHz", Pattern::Periodic { period: 1e6 }),
    ("periodic 1 MHz", Pattern::Periodic { period: 1e3 }),
    ("slices of 10 ms", Pattern::Periodic { period: 1e7 }),
    ("periodic 1 Hz", Pattern::Periodic { period: 1e9 }),
    ("Poisson 1 Hz", Pattern::Poisson { mean: 1e9 }),
    ("Poisson 1 kHz", Pattern::Poisson { mean: 1e6 }),
    ("Poisson 100 kHz", Pattern::Poisson { mean: 1e4 }),
    ("Poisson 1 MHz", Pattern::Poisson { mean: 1e3 }),
    ("dead time, 200 kHz", Pattern::DeadTime { mean: 4e3, dead: 1e3 }),
    ("Gaussian 1 kHz", Pattern::Gaussian { mean: 1e6, sigma: 1e5 }),
    ("bursts of 32", Pattern::Bursts { count: 32, gap: 1e3, period: 1e7 }),
    ("16 at one instant", Pattern::Bursts { count: 16, gap: 0.0, period: 1e6 }),
    ("spills, 8 s apart", Pattern::Spills { mean: 1e5, on: 2e9, off: 8e9 }),
    ("spills, 10 min apart", Pattern::Spills { mean: 1e5, on: 2e9, off: 6e11 }),
    ("on and off", Pattern::OnOff { gap: 1e4 }),
];

impl Pattern {
    /// Returns true if neighbouring triggers may look alike for long: a slip then shows only at the
    /// edges of bursts.
    pub(super) fn is_bursty(self) -> bool {
        matches!(self, Self::Bursts { .. } | Self::OnOff { .. })
    }

    /// Returns the mean interval, in nanoseconds.
    pub(super) fn mean(self) -> f64 {
        match self {
            Self::Periodic { period } | Self::Bursts { period, .. } => period,
            Self::Poisson { mean } | Self::Gaussian { mean, .. } | Self::Spills { mean, .. } => mean,
            Self::DeadTime { mean, dead } => mean + dead,
            Self::OnOff { gap } => 30.0 * gap,
        }
    }
}

/// The intervals between the triggers of a pattern.
pub(super) struct Triggers {
    pattern: Pattern,
    /// Number of triggers in the present burst.
    count: u32,
    /// Rest of the present spill, in nanoseconds.
    spill: f64,
    /// Rest of the present train, in triggers.
    train: f64,
}

impl Triggers {
    pub(super) fn new(pattern: Pattern) -> Self {
        Self { pattern, count: 0, spill: 1e9, train: 5.0 }
    }

    /// Returns the time to the next trigger, in nanoseconds.
    pub(super) fn next(&mut self, rng: &mut Rng) -> f64 {
        match self.pattern {
            Pattern::Periodic { period } => period,
            Pattern::Poisson { mean } => mean * rng.exponential(),
            Pattern::DeadTime { mean, dead } => dead + mean * rng.exponential(),
            Pattern::Gaussian { mean, sigma } => (mean + sigma * rng.gaussian()).max(0.0),
            Pattern::Bursts { count, gap, period } => {
                self.count = (self.count + 1) % count;
                if self.count == 0 { period - gap * f64::from(count - 1) } else { gap }
            }
            Pattern::Spills { mean, on, off } => {
                let interval = mean * rng.exponential();
                self.spill -= interval;
                if self.spill >= 0.0 {
                    return interval;
                }
                self.spill = on;
                off + interval
            }
            Pattern::OnOff { gap } => {
                let mut pareto = || (1.0 - rng.uniform()).powf(-1.0 / 1.5);
                self.train -= 1.0;
                if self.train >= 0.0 {
                    return gap;
                }
                self.train = 20.0 * pareto();
                30.0 * gap * pareto()
            }
        }
    }
}
