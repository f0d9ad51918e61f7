//! The results of the whole study: all runs, and the verdicts on them.

use serde::Serialize;

use super::outcome::RunOutcome;

/// Smallest part of the gaps in an overload run that must be within the tolerance of the nominal
/// gap.
pub(super) const REGULAR: f64 = 0.98;
/// Largest acceptable difference between the regular part of the gaps of the bare timer loop and
/// that of shaped runs under overload, as the median over rounds. Each part is about 0.99 of 3000
/// gaps, and the value is twice the standard deviation of the difference of two such parts.
const NO_WORSE: f64 = 0.005;
/// Largest relative difference between measured and theoretical coefficient of variation in an
/// underload run.
pub(super) const AGREEMENT: f64 = 0.10;

/// The study with its verdicts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Study {
    /// Name of the benchmark: `regularity`.
    pub bench: &'static str,
    /// Description of the settings that all runs share.
    pub setting: String,
    /// Time between two timer ticks of this kernel in µs; `None` if the kernel's configuration is
    /// unknown.
    pub tick_us: Option<f64>,
    /// Results of every run.
    pub runs: Vec<RunOutcome>,
    /// Verdicts on the overload, by executor and trigger.
    pub overload: Vec<OverloadVerdict>,
    /// Verdicts on the underload, by executor and load.
    pub underload: Vec<UnderloadVerdict>,
    /// Remarks, for example on executors that could not be measured.
    pub remarks: Vec<String>,
}

/// The verdict on how regular shaping makes random triggers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OverloadVerdict {
    /// Name of the executor.
    pub executor: String,
    /// Name of the trigger's distribution.
    pub trigger: &'static str,
    /// Part of the gaps that are within 5 % of the nominal gap, for each round.
    pub shaped: Vec<f64>,
    /// Part of the gaps within 5 % of the nominal gap in runs without a bucket (a bare timer loop),
    /// for each round. The loop uses the timer of this executor, or timerfd if the kernel keeps
    /// this executor's departure times.
    pub bare: Vec<f64>,
    /// True if at least 98 % of the gaps are regular in the best round.
    pub regular: bool,
    /// Median over the rounds of `shaped` − `bare`; both parts come from the same round because
    /// other load on the machine changes little within a round. `None` without a bare loop.
    pub difference: Option<f64>,
    /// True if shaped runs are not less regular than the bare loop by more than the statistical
    /// scatter.
    pub no_worse: Option<bool>,
}

/// The verdict on whether the gaps of an underload run vary as queueing theory predicts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct UnderloadVerdict {
    /// Name of the executor.
    pub executor: String,
    /// Offered rate / assigned rate.
    pub load: f64,
    /// Coefficient of variation that theory predicts, √(1−ρ²).
    pub theory: f64,
    /// Measured coefficient of variation, for each round.
    pub variation: Vec<f64>,
    /// Coefficient of variation of the departures that an ideal line would produce from the same
    /// triggers, for each round.
    pub ideal: Vec<f64>,
    /// True if the best round agrees with theory within 10 %.
    pub agrees: bool,
}

/// Returns the coefficient of variation of the departures of a queue with Poisson arrivals and one
/// constant service time (M/D/1). With probability ρ, a gap is the service time alone; otherwise it
/// is the service time plus the wait for the next arrival, which is exponentially distributed
/// because arrivals have no memory. In units of the mean arrival gap, the mean of a gap is 1 and
/// its variance is (1−ρ)(2−(1−ρ)) = 1−ρ². (Marshall, "Some inequalities in queuing", Operations
/// Research 16 (1968), has the departures of any such queue; Kleinrock, "Queueing Systems" I,
/// 1975.)
pub(super) fn departure_variation(load: f64) -> f64 {
    (1.0 - load * load).max(0.0).sqrt()
}

/// Returns true if a coefficient of variation agrees with the theory for this load within
/// [`AGREEMENT`].
pub(super) fn agree(variation: f64, load: f64) -> bool {
    (variation / departure_variation(load) - 1.0).abs() <= AGREEMENT
}

/// Returns the overload and underload verdicts, in the order of the runs.
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
    /// Returns true if there are runs and every verdict is positive.
    pub fn holds(&self) -> bool {
        self.overload.iter().all(|verdict| verdict.regular && verdict.no_worse != Some(false))
            && self.underload.iter().all(|verdict| verdict.agrees)
            && !self.runs.is_empty()
    }
}
