//! The counts over many trials of one fault.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{fault::Planted, trial::Outcome, triggers::Pattern};

/// Results of a fault: delays in events of the whole run since the fault.
#[derive(Clone, Debug, Serialize)]
pub struct FaultRow {
    /// Pattern of the triggers; `all` for a sum over all of them.
    pub pattern: String,
    /// Number of builders; 0 for a sum over all divisions.
    pub builders: u64,
    /// The fault.
    pub fault: String,
    /// Number of trials.
    pub trials: u64,
    /// Share of the trials in which a fragment was flagged.
    pub seen: f64,
    /// Share of the seen trials in which the first flag also hit an innocent board.
    pub innocent: f64,
    /// Delay of the first flag, of the suspicion and of the right verdict, as median and maximum;
    /// in a sum, those of the worst pattern without bursts.
    pub flag: String,
    /// Delay of the suspicion; in a sum, for 1, 4 and 16 builders.
    pub suspect: String,
    /// Delay of the right verdict; in a sum, for 1, 4 and 16 builders.
    pub verdict: String,
    /// Share of the trials with the right verdict, in percent; in a sum, without the patterns with
    /// bursts.
    pub right: f64,
    /// The same share for the patterns with bursts; 0 in other rows than a sum.
    pub right_in_bursts: f64,
    /// The same share for exactly periodic triggers; 0 in other rows than a sum.
    pub right_if_periodic: f64,
    /// Number of verdicts of a slip that were wrong.
    pub wrong_slips: u64,
    /// The most frequent other outcomes.
    pub others: String,
}

/// Trials, and those of them with the right verdict.
#[derive(Clone, Copy, Debug, Default)]
struct Rights {
    trials: u64,
    right: u64,
}

impl Rights {
    fn percent(self) -> f64 {
        percent(self.right, self.trials)
    }

    fn add(&mut self, other: Self) {
        self.trials += other.trials;
        self.right += other.right;
    }
}

/// Median and maximum of delays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Delay {
    median: u64,
    most: u64,
}

/// Counts over trials.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    pattern: String,
    builders: u64,
    fault: String,
    seen: u64,
    innocent: u64,
    wrong_slips: u64,
    all: Rights,
    bursty: Rights,
    periodic: Rights,
    others: BTreeMap<String, u64>,
    /// Delays of flag, suspicion and right verdict.
    delays: [Vec<u64>; 3],
    /// Largest delays of patterns without bursts, by number of builders.
    worst: BTreeMap<u64, [Option<Delay>; 3]>,
}

impl Tally {
    pub(super) fn new(pattern: &str, builders: u64, fault: &str) -> Self {
        Self { pattern: pattern.to_owned(), builders, fault: fault.to_owned(), ..Self::default() }
    }

    pub(super) fn trials(&self) -> u64 {
        [self.all, self.bursty, self.periodic].iter().map(|rights| rights.trials).sum()
    }

    /// Counts a trial.
    pub(super) fn count(&mut self, planted: &Planted, outcome: &Outcome) {
        let right = outcome.verdict.filter(|(clock, verdict, _)| planted.deserves(*clock, *verdict));
        self.all.add(Rights { trials: 1, right: u64::from(right.is_some()) });
        self.seen += u64::from(outcome.flag.is_some());
        self.innocent += u64::from(outcome.blames_innocent);
        self.wrong_slips += outcome.wrong_slips;
        let delays = [outcome.flag, outcome.suspect, right.map(|(_, _, delay)| delay)];
        for (list, delay) in self.delays.iter_mut().zip(delays) {
            list.extend(delay);
        }
        if right.is_none() {
            let other = match outcome.verdict {
                Some((_, verdict, _)) => {
                    let text = format!("{verdict:?}");
                    text.split([' ', '(']).next().unwrap_or_default().to_owned()
                }
                None => "none".to_owned(),
            };
            *self.others.entry(other).or_default() += 1;
        }
    }

    /// Adds the trials of a pattern and a division to a sum.
    pub(super) fn add(&mut self, other: &Self, pattern: Pattern) {
        self.seen += other.seen;
        self.innocent += other.innocent;
        self.wrong_slips += other.wrong_slips;
        for (text, count) in &other.others {
            *self.others.entry(text.clone()).or_default() += count;
        }
        if pattern.is_bursty() {
            self.bursty.add(other.all);
            return;
        }
        let is_periodic = matches!(pattern, Pattern::Periodic { .. });
        if is_periodic { &mut self.periodic } else { &mut self.all }.add(other.all);
        let worst = self.worst.entry(other.builders).or_default();
        for (worst, delays) in worst.iter_mut().zip(&other.delays) {
            *worst = (*worst).max(delay(delays));
        }
    }

    pub(super) fn row(&self) -> FaultRow {
        let trials = self.trials();
        let shown = |which: usize| {
            if self.worst.is_empty() {
                return text(delay(&self.delays[which]));
            }
            let worst: Vec<String> = self.worst.values().map(|delays| text(delays[which])).collect();
            worst.join(", ")
        };
        let mut others: Vec<_> = self.others.iter().collect();
        others.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let others: Vec<String> =
            others.iter().take(3).map(|(text, count)| format!("{count} × {text}")).collect();
        FaultRow {
            pattern: self.pattern.clone(),
            builders: self.builders,
            fault: self.fault.clone(),
            trials,
            seen: percent(self.seen, trials),
            innocent: percent(self.innocent, self.seen),
            flag: shown(0),
            suspect: shown(1),
            verdict: shown(2),
            right: self.all.percent(),
            right_in_bursts: self.bursty.percent(),
            right_if_periodic: self.periodic.percent(),
            wrong_slips: self.wrong_slips,
            others: if others.is_empty() { "–".to_owned() } else { others.join(", ") },
        }
    }
}

fn percent(part: u64, all: u64) -> f64 {
    if all == 0 { 0.0 } else { (part as f64 * 1000.0 / all as f64).round() / 10.0 }
}

fn delay(delays: &[u64]) -> Option<Delay> {
    let mut sorted = delays.to_vec();
    sorted.sort_unstable();
    Some(Delay { median: *sorted.get(sorted.len() / 2)?, most: *sorted.last()? })
}

fn text(delay: Option<Delay>) -> String {
    delay.map_or_else(|| "–".to_owned(), |delay| format!("{}/{}", delay.median, delay.most))
}

impl FaultRow {
    pub(super) const HEAD: [&'static str; 10] = [
        "fault",
        "trials",
        "seen %",
        "flag",
        "suspect",
        "verdict",
        "right %",
        "periodic %",
        "bursts %",
        "others",
    ];

    /// Returns the cells of a table.
    pub(super) fn cells(&self) -> Vec<String> {
        let number = |number: f64| format!("{number:.1}");
        vec![
            self.fault.clone(),
            self.trials.to_string(),
            number(self.seen),
            self.flag.clone(),
            self.suspect.clone(),
            self.verdict.clone(),
            number(self.right),
            number(self.right_if_periodic),
            number(self.right_in_bursts),
            self.others.clone(),
        ]
    }
}
