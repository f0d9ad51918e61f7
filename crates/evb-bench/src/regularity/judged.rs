//! The whole study: all runs, and the verdicts on them.

use serde::Serialize;

use super::outcome::RunOutcome;

/// Overload: part of the gaps that must be regular.
pub(super) const REGULAR: f64 = 0.98;
/// Overload: largest difference by which shaped runs may be less regular than the bare loop, in the
/// median over rounds. It is twice the standard deviation of a difference of two shares of 99 % of
/// 3000 gaps.
const NO_WORSE: f64 = 0.005;
/// Underload: largest relative difference of the coefficient of variation from theory.
pub(super) const AGREEMENT: f64 = 0.10;

/// The study with its verdicts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Study {
    /// The word `regularity`.
    pub bench: &'static str,
    /// Settings that all runs share, in words.
    pub setting: String,
    /// Time between two ticks of this kernel, if it tells its configuration.
    pub tick_us: Option<f64>,
    /// Results of every run.
    pub runs: Vec<RunOutcome>,
    /// Verdicts on the overload, by executor and trigger.
    pub overload: Vec<OverloadVerdict>,
    /// Verdicts on the underload, by executor and load.
    pub underload: Vec<UnderloadVerdict>,
    /// Remarks, such as on executors that could not be measured.
    pub remarks: Vec<String>,
}

/// The verdict on how regular shaping makes random triggers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OverloadVerdict {
    /// Name of the executor.
    pub executor: String,
    /// Word for the trigger.
    pub trigger: &'static str,
    /// Regular part of the gaps, for each round.
    pub shaped: Vec<f64>,
    /// The same for the bare loop with the same timer; with timerfd's, if the kernel keeps the
    /// time.
    pub bare: Vec<f64>,
    /// True if the best round has 98 % or more.
    pub regular: bool,
    /// Median over rounds of shaped − bare, as other load on the machine changes little within a
    /// round. `None` without a bare loop.
    pub difference: Option<f64>,
    /// True if the difference is not below zero by more than its scatter.
    pub no_worse: Option<bool>,
}

/// The verdict on whether a line that is not always busy agrees with theory.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct UnderloadVerdict {
    /// Name of the executor.
    pub executor: String,
    /// Offered rate / assigned rate.
    pub load: f64,
    /// The theory's coefficient of variation, √(1−ρ²).
    pub theory: f64,
    /// Measured coefficient of variation, for each round.
    pub variation: Vec<f64>,
    /// Coefficient of variation of an ideal line behind the same triggers, for each round.
    pub ideal: Vec<f64>,
    /// True if the best round agrees with theory within 10 %.
    pub agrees: bool,
}

/// Returns the coefficient of variation of the departures of a queue with Poisson arrivals and one
/// constant service time (M/D/1). A gap is the service time alone with probability ρ, and with a
/// wait for the next arrival otherwise (exponential, because arrivals have no memory): in units of
/// the mean arrival gap its mean is 1, its variance (1−ρ)(2−(1−ρ)) = 1−ρ². (Marshall, "Some
/// inequalities in queuing", Operations Research 16 (1968), has the departures of any such queue;
/// Kleinrock, "Queueing Systems" I, 1975.)
pub(super) fn departure_variation(load: f64) -> f64 {
    (1.0 - load * load).max(0.0).sqrt()
}

/// Returns true if a coefficient of variation is near enough to theory.
pub(super) fn agree(variation: f64, load: f64) -> bool {
    (variation / departure_variation(load) - 1.0).abs() <= AGREEMENT
}

/// Returns the verdicts on the runs, in their order.
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
    /// Returns true if there are runs and all verdicts are good.
    pub fn holds(&self) -> bool {
        self.overload.iter().all(|verdict| verdict.regular && verdict.no_worse != Some(false))
            && self.underload.iter().all(|verdict| verdict.agrees)
            && !self.runs.is_empty()
    }
}
