//! [`Fault`]: kind, host, duration and delay of a fault, drawn at random from a seed.

use std::{fmt, time::Duration};

use lab_base::network::Shape;

use crate::lab::dice::Dice;

/// The kinds of faults of a host or its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// The process gets SIGKILL; a new process is started after the fault's duration.
    Kill,
    /// The process gets SIGSTOP, and SIGCONT after the fault's duration.
    Freeze,
    /// No packet passes the host's port in either direction.
    Cut,
    /// No packet passes the host's port for a minute.
    LongCut,
    /// The sink's file system is full.
    Full,
    /// The sink's file system blocks every write without an error, as a hanging disk does.
    Stuck,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Kill => "kill",
            Self::Freeze => "freeze",
            Self::Cut => "cut",
            Self::LongCut => "cut, 1 min",
            Self::Full => "disk full",
            Self::Stuck => "disk stuck",
        }
    }
}

/// A fault of one host.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Fault {
    pub(crate) kind: Kind,
    pub(crate) host: String,
    /// Duration of the fault.
    pub(crate) lasts: Duration,
    /// Time without faults before this fault is applied.
    pub(crate) after: Duration,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} for {:.3} s", self.kind.name(), self.host, self.lasts.as_secs_f64())
    }
}

/// Largest number of long cuts in a schedule.
const LONG_CUTS: usize = 3;
const MINUTE: Duration = Duration::from_secs(60);

/// Draws `count` random faults. With `long`, up to three faults cut a host off for a minute; with
/// `stuck`, some faults make a disk hang.
pub(crate) fn schedule(seed: u64, count: usize, shape: Shape, long: bool, stuck: bool) -> Vec<Fault> {
    let mut dice = Dice(seed);
    let mut faults: Vec<Fault> = (0..count).map(|_| draw(&mut dice, shape, stuck)).collect();
    let minutes = if long { LONG_CUTS.min(count / 20) } else { 0 };
    // Each role gets one long cut; these are spread over the schedule.
    for (minute, role) in [0, 1, 2].into_iter().take(minutes).enumerate() {
        let place = (minute * 2 + 1) * count / (2 * minutes);
        faults[place].kind = Kind::LongCut;
        faults[place].lasts = MINUTE;
        faults[place].host = host(&mut dice, shape, role);
    }
    faults
}

fn draw(dice: &mut Dice, shape: Shape, stuck: bool) -> Fault {
    // Half of the faults hit builders, because builders also have disk faults; a third hit sources,
    // and a sixth the supervisor.
    let role = [0, 0, 1, 1, 1, 2][dice.below(6)];
    let kind = match (role, dice.below(10)) {
        (1, 0..2) => Kind::Full,
        (1, 2..4) if stuck => Kind::Stuck,
        (_, 0..6) => Kind::Kill,
        (_, 6..8) => Kind::Freeze,
        _ => Kind::Cut,
    };
    let lasts = match (kind, dice.below(3)) {
        (Kind::Cut, 0) => Duration::from_millis(1),
        (Kind::Cut, 1) => Duration::from_secs(1),
        // Durations range from 50 ms, which no peer notices, to 5 s, which is well beyond two
        // leases.
        _ => Duration::from_secs_f64(0.05 * 100f64.powf(dice.uniform())),
    };
    Fault { kind, host: host(dice, shape, role), lasts, after: Duration::from_secs_f64(dice.uniform()) }
}

fn host(dice: &mut Dice, shape: Shape, role: usize) -> String {
    match role {
        0 => format!("s{}", 1 + dice.below(usize::from(shape.sources))),
        1 => format!("b{}", 1 + dice.below(usize::from(shape.builders))),
        _ => "sup".to_owned(),
    }
}

#[cfg(test)]
mod tests;
