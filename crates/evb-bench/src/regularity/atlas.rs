//! The preset study `atlas`: the six histograms of Yasu et al. in their order, with a bucket behind
//! ticks as in their kernels, and with evb's executors beside it.

use crate::trigger::times::TimesKind;
use evb_core::units::Frequency;

use super::{
    course::Course,
    executors::Candidate,
    judged::{Panel, PanelSeries, TICK},
    outcome::RunOutcome,
    sender::Shaper,
};
use crate::{figure::Bins, output::BenchError};

/// The periodic triggers that ask for less than the assigned rate, in Hz.
const SLOW: f64 = 100.0;
/// The triggers that ask for more than the assigned rate, in Hz.
const FAST: f64 = 1000.0;
/// Ticks per second of the kernel as it was, and of the kernel of the study.
const TICKS: [u32; 2] = [100, 1500];
/// Number of bins of each histogram.
pub(super) const BINS: usize = 100;

/// Returns the trigger rates of the study.
pub(super) fn rates() -> Vec<Frequency> {
    [SLOW, FAST].into_iter().filter_map(Frequency::from_hertz).collect()
}

/// Runs the study.
pub(super) fn run(course: &mut Course<'_>) -> Result<(), BenchError> {
    let sigma = course.arguments.sigma;
    let [slow, fast] = rates()[..] else { return Ok(()) };
    let periodic = |rate| TimesKind::Periodic { rate };
    let gaussian = TimesKind::Gaussian { rate: fast, sigma };
    let mut candidates = course.candidates()?;
    // The ticks of the study come from the preset, not from the list of executors.
    candidates.retain(|candidate| candidate.shaper.ticks().is_none());
    let ticking: Vec<Candidate> = TICKS.into_iter().filter_map(Candidate::ticking).collect();
    if candidates.iter().all(|candidate| candidate.shaper == Shaper::Kernel) {
        let reason = "the study needs one of evb's executors: name timerfd, spin or txtime in --executors";
        return Err(BenchError::Operator(reason.to_owned()));
    }
    course.unshaped(periodic(slow))?;
    for candidate in &candidates {
        course.until_shown(candidate, periodic(slow))?;
    }
    for candidate in ticking.iter().chain(&candidates) {
        course.until_shown(candidate, periodic(fast))?;
    }
    course.unshaped(gaussian)?;
    for candidate in ticking.iter().skip(1).chain(&candidates) {
        course.until_shown(candidate, gaussian)?;
    }
    Ok(())
}

/// The content of one histogram.
struct Wanted {
    title: &'static str,
    end_ms: f64,
    trigger: &'static str,
    hertz: f64,
    /// Executors with ticks; evb's executors are shown too unless the messages are not shaped.
    ticks: Option<&'static [&'static str]>,
    marks: &'static [(f64, &'static str)],
}

const WANTED: [Wanted; 6] = [
    Wanted {
        title: "1: periodic, 100 Hz, not shaped",
        end_ms: 20.0,
        trigger: "periodic",
        hertz: SLOW,
        ticks: None,
        marks: &[],
    },
    Wanted {
        title: "2: periodic, 100 Hz, shaped",
        end_ms: 20.0,
        trigger: "periodic",
        hertz: SLOW,
        ticks: Some(&[]),
        marks: &[],
    },
    Wanted {
        title: "3: periodic, 1 kHz, shaped, HZ = 100",
        end_ms: 20.0,
        trigger: "periodic",
        hertz: FAST,
        ticks: Some(&["tick:100"]),
        marks: &[(10.0, "1/HZ")],
    },
    Wanted {
        title: "4: periodic, 1 kHz, shaped, HZ = 1500",
        end_ms: 4.0,
        trigger: "periodic",
        hertz: FAST,
        ticks: Some(&["tick:1500"]),
        marks: &[(1.333_333, "2/HZ"), (2.0, "3/HZ")],
    },
    Wanted {
        title: "5: Gaussian, 1 kHz, not shaped",
        end_ms: 4.0,
        trigger: "gaussian",
        hertz: FAST,
        ticks: None,
        marks: &[],
    },
    Wanted {
        title: "6: Gaussian, 1 kHz, shaped",
        end_ms: 4.0,
        trigger: "gaussian",
        hertz: FAST,
        ticks: Some(&["tick:1500"]),
        marks: &[],
    },
];

/// Returns the six histograms.
pub(super) fn panels(runs: &[RunOutcome]) -> Vec<Panel> {
    WANTED.iter().map(|wanted| panel(wanted, runs)).collect()
}

fn panel(wanted: &Wanted, runs: &[RunOutcome]) -> Panel {
    let mut series: Vec<PanelSeries> = Vec::new();
    for run in runs.iter().filter(|run| belongs(wanted, run)) {
        let name = if run.way == "shaped" { run.executor.clone() } else { "not shaped".to_owned() };
        if series.iter().any(|series| series.name == name) {
            continue;
        }
        let gaps_ms: Vec<f64> =
            best(runs, run).iter().flat_map(|run| &run.gaps).map(|gap| gap / 1e3).collect();
        let bins = Bins::of(&*name, &gaps_ms, 0.0, wanted.end_ms, BINS);
        series.push(PanelSeries { name, counts: bins.counts().to_vec(), beyond: bins.beyond(), gaps_ms });
    }
    Panel {
        title: wanted.title.to_owned(),
        low_ms: 0.0,
        bin_ms: wanted.end_ms / BINS as f64,
        marks: wanted.marks.iter().map(|(at, name)| (*at, (*name).to_owned())).collect(),
        series,
    }
}

fn belongs(wanted: &Wanted, run: &RunOutcome) -> bool {
    let same = run.trigger == wanted.trigger && run.trigger_hz == Some(wanted.hertz);
    same && match wanted.ticks {
        None => run.way == "unshaped",
        Some(ticks) => {
            let shown = !run.executor.starts_with(TICK) || ticks.contains(&run.executor.as_str());
            run.way == "shaped" && shown
        }
    }
}

/// Returns the runs of the same messages and executor in the round that shows the most regular
/// gaps, or with ticks, the clearest ticks: one run for each receiver.
fn best<'a>(runs: &'a [RunOutcome], like: &RunOutcome) -> Vec<&'a RunOutcome> {
    let alike = |run: &&RunOutcome| {
        run.way == like.way
            && run.executor == like.executor
            && run.trigger == like.trigger
            && run.trigger_hz == like.trigger_hz
    };
    let score =
        |run: &RunOutcome| run.ticks.map(|signs| signs.on_ticks).or(run.within_5_percent).unwrap_or(0.0);
    let best = runs.iter().filter(alike).max_by(|a, b| score(a).total_cmp(&score(b)));
    let round = best.map_or(like.round, |run| run.round);
    runs.iter().filter(alike).filter(|run| run.round == round).collect()
}
