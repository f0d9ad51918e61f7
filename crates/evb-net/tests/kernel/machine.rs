//! Assessment of timing tests that takes the machine's own timing into account: a virtual machine
//! whose processor is taken away for milliseconds keeps no departure time, whatever its kernel
//! does.

use std::time::{Duration, Instant};

use evb_net::{
    clock::now,
    pacing::{Gaps, Proof},
};

/// Number of failed attempts after which a test fails, counting only attempts before and after
/// which the machine was quiet.
const COUNTED: u32 = 3;
/// Limits on the number of attempts, and on their duration.
const TRIES: u32 = 10;
const LONGEST: Duration = Duration::from_secs(6);

/// Reason why an attempt did not show the expected result.
#[derive(Debug)]
pub(crate) enum Miss {
    /// The attempt showed a wrong result.
    Wrong(String),
    /// The attempt was inconclusive, because the machine was too slow for it.
    Undecided(String),
}

/// Result of all attempts.
pub(crate) enum Verdict {
    /// The expectation holds, as the attempt with this number showed.
    Holds(u32),
    /// The expectation does not hold, although the machine was quiet.
    Fails(String),
    /// The machine was never quiet for long enough.
    NotJudged(String),
}

/// Checks that an offload works.
pub(crate) fn held(proof: &Proof) -> Result<(), Miss> {
    match (proof.held, proof.undecided) {
        (true, _) => Ok(()),
        (false, true) => Err(Miss::Undecided(proof.to_string())),
        (false, false) => Err(Miss::Wrong(proof.to_string())),
    }
}

/// Checks a condition, and otherwise reports a wrong result.
pub(crate) fn ensure(condition: bool, otherwise: impl FnOnce() -> String) -> Result<(), Miss> {
    if condition { Ok(()) } else { Err(Miss::Wrong(otherwise())) }
}

/// Repeats an attempt until it succeeds, or until it has failed often enough on a quiet machine. A
/// machine is quiet if bare timers, `gap` apart, wake without a pause, and the fraction `regular`
/// of them wakes within a tenth of the gap.
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

/// Judges attempts that send a burst or take a few milliseconds: a pause of the machine spoils
/// them, but a late timer does not.
pub(crate) fn in_time(test: &str, attempt: impl FnMut() -> Result<(), Miss>) {
    match judge(Duration::from_millis(1), 0.0, attempt) {
        Verdict::Holds(_) => {}
        Verdict::Fails(why) => panic!("{why}"),
        Verdict::NotJudged(why) => not_judged(test, &why),
    }
}

/// Reports that a test was not judged; `cargo xtask uml` looks for the words "NOT JUDGED" in the
/// output.
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

    /// Returns true if the machine had no pause that is as long as a burst, and its timers were
    /// regular.
    fn is_quiet(&self, regular: f64) -> bool {
        self.within >= regular && self.longest < self.gap + Duration::from_millis(2)
    }
}

impl std::fmt::Display for Bare {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.0} % regular, longest pause {:?}", self.within * 100.0, self.longest)
    }
}
