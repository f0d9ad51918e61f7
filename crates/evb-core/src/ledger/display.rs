//! A run's report as text: outcome, sum, rates, dead time, problems, remarks.

#[cfg(test)]
mod tests;

use core::{cmp::Reverse, fmt, time::Duration};
use std::collections::BTreeSet;

use super::{EventCounts, RunReport};
use crate::{
    event::Cause,
    quantities,
    units::{Bytes, Rate},
};

/// Number of causes of dead time that are named.
const CAUSES: usize = 3;

/// Number of sources that are named without which events are complete.
const NAMED_ABSENCES: usize = 3;

/// Outcome of a run that was stopped before it began.
const NEVER_BEGAN: &str = "stopped before it began";

/// The outcome in one line, the closed ledger as a sum, and in further lines what is worth knowing
/// at first: rates, dead time and its causes, problems, remarks.
impl fmt::Display for RunReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "run {} (id {}): {}", self.run, self.run_id.short(), self.outcome())?;
        if self.events.triggered > 0 {
            write!(f, "\n  {}\n  {}", sum(&self.events), rates(self))?;
        }
        if let Some(dead_time) = dead_time(self) {
            write!(f, "\n  {dead_time}")?;
        }
        self.problems.iter().try_for_each(|problem| write!(f, "\n  problem: {problem}"))?;
        self.remarks.iter().try_for_each(|remark| write!(f, "\n  remark: {remark}"))
    }
}

impl RunReport {
    /// Returns the counts of events that the run was for; the problems are not among them.
    pub(crate) fn outcome(&self) -> String {
        let events = &self.events;
        if events.assigned == 0 && !self.problems.is_empty() {
            return "failed".to_owned();
        }
        if events.triggered == 0 && !self.begin.is_known() {
            return NEVER_BEGAN.to_owned();
        }
        let mut text = format!("{} of {} assigned events complete", events.complete, events.assigned);
        if let Some(without) = self.complete_without() {
            text += &format!(" (of these, {without})");
        }
        for (what, count) in [
            ("incomplete", events.incomplete),
            ("rejected by a filter", events.rejected),
            ("lost", events.lost),
        ] {
            if count > 0 {
                text += &format!(", {count} {what}");
            }
        }
        text
    }
}

impl RunReport {
    /// Names the sources without which events are complete, and those whose fragments lost packets,
    /// with the number of these events; `None` if all complete events are whole.
    fn complete_without(&self) -> Option<String> {
        let absences = self.sources.iter().flat_map(|source| {
            source.absent_by_cause.iter().map(|(cause, events)| (*events, source.id, *cause))
        });
        let mut absences: Vec<(u64, u16, Cause)> = absences.collect();
        absences.sort_by_key(|(events, id, _)| (Reverse(*events), *id));
        let named = absences.iter().take(NAMED_ABSENCES);
        let mut texts: Vec<String> =
            named.map(|(events, id, cause)| format!("{events} without source {id} ({cause})")).collect();
        let others: BTreeSet<u16> = absences.iter().skip(NAMED_ABSENCES).map(|(_, id, _)| *id).collect();
        texts.extend(
            (!others.is_empty()).then(|| {
                format!("and others without {}", quantities::counted(others.len(), "further source"))
            }),
        );
        let lossy = self.sources.iter().filter(|source| source.lossy > 0).take(NAMED_ABSENCES);
        texts.extend(
            lossy.map(|source| format!("{} with lost packets of source {}", source.lossy, source.id)),
        );
        (!texts.is_empty()).then(|| texts.join(", "))
    }
}

/// Returns the closed ledger as a sum.
fn sum(events: &EventCounts) -> String {
    let EventCounts { triggered, inhibited, complete, incomplete, lost, rejected, .. } = events;
    let triggers = quantities::counted(*triggered, "trigger");
    format!(
        "{triggers} = {complete} complete + {incomplete} incomplete + {lost} lost + {rejected} rejected + {inhibited} inhibited"
    )
}

fn rates(report: &RunReport) -> String {
    let events = quantities::digits(report.rates.events_per_s);
    let payload = quantities::rate(Rate::from_bytes_per_second(report.rates.payload_bytes_per_s as u64));
    let (size, time) = (quantities::size(Bytes::new(report.bytes.payload)), seconds(report.duration_s));
    format!("{events} events/s, {payload} of payload; {size} in {time}")
}

/// Describes the dead time with its causes; `None` if there was none.
fn dead_time(report: &RunReport) -> Option<String> {
    if report.events.inhibited == 0 {
        return None;
    }
    let part = quantities::digits(report.dead_time_fraction * 100.0);
    let mut text = format!("dead time: {part} % of the triggers were inhibited");
    let full = report.busy_fraction * report.duration_s;
    if full >= 1e-3 {
        text += &format!("; no builder had a free slot for {}", seconds(full));
    }
    for cause in report.dead_time.iter().take(CAUSES) {
        text += &format!("\n    {}: {}", quantities::counted(cause.inhibited, "trigger"), cause.cause);
    }
    if report.dead_time.len() > CAUSES {
        text += &format!("\n    {}", quantities::counted(report.dead_time.len() - CAUSES, "more cause"));
    }
    Some(text)
}

fn seconds(seconds: f64) -> String {
    quantities::time(Duration::try_from_secs_f64(seconds).unwrap_or_default())
}
