//! Judgement of timing against the ability of the machine: a virtual machine whose processor is
//! taken away for milliseconds keeps no departure time, whatever its kernel does.

use std::time::{Duration, Instant};

use evb_net::{
    clock::now,
    pacing::{Gaps, Proof},
};

/// Misses of a machine that was quiet before and after that count as the kernel's fault, or ours.
const COUNTED: u32 = 3;
/// Limits on the number of attempts, and on their duration.
const TRIES: u32 = 10;
const LONGEST: Duration = Duration::from_secs(6);

/// Reason why an attempt did not show the expected result.
#[derive(Debug)]
pub(crate) enum Miss {
    /// Something else was seen.
    Wrong(String),
    /// Nothing can be said: it says itself that this machine was too slow.
    Undecided(String),
}

/// Result of all attempts.
pub(crate) enum Verdict {
    /// It holds; which attempt showed it.
    Holds(u32),
    /// It does not, on a quiet machine.
    Fails(String),
    /// The machine was never quiet for long enough.
    NotJudged(String),
}

/// That an offload works.
pub(crate) fn held(proof: &Proof) -> Result<(), Miss> {
    match (proof.held, proof.undecided) {
        (true, _) => Ok(()),
        (false, true) => Err(Miss::Undecided(proof.to_string())),
        (false, false) => Err(Miss::Wrong(proof.to_string())),
    }
}

/// That something is as it should be.
pub(crate) fn ensure(condition: bool, otherwise: impl FnOnce() -> String) -> Result<(), Miss> {
    if condition { Ok(()) } else { Err(Miss::Wrong(otherwise())) }
}

/// Tries until the attempt succeeds, or until the machine was quiet often enough that its failure
/// is believed. Quiet means that bare timers, `gap` apart, wake without a pause, and the part
/// `regular` of them within a tenth of the gap.
pub(crate) fn judge(gap: Duration, regular: f64, mut attempt: impl FnMut() -> Result<(), Miss>) -> Verdict {
    let began = Instant::now();
    let mut counted = 0;
    let mut reasons = String::new();
    for number in 1..=TRIES {
        let before = Bare::measure(gap);
        let miss = match attempt() {
            Ok(()) => return Verdict::Holds(number),
            Err(miss) => miss,
        };
        let after = Bare::measure(gap);
        let (Miss::Wrong(why) | Miss::Undecided(why)) = &miss;
        reasons = format!("{why} (bare timers: {before}, then {after})");
        println!("  attempt {number}: {reasons}");
        let quiet = before.is_quiet(regular) && after.is_quiet(regular);
        counted += u32::from(quiet && matches!(miss, Miss::Wrong(_)));
        if counted == COUNTED {
            return Verdict::Fails(reasons);
        }
        if began.elapsed() > LONGEST {
            break;
        }
    }
    Verdict::NotJudged(reasons)
}

/// Judges attempts that take a burst or a few milliseconds, which a pause spoils and a late timer
/// does not.
pub(crate) fn in_time(test: &str, attempt: impl FnMut() -> Result<(), Miss>) {
    match judge(Duration::from_millis(1), 0.0, attempt) {
        Verdict::Holds(_) => {}
        Verdict::Fails(why) => panic!("{why}"),
        Verdict::NotJudged(why) => not_judged(test, &why),
    }
}

/// `cargo xtask uml` looks for these words.
pub(crate) fn not_judged(test: &str, why: &str) {
    println!("NOT JUDGED {test}: this machine does not keep time well enough: {why}");
}

/// Regularity with which a thread that only sleeps wakes up.
struct Bare {
    gap: Duration,
    within: f64,
    longest: Duration,
}

impl Bare {
    fn measure(gap: Duration) -> Self {
        const COUNT: u32 = 50;
        let first = now() + gap;
        let woken: Vec<_> = (0..COUNT)
            .map(|index| {
                std::thread::sleep((first + gap * index).since(now()));
                now()
            })
            .collect();
        let gaps = Gaps::between(&woken);
        let longest = gaps.quantile(1.0).unwrap_or_default();
        Self { gap, within: gaps.within(gap, 0.1), longest }
    }

    /// No pause in which a burst would have gone by.
    fn is_quiet(&self, regular: f64) -> bool {
        self.within >= regular && self.longest < self.gap + Duration::from_millis(2)
    }
}

impl std::fmt::Display for Bare {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.0} % regular, longest pause {:?}", self.within * 100.0, self.longest)
    }
}
