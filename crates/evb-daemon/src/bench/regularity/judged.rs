//! The whole study: all runs, and what they say.

use serde::Serialize;

use super::outcome::RunOutcome;

/// Overload: so many of the gaps must be regular.
pub(super) const REGULAR: f64 = 0.98;
/// Shaped may be so much below the bare loop, round by round in the median: twice the scatter of a difference of two shares of
/// 99 % of 3000 gaps.
const NO_WORSE: f64 = 0.005;
/// Underload: the coefficient of variation may be so far from the theory's.
pub(super) const AGREEMENT: f64 = 0.10;

/// All of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Study {
    /// `regularity`.
    pub bench: &'static str,
    /// What all runs share, in words.
    pub setting: String,
    /// The time between two ticks of this kernel, if it says what it was built with.
    pub tick_us: Option<f64>,
    /// Every run.
    pub runs: Vec<RunOutcome>,
    /// Overload, by executor and trigger.
    pub overload: Vec<OverloadVerdict>,
    /// Underload, by executor and load.
    pub underload: Vec<UnderloadVerdict>,
    /// What else must be known: executors that could not be measured, and why.
    pub remarks: Vec<String>,
}

/// Whether shaping makes random triggers regular.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OverloadVerdict {
    /// Who waited.
    pub executor: String,
    /// What made the messages.
    pub trigger: &'static str,
    /// The regular part of the gaps, round by round.
    pub shaped: Vec<f64>,
    /// The same of the bare loop with the same timer; with timerfd's, where the kernel keeps the time.
    pub bare: Vec<f64>,
    /// The best round has 98 % or more.
    pub regular: bool,
    /// Shaped − bare of the same round, between which the machine's other work changes little: the median of all rounds. `None`:
    /// there was no bare loop.
    pub difference: Option<f64>,
    /// That is not below zero by more than its scatter.
    pub no_worse: Option<bool>,
}

/// Whether a line that is not always busy behaves as theory says.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct UnderloadVerdict {
    /// Who waited.
    pub executor: String,
    /// Offered / assigned.
    pub load: f64,
    /// √(1−ρ²).
    pub theory: f64,
    /// The coefficient of variation, round by round.
    pub variation: Vec<f64>,
    /// That of an ideal line behind the same triggers.
    pub ideal: Vec<f64>,
    /// The best round agrees with theory within 10 %.
    pub agrees: bool,
}

/// The departures of a queue with Poisson arrivals and one constant service time (M/D/1). A gap is the service time alone with
/// probability ρ, and with a wait for the next arrival otherwise (exponential, as arrivals have no memory): in units of the
/// mean arrival gap its mean is 1, its variance (1−ρ)(2−(1−ρ)) = 1−ρ². (Marshall, "Some inequalities in queuing", Operations
/// Research 16 (1968), has the departures of any such queue; Kleinrock, "Queueing Systems" I, 1975.)
pub(super) fn departure_variation(load: f64) -> f64 {
    (1.0 - load * load).max(0.0).sqrt()
}

/// Whether a coefficient of variation is near enough to theory.
pub(super) fn agree(variation: f64, load: f64) -> bool {
    (variation / departure_variation(load) - 1.0).abs() <= AGREEMENT
}

/// What the runs say, in their order.
pub(super) fn judge(runs: &[RunOutcome]) -> (Vec<OverloadVerdict>, Vec<UnderloadVerdict>) {
    let (mut overload, mut underload) = (Vec::new(), Vec::new());
    for run in runs.iter().filter(|run| run.way == "shaped") {
        match run.load {
            Some(load) if load > 1.0 => note_overload(&mut overload, run, runs),
            Some(load) => note_underload(&mut underload, run, load),
            None => {}
        }
    }
    for verdict in &mut overload {
        verdict.regular = verdict.shaped.iter().any(|share| *share >= REGULAR);
        let pairs = verdict.shaped.iter().zip(&verdict.bare);
        verdict.difference = median(pairs.map(|(shaped, bare)| shaped - bare).collect());
        verdict.no_worse = verdict.difference.map(|difference| difference >= -NO_WORSE);
    }
    for verdict in &mut underload {
        verdict.agrees = verdict.variation.iter().any(|found| agree(*found, verdict.load));
    }
    (overload, underload)
}

fn note_overload(verdicts: &mut Vec<OverloadVerdict>, run: &RunOutcome, runs: &[RunOutcome]) {
    let known = verdicts.iter_mut().find(|v| v.executor == run.executor && v.trigger == run.trigger);
    if let Some(verdict) = known {
        verdict.shaped.extend(run.within_5_percent);
        return;
    }
    let own = bare(runs, &run.executor);
    verdicts.push(OverloadVerdict {
        executor: run.executor.clone(),
        trigger: run.trigger,
        shaped: run.within_5_percent.into_iter().collect(),
        bare: if own.is_empty() { bare(runs, "timerfd") } else { own },
        regular: false,
        difference: None,
        no_worse: None,
    });
}

fn note_underload(verdicts: &mut Vec<UnderloadVerdict>, run: &RunOutcome, load: f64) {
    if let Some(verdict) = verdicts.iter_mut().find(|v| v.executor == run.executor && v.load == load) {
        verdict.variation.extend(run.variation);
        verdict.ideal.extend(run.variation_ideal);
        return;
    }
    verdicts.push(UnderloadVerdict {
        executor: run.executor.clone(),
        load,
        theory: departure_variation(load),
        variation: run.variation.into_iter().collect(),
        ideal: run.variation_ideal.into_iter().collect(),
        agrees: false,
    });
}

fn bare(runs: &[RunOutcome], executor: &str) -> Vec<f64> {
    let loops = runs.iter().filter(|run| run.way == "bare" && run.executor == executor);
    loops.filter_map(|run| run.within_5_percent).collect()
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() % 2 {
        1 => values.get(middle).copied(),
        _ => Some(f64::midpoint(*values.get(middle.checked_sub(1)?)?, *values.get(middle)?)),
    }
}

impl Study {
    /// Whether everything that was measured came out as it must.
    pub fn holds(&self) -> bool {
        self.overload.iter().all(|verdict| verdict.regular && verdict.no_worse != Some(false))
            && self.underload.iter().all(|verdict| verdict.agrees)
            && !self.runs.is_empty()
    }
}
