//! Formats a table of the pause and the recovery time that every kind of fault has caused.

use std::{collections::BTreeMap, time::Duration};

use serde_json::{Value, json};

use super::director::Overcome;

/// One line of the table: kind of fault and role, and all such faults.
type Line<'a> = ((&'static str, &'static str), Vec<&'a Overcome>);

pub(crate) fn show(overcome: &[Overcome]) -> String {
    let mut text = format!(
        "{:<12} {:<11} {:>5} {:>12} {:>12} {:>14} {:>14}\n",
        "fault", "of", "times", "pause p50 ms", "pause max ms", "whole p50 ms", "whole max ms"
    );
    for ((kind, role), faults) in lines(overcome) {
        let (pause, whole) = (quantiles(&faults, |one| one.pause), quantiles(&faults, |one| one.whole_after));
        text += &format!(
            "{kind:<12} {role:<11} {:>5} {:>12} {:>12} {:>14} {:>14}\n",
            faults.len(),
            pause.0.as_millis(),
            pause.1.as_millis(),
            whole.0.as_millis(),
            whole.1.as_millis()
        );
    }
    text
}

pub(crate) fn json(overcome: &[Overcome]) -> Value {
    let one = |one: &Overcome| {
        json!({
            "fault": one.fault.kind.name(),
            "host": one.fault.host,
            "lasts_s": one.fault.lasts.as_secs_f64(),
            "pause_s": one.pause.as_secs_f64(),
            "whole_after_s": one.whole_after.as_secs_f64(),
        })
    };
    overcome.iter().map(one).collect()
}

fn lines(overcome: &[Overcome]) -> Vec<Line<'_>> {
    let mut lines: BTreeMap<_, (_, Vec<&Overcome>)> = BTreeMap::new();
    for one in overcome {
        let role = match one.fault.host.as_bytes() {
            b"sup" => "supervisor",
            [b's', ..] => "source",
            _ => "builder",
        };
        let line = lines.entry((one.fault.kind, role)).or_insert_with(|| (one.fault.kind.name(), Vec::new()));
        line.1.push(one);
    }
    lines.into_iter().map(|((_, role), (kind, faults))| ((kind, role), faults)).collect()
}

/// Returns the median and the maximum of a time of the faults.
fn quantiles(faults: &[&Overcome], of: impl Fn(&Overcome) -> Duration) -> (Duration, Duration) {
    let mut times: Vec<Duration> = faults.iter().map(|one| of(one)).collect();
    times.sort();
    (times.get(times.len() / 2).copied().unwrap_or_default(), times.last().copied().unwrap_or_default())
}
