//! [`Memory`] records the resident memory of every process during a run, and checks that it does
//! not grow.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use lab_base::{
    fleet::Fleet,
    report::{Bound, Report},
};
use serde_json::{Value, json};

const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Largest allowed growth of a process's memory from the first to the last quarter of a run: a
/// share of the memory, plus a number of MiB.
const GROWTH: (f64, f64) = (0.1, 1.0);

/// Resident memory of each process in KiB, by host.
type Sample = BTreeMap<String, u64>;

/// Resident memory of each process of a run, sampled once a second.
#[derive(Default)]
pub(crate) struct Memory {
    samples: Vec<(Duration, Sample)>,
}

impl Memory {
    pub(crate) fn look(&mut self, now: Duration, fleet: &Fleet) {
        let each = fleet.processes.iter().filter(|process| process.code.is_none());
        self.note(now, each.map(|process| (process.host.clone(), process.rss_kib)).collect());
    }

    fn note(&mut self, now: Duration, sample: Sample) {
        if self.samples.last().is_none_or(|(then, _)| now >= *then + LOOK_EVERY) {
            self.samples.push((now, sample));
        }
    }

    /// Checks for each process that its largest memory in the last quarter after the warm-up is not
    /// much more than in the first quarter.
    pub(crate) fn judge(&self, name: &str, warm_up: Duration, report: &mut Report) {
        for (host, before, after) in self.quarters(warm_up) {
            let what = format!("{name}: MiB of {host} at the end, {before:.1} in the first quarter");
            report.holds(&what, after, Bound::AtMost(before * (1.0 + GROWTH.0) + GROWTH.1));
        }
    }

    /// Returns all samples as JSON: the memory of each process in KiB, once a second.
    pub(crate) fn json(&self) -> Value {
        let one = |(now, kib): &(Duration, Sample)| json!({ "s": now.as_secs_f64(), "kib": kib });
        self.samples.iter().map(one).collect()
    }

    /// Returns for each host the largest memory in the first and in the last quarter after the
    /// warm-up, in MiB.
    pub(crate) fn quarters(&self, warm_up: Duration) -> Vec<(String, f64, f64)> {
        let warm = &self.samples[self.samples.partition_point(|(now, _)| *now < warm_up)..];
        let quarter = warm.len() / 4;
        let largest = |host: &str, samples: &[(Duration, Sample)]| {
            let each = samples.iter().filter_map(|(_, all)| all.get(host));
            each.max().map_or(f64::NAN, |kib| *kib as f64 / 1024.0)
        };
        let hosts: BTreeSet<&String> = warm.iter().flat_map(|(_, all)| all.keys()).collect();
        let last = warm.len() - quarter;
        let both =
            |host: &String| (host.clone(), largest(host, &warm[..quarter]), largest(host, &warm[last..]));
        hosts.into_iter().map(both).collect()
    }
}

#[cfg(test)]
mod tests;
