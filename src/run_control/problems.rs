//! Current problems of a run: the source, builder or other part concerned, a description, and
//! advice.

use evb_core::{
    ledger::fraction,
    quantities::{counted, size},
    supervisor::{AlignmentState, BuilderSurvey, FilterSurvey, Presence, SourceSurvey, Survey},
    trigger::{announcement::MAX_COUNT, numbers::AnnouncementCounts},
    units::Bytes,
};
use serde::Serialize;

use super::history::{CauseFraction, Sample};

/// Severity of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Data are lost or missing, or will be.
    Bad,
    /// The problem costs no data yet, but an operator should look at it.
    Warning,
}

/// A problem of a run.
///
/// ```
/// use evb::{run_control::{Problem, Severity}, supervisor::Survey};
///
/// let mut survey = Survey { running_s: 1.0, ..Survey::default() };
/// assert_eq!(Problem::of(&survey), []);
/// survey.events.lost = 3;
/// let problem = &Problem::of(&survey)[0];
/// assert_eq!((problem.severity, &problem.text[..]), (Severity::Bad, "3 events lost"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// Severity of the problem.
    pub severity: Severity,
    /// The source, builder or other part that the problem concerns.
    pub subject: String,
    /// Description of the problem.
    pub text: String,
    /// Advice on how to solve the problem.
    pub remedy: String,
}

impl Problem {
    /// Returns the problems of a run, the worst first. Run control knows one more, dead time, from
    /// its history.
    pub fn of(survey: &Survey) -> Vec<Self> {
        problems(survey, None)
    }

    fn new(severity: Severity, subject: impl Into<String>, text: impl Into<String>, remedy: &str) -> Self {
        Self { severity, subject: subject.into(), text: text.into(), remedy: remedy.to_owned() }
    }
}

/// Limit of the number of problems that are listed; further problems are only counted.
const LISTED: usize = 20;

/// Fraction of inhibited triggers from which dead time is a problem.
const DEAD_TIME: f64 = 0.01;

/// Fraction of inhibited triggers from which dead time is a severe problem.
const MUCH_DEAD_TIME: f64 = 0.2;

/// Fraction of free space below which a file system counts as nearly full.
const NEARLY_FULL: f64 = 0.05;

/// Time, in seconds, without an accepted event after which a sink that holds events counts as slow.
const SLOW_SINK: f64 = 2.0;

/// Age, in seconds, from which a peer's report counts as old.
const OLD_REPORT: f64 = 5.0;

/// Returns the problems of a run, the worst first.
pub(super) fn problems(survey: &Survey, latest: Option<&Sample>) -> Vec<Problem> {
    let mut found = Vec::new();
    if survey.running_s == 0.0 {
        before_the_run(survey, &mut found);
        of_groups(survey, Severity::Warning, "the run cannot start", &mut found);
    } else {
        survey.sources.iter().for_each(|source| of_source(source, &mut found));
        found.extend(survey.sources.iter().filter_map(of_timestamps));
        survey.builders.iter().for_each(|builder| of_builder(builder, &mut found));
        of_groups(survey, Severity::Bad, "the run takes no triggers", &mut found);
        of_events(survey, &mut found);
        of_triggers(&survey.triggers, &mut found);
        latest.into_iter().for_each(|sample| of_dead_time(&sample.dead_time, &mut found));
    }
    found.sort_by_key(|problem| problem.severity);
    let more = found.len().saturating_sub(LISTED);
    if more > 0 {
        found.truncate(LISTED);
        let text = format!("and {}", counted(more, "more problem"));
        found.push(Problem::new(Severity::Warning, "the system", text, "fix the problems above first"));
    }
    found
}

/// Finds the sources and builders that left before the run, or cannot take part, and the sources
/// that have no front end yet.
fn before_the_run(survey: &Survey, found: &mut Vec<Problem>) {
    let sources = survey.sources.iter().map(|seat| (seat.named(), seat.presence, &seat.parting));
    let builders = survey.builders.iter().map(|seat| (seat.named(), seat.presence, &seat.parting));
    let up = survey.sources.iter().filter(|source| source.presence == Presence::Up);
    found.extend(up.filter_map(unconnected));
    let remedy =
        "start it again once the cause is gone, which the end of its log names; until then, it takes no part";
    for (subject, _, reason) in sources
        .chain(builders)
        .filter(|(_, presence, reason)| *presence == Presence::Absent && !reason.is_empty())
    {
        found.push(Problem::new(Severity::Warning, subject, format!("has left: {reason}"), remedy));
    }
}

/// Returns the problem of a source that should have a front end, and has none.
fn unconnected(source: &SourceSurvey) -> Option<Problem> {
    let front_ends = source.front_ends?;
    let remedy = "events lack its fragments until one is: start its front end, and check the address to which it connects";
    let problem = || Problem::new(Severity::Warning, source.named(), "no front end is connected", remedy);
    (front_ends.expected > 0 && front_ends.connected == 0).then(problem)
}

/// Returns the problem of a source whose timestamps disagree with those of others.
fn of_timestamps(source: &SourceSurvey) -> Option<Problem> {
    let alignment = source.alignment.as_ref()?;
    let (since, sentence) = (alignment.since, &alignment.sentence);
    let (severity, text, remedy) = match alignment.state {
        AlignmentState::Agrees => return None,
        AlignmentState::Doubted => (
            Severity::Warning,
            format!("its timestamps disagree with the others since event {since}"),
            "wait: evb compares the last timestamps of all sources, and says here what happened",
        ),
        AlignmentState::Misaligned => (
            Severity::Bad,
            format!("in wrong events since event {since}: it {sentence}"),
            "stop the run, check the trigger input of its boards, reset them, and start a new run; if only its clock was changed, and its fragments are right, use `evbd ctl learn` with its id",
        ),
    };
    Some(Problem::new(severity, source.named(), text, remedy))
}

/// Returns the word `absent`, with the reason if there is one.
fn absent(reason: &str) -> String {
    if reason.is_empty() { "absent".to_owned() } else { format!("absent ({reason})") }
}

/// Returns the number of events that were built without a source.
fn closed_without(source: &SourceSurvey) -> String {
    format!("{} built without it", counted(source.missing + source.absent, "event"))
}

/// Finds what is wrong with a source.
fn of_source(source: &SourceSurvey, found: &mut Vec<Problem>) {
    // An operator knows what is wrong with a source that is excluded.
    if source.exclusion.is_some() {
        return;
    }
    let subject = source.named();
    // Events are complete without an expendable source.
    let severity = if source.expendable { Severity::Warning } else { Severity::Bad };
    match source.presence {
        Presence::Absent => found.push(Problem::new(
            severity,
            &subject,
            format!("{}; {}", absent(&source.parting), closed_without(source)),
            "look at the end of its log, then start it again",
        )),
        Presence::Silent => found.push(Problem::new(
            severity,
            &subject,
            format!("silent, without any sign of life; {}", closed_without(source)),
            "check that its process and its host are running",
        )),
        Presence::Connecting => found.push(Problem::new(
            Severity::Warning,
            &subject,
            "not connected to all builders",
            "it tries again by itself; its log says which builder it does not reach: check that one and the network",
        )),
        Presence::NoReadout => found.push(no_readout(source)),
        Presence::Up => found.extend(unconnected(source)),
    }
    let malformed = source.live.as_ref().and_then(|live| live.unused.get("malformed").copied());
    if let Some(malformed @ 1..) = malformed {
        let text = format!("its front end sent {} that cannot be read", counted(malformed, "fragment"));
        let remedy = "these are lost; the log of this source says what was wrong with them: correct that in the front end";
        found.push(Problem::new(Severity::Bad, &subject, text, remedy));
    }
    if let Some(live) = &source.live
        && live.refused > 0
    {
        let text = format!("refused {} of its readout, now lost", counted(live.refused, "fragment"));
        let remedy = "its log names the events and the cause: correct the readout, or raise `max_fragment` if they are too large";
        found.push(Problem::new(Severity::Bad, &subject, text, remedy));
    }
    of_frames(source, found);
    of_counter(source, found);
    if let Some(live) = &source.live
        && let Some(first) = live.contradiction
    {
        let text = format!("two different fragments for {}; {first}", counted(live.contradictions, "event"));
        let remedy = "evb keeps the first of each: look whether its front end sent fragments of an earlier run, \
                      and compare the event ids of its readout with those of other sources";
        found.push(Problem::new(Severity::Bad, &subject, text, remedy));
    }
}

/// Adds the problem of a source whose boards send bytes that are no frames.
fn of_frames(source: &SourceSurvey, found: &mut Vec<Problem>) {
    let garbage = source.live.as_ref().map_or(0, |live| live.garbage_bytes);
    if garbage > 0 {
        let text = format!("its board sent {garbage} B that belong to no frame");
        let remedy = "these are lost; the log of this source says what was wrong: compare what the board sends with `frame` (`evbd frames` decodes a capture)";
        found.push(Problem::new(Severity::Bad, source.named(), text, remedy));
    }
}

/// Adds the problem of a source whose boards' trigger counter gives its fragments no event.
fn of_counter(source: &SourceSurvey, found: &mut Vec<Problem>) {
    let Some(live) = &source.live else { return };
    let fragments = live.unplaced + live.lost_wraps + live.counter_invalid;
    let remedy = if live.unplaced > 0 {
        "these are lost; its log says what was read: reset its boards before a run and never in one, or correct its `counter`, then start a new run"
    } else if live.lost_wraps > 0 {
        "these are lost; its log says what was read: find out why its boards were silent, then start a new run"
    } else {
        "these are lost; its log says what was read: correct its `counter`, or what its boards send"
    };
    if fragments > 0 {
        let text = format!("its trigger counter gives {} no event", counted(fragments, "fragment"));
        found.push(Problem::new(Severity::Bad, source.named(), text, remedy));
    }
}

/// Returns the problem of a source whose readout is silent or gone.
fn no_readout(source: &SourceSurvey) -> Problem {
    let age = source.live.as_ref().and_then(|live| live.last_fragment_age_s);
    let since =
        age.map_or_else(|| "no fragment yet".to_owned(), |age| format!("last fragment {age:.0} s ago"));
    let (connected, remedy) = match source.front_ends {
        Some(front_ends) if front_ends.connected == 0 => (
            "no front end is connected, ".to_owned(),
            "start its front end again; if it runs, check the address to which it connects",
        ),
        Some(front_ends) => (
            format!("front ends connected: {front_ends}, "),
            "check that its front end runs and gets triggers; evb waits for its next fragment",
        ),
        None => {
            (String::new(), "check that its readout runs and gets triggers; evb waits for its next fragment")
        }
    };
    // At the end of a run, a front end that has sent everything may go.
    let severity = if source.missing == 0 { Severity::Warning } else { Severity::Bad };
    let text = format!("no readout: {connected}{since}; {}", closed_without(source));
    Problem::new(severity, source.named(), text, remedy)
}

/// Finds what is wrong with a builder.
fn of_builder(builder: &BuilderSurvey, found: &mut Vec<Problem>) {
    let subject = builder.named();
    match builder.presence {
        Presence::Absent if builder.incarnation == 0 && builder.parting.is_empty() => {
            found.push(Problem::new(
                Severity::Bad,
                &subject,
                "has not registered; the other builders build its events",
                &format!("start it, or remove it with `evbd ctl remove-builder {}`", builder.id),
            ));
        }
        Presence::Absent => found.push(Problem::new(
            Severity::Bad,
            &subject,
            format!("{}; the other builders build its events", absent(&builder.parting)),
            "look at the end of its log, then start it again",
        )),
        Presence::Silent => found.push(Problem::new(
            Severity::Bad,
            &subject,
            "silent, without any sign of life; it gets no new events",
            "check that its process and its host are running",
        )),
        // Only a source has a readout.
        Presence::Connecting | Presence::Up | Presence::NoReadout => {}
    }
    let Some(live) = &builder.live else { return };
    if builder.presence == Presence::Up && live.age_s > OLD_REPORT {
        let text = format!("has not reported for {:.0} s, though it is connected", live.age_s);
        let remedy = "its figures here are old: check whether its host or the network to it is overloaded";
        found.push(Problem::new(Severity::Warning, &subject, text, remedy));
    }
    if let (Some(free), Some(all)) = (live.sink_free_bytes, live.sink_size_bytes)
        && fraction(free as f64, all as f64) < NEARLY_FULL
    {
        let text = format!("its sink has {} left of {}", size(Bytes::new(free)), size(Bytes::new(all)));
        let severity = if free == 0 { Severity::Bad } else { Severity::Warning };
        let remedy = "make room on the file system that its sink's `path` names: when it is full, events wait, and then triggers are inhibited";
        found.push(Problem::new(severity, &subject, text, remedy));
    }
    if builder.presence == Presence::Up
        && builder.at_sink > 0
        && let Some(age) = live.last_commit_age_s.filter(|age| *age > SLOW_SINK)
    {
        let waiting = counted(builder.at_sink, "event");
        let text = format!("its sink has accepted nothing for {age:.0} s, with {waiting} waiting");
        found.push(Problem::new(
            Severity::Bad,
            &subject,
            text,
            "no event is lost yet, and it tries again by itself: check its disk; its log has the error of the sink",
        ));
    }
    found.extend(live.filter.as_ref().and_then(|filter| of_filter(filter, &subject)));
    if live.crc_errors > 0 {
        let text = format!("received {} with a wrong checksum", counted(live.crc_errors, "fragment"));
        found.push(Problem::new(
            Severity::Bad,
            &subject,
            text,
            "their events lack them: check the memory of its host and of the sources' hosts, and the network",
        ));
    }
}

/// Returns the problem of a builder whose filter has left events without a verdict, or replaces its
/// processes.
fn of_filter(filter: &FilterSurvey, subject: &str) -> Option<Problem> {
    let FilterSurvey { failed, restarts, fault, .. } = filter;
    let cause = if fault.is_empty() { String::new() } else { format!("; at last, {fault}") };
    if *failed > 0 {
        let text = format!("its filter did not judge {}{cause}", counted(*failed, "event"));
        let remedy = "`on_failure` has kept or dropped these events, which its log names: correct the program of the filter before the next run";
        return Some(Problem::new(Severity::Bad, subject, text, remedy));
    }
    (*restarts > 0).then(|| {
        let text = format!("evb has started {} of its filter again{cause}", counted(*restarts, "worker"));
        let remedy = "other workers judged their events, and none is lost: look at the program of the filter when there is time";
        Problem::new(Severity::Warning, subject, text, remedy)
    })
}

/// Finds whether events were lost or incomplete.
fn of_events(survey: &Survey, found: &mut Vec<Problem>) {
    let events = &survey.events;
    if events.lost > 0 {
        let text = format!("{} lost", counted(events.lost, "event"));
        found.push(Problem::new(
            Severity::Bad,
            "the run",
            text,
            "the logs of the builders name these events with the causes: correct the causes before the next run",
        ));
    }
    if events.incomplete > 0 {
        let text = format!("{} built with sources missing", counted(events.incomplete, "event"));
        found.push(Problem::new(
            Severity::Warning,
            "the run",
            text,
            "the list of sources names those that are missing; look at their logs, and start them again if they are down",
        ));
    }
}

/// Finds the groups of which too few sources take part.
fn of_groups(survey: &Survey, severity: Severity, then: &str, found: &mut Vec<Problem>) {
    for group in survey.groups.iter().filter(|group| group.present < group.at_least) {
        let (present, at_least) = (group.present, group.at_least);
        let text = format!("{present} of at least {at_least} sources take part, so {then}");
        let remedy = "start the others, or include them again with `evbd ctl include`; the list of sources shows what keeps each away";
        found.push(Problem::new(severity, format!("group {}", group.name), text, remedy));
    }
}

/// Finds announced triggers that cannot be taken.
fn of_triggers(triggers: &AnnouncementCounts, found: &mut Vec<Problem>) {
    let subject = "the trigger program";
    if triggers.restarts > 0 {
        let text = format!(
            "it counts from the beginning again; {} announcements are ignored, and make no events",
            triggers.repeated
        );
        let remedy = "stop this run, and start the next one together with the trigger program, so that both count from 1";
        found.push(Problem::new(Severity::Bad, subject, text, remedy));
    }
    if triggers.too_far_ahead > 0 {
        let text = format!(
            "{} announcements are more than {MAX_COUNT} triggers ahead, and make no events",
            triggers.too_far_ahead
        );
        let remedy = "let its trigger numbers begin with 1 at the start of the run, and rise by 1";
        found.push(Problem::new(Severity::Bad, subject, text, remedy));
    }
}

/// Finds the causes that inhibit more than a small part of the triggers.
fn of_dead_time(dead_time: &[CauseFraction], found: &mut Vec<Problem>) {
    for cause in dead_time.iter().filter(|cause| cause.fraction > DEAD_TIME) {
        let text = format!("{:.1} % of the triggers are inhibited", cause.fraction * 100.0);
        let is_much = cause.fraction > MUCH_DEAD_TIME;
        let severity = if is_much { Severity::Bad } else { Severity::Warning };
        found.push(Problem::new(severity, &cause.cause, text, against_dead_time(&cause.cause)));
    }
}

/// Returns what an operator can do against a cause of dead time.
fn against_dead_time(cause: &str) -> &'static str {
    match cause {
        "paused" => "when the reason for the pause is over, go on with `evbd ctl resume`",
        "the supervisor was restarted" => "wait: triggers are taken again when sources and builders are back",
        "the supervisor waits for the disk of its journal" => {
            "check the disk to which the supervisor writes its journal; triggers are taken again when it answers"
        }
        "no source is up" => "start the sources; their logs say why they left",
        cause if cause.starts_with("at_least ") || cause.starts_with("too few sources of a group ") => {
            "the list of sources shows those of the group that are away: start them, or include them with `evbd ctl include`"
        }
        "no readout" => "start the readout programs of the sources, or look at their logs",
        "no builder is up" => "start the builders; their logs say why they left",
        "builders are busy" => {
            "this limits the rate of the run: add builders, give them more `slots`, or trigger less often"
        }
        cause if cause.starts_with("sink of ") => {
            "this limits the rate of the run: check the disk or program to which it writes, or trigger less often"
        }
        cause if cause.starts_with("source ") => {
            "this limits the rate of the run: look at its readout and its network, or trigger less often"
        }
        _ => "the report of the run names the causes: correct those with the most triggers first",
    }
}

#[cfg(test)]
mod tests;
