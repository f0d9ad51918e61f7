//! The rules of clocks: whether the timestamps can be compared.

#[cfg(test)]
mod tests;

use evb_core::{alignment::DetectorClock, id::SourceId, units::Frequency};

use crate::{
    Config, Origin, Problem, Severity,
    alignment::{clocks, detector_time, seconds},
};

/// Wrap that the hosts' times of triggers tell apart: hosts know these times to a second, which
/// must be less than a quarter of the wrap.
const LEAST_WRAP: f64 = 4.0;

/// Time that the lead must count without a wrap where no host tells its wraps apart, if the length
/// of the run is not known.
const LONG_RUN: f64 = 3600.0;

/// Returns the rules of clocks that a configuration breaks.
pub(super) fn problems(config: &Config, origin: &Origin) -> Vec<Problem> {
    let clocks = clocks(config);
    let (rules, id) = (config.alignment(), |(id, _): &(SourceId, DetectorClock)| *id);
    let Some(lead) = clocks.iter().find(|clock| Some(id(clock)) == rules.lead) else {
        return Vec::new();
    };
    let lead_id = id(lead);
    let at = |source: SourceId, severity, reason, remedy| Problem {
        severity,
        key: "source.clock".to_owned(),
        span: origin.span_of("source.clock", Some(source.number())),
        reason,
        remedy,
    };
    if clocks.len() == 1 {
        let reason = format!(
            "only source {} has a `clock`, and timestamps can be compared only between two clocks: a board that misses a trigger would not be noticed",
            lead_id
        );
        let remedy =
            "give another source a `clock`, or remove this one: the run starts all the same".to_owned();
        return vec![at(lead_id, Severity::Warning, reason, remedy)];
    }
    let mut problems: Vec<Problem> = Vec::new();
    if let Some((reason, remedy)) = short_wrap(config, lead, &clocks) {
        let mut problem = at(lead_id, Severity::Error, reason, remedy);
        if config.alignment.lead.is_some() {
            problem.key = "alignment.lead".to_owned();
            problem.span = origin.span("alignment.lead");
        }
        problems.push(problem);
    }
    for (source, clock) in clocks.iter().filter(|clock| id(clock) != lead_id) {
        if let Some((reason, remedy)) = low_tolerance(clock, lead) {
            let reason = format!("source {source}: {reason}");
            problems.push(at(*source, Severity::Warning, reason, remedy));
        }
    }
    problems
}

/// Returns reason and remedy if the wraps of the lead cannot be told apart.
fn short_wrap(
    config: &Config,
    (lead, clock): &(SourceId, DetectorClock),
    clocks: &[(SourceId, DetectorClock)],
) -> Option<(String, String)> {
    let wrap = clock.wrap_seconds();
    // Boards that read one common clock are all wrong by the same wrap, so they still agree.
    let is_common =
        |(_, other): &(SourceId, DetectorClock)| other.wrap_seconds() == wrap && other.accuracy == 0.0;
    if clocks.iter().all(is_common) {
        return None;
    }
    let (needed, why) = if config.alignment().uses_host_times {
        (LEAST_WRAP, "hosts know the time of a trigger to about a second only".to_owned())
    } else {
        let (time, run) = match detector_time(config) {
            Some(time) => (time, format!("the run takes {} of its time", seconds(time))),
            None => (LONG_RUN, "the run may take longer".to_owned()),
        };
        (time, format!("{run}, and the triggers do not tell how often it has started again"))
    };
    // A wrap of exactly that length does not happen within the run.
    if wrap >= needed {
        return None;
    }
    let reason = format!(
        "source {lead} counts time for the others, but its clock starts at zero again after {}: {why}, so its timestamps could not be compared with others",
        seconds(wrap)
    );
    let longest =
        clocks.iter().max_by(|(_, one), (_, other)| one.wrap_seconds().total_cmp(&other.wrap_seconds()));
    let remedy = match longest {
        Some((other, longest)) if longest.wrap_seconds() >= needed => {
            let after = seconds(longest.wrap_seconds());
            format!(
                "write lead = {other} in [alignment], as the clock of source {other} starts at zero again only after {after}"
            )
        }
        _ => format!(
            "give a source a clock that wraps after {} or later, or, if all boards have one common clock, give all the same wrap and accuracy = \"0 ppm\"",
            seconds(needed)
        ),
    };
    Some((reason, remedy))
}

/// Returns reason and remedy if healthy timestamps may exceed the tolerance by their ticks alone.
fn low_tolerance(
    clock: &DetectorClock,
    (lead, counts): &(SourceId, DetectorClock),
) -> Option<(String, String)> {
    let tick = |rate: Frequency| rate.period_nanos();
    let least = 2.0 * (tick(clock.rate) + tick(counts.rate));
    let tolerance = clock.tolerance.as_secs_f64();
    if tolerance * 1e9 >= least {
        return None;
    }
    let reason = format!(
        "the tolerance of {} is less than {} ns, twice the sum of a tick of this clock and one of that of source {lead}, which counts time for the others: good fragments may count as misaligned",
        seconds(tolerance),
        least.ceil()
    );
    Some((
        reason,
        format!(
            "write tolerance = \"{} ns\", and more by twice the jitter of the board if it has any",
            least.ceil()
        ),
    ))
}
