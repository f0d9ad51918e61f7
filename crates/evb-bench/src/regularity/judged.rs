//! The results of the whole study: all runs, and the verdicts on them.

use serde::Serialize;

use super::{outcome::RunOutcome, ticked::TickVerdict};

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

/// First part of the names of executors with ticks.
pub(super) const TICK: &str = "tick:";

/// A histogram of a preset study.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Panel {
    /// Title of the histogram.
    pub title: String,
    /// Lower end of the first bin in ms.
    pub low_ms: f64,
    /// Width of a bin in ms.
    pub bin_ms: f64,
    /// Positions that the histogram marks, in ms, with their names.
    pub marks: Vec<(f64, String)>,
    /// The gaps that are counted.
    pub series: Vec<PanelSeries>,
}

/// The gaps of one executor in a [`Panel`].
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PanelSeries {
    /// Description of the messages.
    pub name: String,
    /// Number of gaps in each bin.
    pub counts: Vec<u64>,
    /// Number of gaps outside all bins.
    pub beyond: u64,
    /// The gaps in ms.
    #[serde(skip)]
    pub gaps_ms: Vec<f64>,
}

/// The study with its verdicts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Study {
    /// Name of the benchmark: `regularity`.
    pub bench: &'static str,
    /// Name of the preset study; `None` if the arguments describe the runs.
    pub study: Option<&'static str>,
    /// Description of the settings that all runs share.
    pub setting: String,
    /// Time between two timer ticks of this kernel in µs; `None` if the kernel's configuration is
    /// unknown.
    pub tick_us: Option<f64>,
    /// Results of every run.
    pub runs: Vec<RunOutcome>,
    /// Verdicts on the overload, by executor and trigger.
    pub overload: Vec<OverloadVerdict>,
    /// Verdicts on periodic triggers that ask for less than the assigned rate, by executor.
    pub passing: Vec<OverloadVerdict>,
    /// Verdicts on executors whose timers expire only at ticks: they must fail the criterion of
    /// regularity, and show their ticks.
    pub ticks: Vec<TickVerdict>,
    /// Verdicts on the underload, by executor and load.
    pub underload: Vec<UnderloadVerdict>,
    /// True if every verdict is as expected.
    pub holds: bool,
    /// Histograms of a preset study; empty otherwise.
    pub panels: Vec<Panel>,
    /// Remarks, for example on executors that could not be measured.
    pub remarks: Vec<String>,
}

/// The verdict on how regular shaping makes triggers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OverloadVerdict {
    /// Name of the executor.
    pub executor: String,
    /// Name of the trigger's distribution.
    pub trigger: &'static str,
    /// Mean rate of the triggers in Hz.
    pub trigger_hz: Option<f64>,
    /// Number of the receiver, from 1.
    pub receiver: u32,
    /// Part of the gaps that are within 5 % of the expected gap, for each round.
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
    /// Number of the receiver, from 1.
    pub receiver: u32,
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

/// The verdicts on all runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Verdicts {
    pub(super) overload: Vec<OverloadVerdict>,
    pub(super) passing: Vec<OverloadVerdict>,
    pub(super) ticks: Vec<TickVerdict>,
    pub(super) underload: Vec<UnderloadVerdict>,
}

/// Returns the verdicts on all runs, in the order of the runs.
pub(super) fn judge(runs: &[RunOutcome]) -> Verdicts {
    let mut verdicts = Verdicts::default();
    for run in runs.iter().filter(|run| run.way == "shaped") {
        match run.load {
            Some(load) if load > 1.0 && run.executor.starts_with(TICK) => {
                note_ticks(&mut verdicts.ticks, run)
            }
            Some(load) if load > 1.0 => note_overload(&mut verdicts.overload, run, runs),
            // With tokens at hand, messages do not wait for a tick.
            Some(_) if run.executor.starts_with(TICK) => {}
            Some(_) if run.trigger == "periodic" => note_overload(&mut verdicts.passing, run, &[]),
            Some(load) if run.trigger == "poisson" => note_underload(&mut verdicts.underload, run, load),
            _ => {}
        }
    }
    for verdict in verdicts.overload.iter_mut().chain(&mut verdicts.passing) {
        verdict.regular = verdict.shaped.iter().any(|share| *share >= REGULAR);
        let pairs = verdict.shaped.iter().zip(&verdict.bare);
        verdict.difference = median(pairs.map(|(shaped, bare)| shaped - bare).collect());
        verdict.no_worse = verdict.difference.map(|difference| difference >= -NO_WORSE);
    }
    for verdict in &mut verdicts.underload {
        verdict.agrees = verdict.variation.iter().any(|found| agree(*found, verdict.load));
    }
    let nominal = runs.iter().filter(|run| run.ticks.is_some()).find_map(|run| run.nominal_us);
    verdicts.ticks = verdicts
        .ticks
        .into_iter()
        .map(|verdict| verdict.concluded(nominal.unwrap_or(f64::NAN), REGULAR))
        .collect();
    verdicts
}

fn note_overload(verdicts: &mut Vec<OverloadVerdict>, run: &RunOutcome, runs: &[RunOutcome]) {
    let known = verdicts.iter_mut().find(|v| run.is_of(&v.executor, v.trigger, v.trigger_hz, v.receiver));
    if let Some(verdict) = known {
        verdict.shaped.extend(run.within_5_percent);
        return;
    }
    let own = bare(runs, &run.executor, run.receiver);
    verdicts.push(OverloadVerdict {
        executor: run.executor.clone(),
        trigger: run.trigger,
        trigger_hz: run.trigger_hz,
        receiver: run.receiver,
        shaped: run.within_5_percent.into_iter().collect(),
        bare: if own.is_empty() { bare(runs, "timerfd", run.receiver) } else { own },
        regular: false,
        difference: None,
        no_worse: None,
    });
}

fn note_ticks(verdicts: &mut Vec<TickVerdict>, run: &RunOutcome) {
    let known = verdicts.iter_mut().find(|v| run.is_of(&v.executor, v.trigger, v.trigger_hz, v.receiver));
    if let Some(verdict) = known {
        verdict.shaped.extend(run.within_5_percent);
        verdict.signs.extend(run.ticks);
        return;
    }
    verdicts.push(TickVerdict {
        executor: run.executor.clone(),
        trigger: run.trigger,
        trigger_hz: run.trigger_hz,
        receiver: run.receiver,
        shaped: run.within_5_percent.into_iter().collect(),
        signs: run.ticks.into_iter().collect(),
        fails_regularity: false,
        on_ticks: false,
        clumped_at_ticks: false,
        clumps_expected: false,
        behaves: false,
    });
}

fn note_underload(verdicts: &mut Vec<UnderloadVerdict>, run: &RunOutcome, load: f64) {
    let known = verdicts
        .iter_mut()
        .find(|v| v.executor == run.executor && v.load == load && v.receiver == run.receiver);
    if let Some(verdict) = known {
        verdict.variation.extend(run.variation);
        verdict.ideal.extend(run.variation_ideal);
        return;
    }
    verdicts.push(UnderloadVerdict {
        executor: run.executor.clone(),
        receiver: run.receiver,
        load,
        theory: departure_variation(load),
        variation: run.variation.into_iter().collect(),
        ideal: run.variation_ideal.into_iter().collect(),
        agrees: false,
    });
}

fn bare(runs: &[RunOutcome], executor: &str, receiver: u32) -> Vec<f64> {
    let of = |run: &&RunOutcome| run.way == "bare" && run.executor == executor && run.receiver == receiver;
    runs.iter().filter(of).filter_map(|run| run.within_5_percent).collect()
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() % 2 {
        1 => values.get(middle).copied(),
        _ => Some(f64::midpoint(*values.get(middle.checked_sub(1)?)?, *values.get(middle)?)),
    }
}

impl Verdicts {
    /// Returns true if every verdict is as expected.
    pub(super) fn hold(&self) -> bool {
        self.overload.iter().chain(&self.passing).all(|v| v.regular && v.no_worse != Some(false))
            && self.ticks.iter().all(|verdict| verdict.behaves)
            && self.underload.iter().all(|verdict| verdict.agrees)
    }
}
