//! A snapshot of the run's state. A snapshot replaces the journal entries that led to the state, so
//! that a journal does not grow without limit.

#[cfg(test)]
mod tests;

use core::time::Duration;
use std::collections::BTreeMap;

use super::{RunPlan, SupervisorCore, books::Books, journal::What, roster::Roster, seats::Leaving};
use crate::{
    event::Cause,
    index::{BuilderIndex, SourceIndex},
    set::SourceSet,
    time::Instant,
    wire::journal::{
        Begun, BuilderTotals, CauseOfLoss, Change, Entry, Expectation, Finding, SourceTotals, Totals,
    },
};

/// Returns the first entry of a journal, which identifies the run.
pub(super) fn begun(plan: &RunPlan, seed: u64) -> Begun {
    Begun {
        run: plan.run.number(),
        epoch: plan.epoch.number(),
        seed,
        sources: plan.sources.iter().map(|id| id.number().into()).collect(),
        builders: plan.builders.iter().map(|id| id.number().into()).collect(),
        boot_id: plan.boot_id.clone(),
        run_id: plan.run_id,
    }
}

/// Returns entries that describe the present state of the supervisor and replace all earlier
/// entries.
pub(super) fn entries(core: &SupervisorCore, now: Instant) -> Vec<Entry> {
    let SupervisorCore { plan, intake, books, outbox, .. } = core;
    let mut whats = vec![
        What::Begun(begun(plan, intake.seed())),
        What::Epoch(outbox.epoch().number()),
        What::Totals(totals(core, now)),
    ];
    whats.extend(core.begun.clone().map(What::Begin));
    let (problems, failure) = books.findings().said();
    whats.extend(problems.iter().map(|problem| {
        let failure = failure == Some(problem);
        What::Finding(Finding { problem: problem.clone(), failure, ..Finding::default() })
    }));
    whats.extend(books.findings().remarks().iter().map(|remark| {
        What::Finding(Finding { problem: remark.clone(), remark: true, ..Finding::default() })
    }));
    let misaligned = core.watch.iter().flat_map(|watch| watch.misaligned());
    whats.extend(misaligned.map(|(source, known)| What::Judged(known.entry(source))));
    whats.extend(books.findings().episodes().iter().map(|episode| What::Episode(episode.message())));
    whats.extend(books.findings().exclusions().iter().map(|change| What::Exclusion(change.entry())));
    whats.push(What::Paused(intake.is_paused()));
    whats.extend(intake.rate().map(|rate| What::Rate(rate.hertz())));
    let entry = |at: Instant, what| Entry { at_ns: at.as_nanos(), what: Some(what) };
    let mut entries: Vec<Entry> = whats.into_iter().map(|what| entry(now, what)).collect();
    let stopping = |at| entry(at, What::Stopping("before".to_owned()));
    entries.extend(books.times().last_trigger_possible.map(stopping));
    entries.extend(books.exit_code().map(|code| entry(now, What::Ended(code.into()))));
    entries
}

/// Returns all counts and states that a new supervisor needs in place of the journal's entries so
/// far.
fn totals(core: &SupervisorCore, now: Instant) -> Totals {
    let SupervisorCore { roster, assigner, books, .. } = core;
    let positions = |set: &SourceSet| set.iter().map(|index| index as u32).collect();
    let builders = || roster.builders().positions();
    let lost_by_builders: u64 = builders().map(|index| books.total(index).all_lost()).sum();
    let nanos = |at: Option<Instant>| at.map_or(0, |at| at.as_nanos().max(1));
    let (counts, times) = (books.counts(), books.times());
    Totals {
        triggered: counts.triggered,
        inhibited: counts.inhibited,
        // The totals of each builder have the events that were lost with it.
        lost: counts.lost - lost_by_builders,
        roster_version: roster.version(),
        expectations: roster
            .audiences()
            .iter()
            .map(|(version, audience)| Expectation {
                version: *version,
                sources: positions(&audience.expected),
                quiet: positions(&audience.quiet),
                excluded: positions(&audience.excluded),
            })
            .collect(),
        up: positions(roster.up()),
        awaited: positions(roster.awaited()),
        excluded: positions(roster.owing().excluded()),
        released: positions(roster.owing().released()),
        sources: roster.sources().positions().map(|index| source(index, roster, books, now)).collect(),
        builders: builders().map(|index| builder(index, roster, books)).collect(),
        held: assigner.held(),
        blames: books.dead_time().blames(),
        losses: books
            .findings()
            .losses()
            .map(|(cause, events)| CauseOfLoss { cause: cause.clone(), events: *events })
            .collect(),
        first_trigger_ns: nanos(times.first_trigger),
        started_ns: nanos(times.started),
        last_completion_ns: nanos(times.last_completion),
    }
}

/// Returns a source's totals. The totals include the present absence of the source up to `now`; a
/// supervisor that reads the totals counts the rest of the absence.
fn source(index: SourceIndex, roster: &Roster, books: &Books, now: Instant) -> SourceTotals {
    let seat = roster.source(index);
    let down = seat.down.map_or(Duration::ZERO, |since| now.since(since));
    let pairs = |by_cause: &BTreeMap<Cause, u64>| {
        by_cause.iter().flat_map(|(cause, events)| [cause.code().into(), *events]).collect()
    };
    SourceTotals {
        incarnation: seat.incarnation,
        max_fragment: seat.max_fragment,
        missing: books.missing(index),
        down_ns: u64::try_from((seat.down_time + down).as_nanos()).unwrap_or(u64::MAX),
        down: seat.down.is_some(),
        missing_by_cause: pairs(books.missing_by_cause(index)),
        absent_by_cause: pairs(books.absent_by_cause(index)),
    }
}

/// Returns the totals of a builder for the journal.
fn builder(index: BuilderIndex, roster: &Roster, books: &Books) -> BuilderTotals {
    let seat = roster.builder(index);
    let membership = match seat.leaving {
        Leaving::No => Change::Added,
        Leaving::Asked | Leaving::Finishing => Change::Leaving,
        Leaving::Gone => Change::Gone,
    };
    BuilderTotals {
        id: seat.id.number().into(),
        incarnation: seat.incarnation,
        listen: seat.listen.clone(),
        over: seat.over,
        membership,
        past_payload_bytes: seat.past_payload_bytes,
        highest_run: seat.highest_in_messages(),
        ..books.builder_totals(index)
    }
}
