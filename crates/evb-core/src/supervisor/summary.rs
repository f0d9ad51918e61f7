//! Computes the report of a run from the supervisor's own counts, which are compared with the
//! peers' reports.

#[cfg(test)]
mod tests;

use core::time::Duration;

use super::{
    RunPlan, announcements,
    assigner::Assigner,
    books::Books,
    roster::Roster,
    source_findings::{self, NO_FINAL_REPORT},
};
use crate::{
    id::{BuilderId, Peer},
    index::{BuilderIndex, Per, SourceIndex},
    ledger::{
        BuilderSummary, ByteCounts, ClockSummary, LEDGER_OPEN, NOT_ASSIGNED, NetworkCounts, PathSummary,
        Percentiles, Rates, RefusalCounts, RunPath, RunReport, SourceSummary, fraction,
    },
    quantities::counted,
    time::{Instant, Utc, WallClock},
    trigger::numbers::AnnouncementCounts,
    wire::{
        control::{Begin, BuilderReport, FilterReport, LaneReport, MAX_REASON, SourceReport, plain},
        journal::BuilderCounts,
    },
};

/// The parts of the supervisor from which the report is computed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Summary<'a> {
    pub(super) plan: &'a RunPlan,
    pub(super) roster: &'a Roster,
    pub(super) assigner: &'a Assigner,
    pub(super) books: &'a Books,
    pub(super) begin: &'a Begin,
    pub(super) triggers: AnnouncementCounts,
    /// Time at which all events were settled.
    pub(super) drained: Instant,
}

impl<'a> Summary<'a> {
    /// Returns the report of the run.
    pub(super) fn report(&self) -> RunReport {
        let (plan, roster, books, times) = (self.plan, self.roster, self.books, self.books.times());
        let triggering = between(times.started, times.last_trigger_possible);
        let lanes = lane_sums(roster);
        let source = |index| self.source(index, &lanes[index]);
        let sources: Vec<_> = roster.sources().positions().map(source).collect();
        let builder = |index| self.builder(index, triggering);
        let builders: Vec<_> = roster.builders().positions().map(builder).collect();
        let mut events = books.counts();
        events.written = builders.iter().fold(0, |sum, builder| builder.written.saturating_add(sum));
        let payload = builders.iter().fold(0, |sum, builder| builder.payload_bytes.saturating_add(sum));
        let busy_time = between(times.first_trigger, times.last_completion).as_secs_f64();
        let began = if books.is_started() { self.begin.began() } else { WallClock::default() };
        let mut report = RunReport {
            run: plan.run.number(),
            run_id: plan.run_id,
            epoch: plan.epoch.number(),
            begin: began.utc,
            end: if books.is_started() { self.begin.utc(self.drained) } else { Utc::UNKNOWN },
            wall_clock: began.state,
            duration_s: between(times.started, Some(self.drained)).as_secs_f64(),
            events,
            triggers: self.triggers,
            bytes: ByteCounts { payload },
            rates: Rates {
                events_per_s: fraction((events.complete + events.incomplete) as f64, busy_time),
                payload_bytes_per_s: fraction(payload as f64, busy_time),
            },
            build_latency_us: self.build_latency().latency(),
            grant_path_us: self.grant_path(),
            dead_time_fraction: fraction(events.inhibited as f64, events.triggered as f64),
            dead_time: books.dead_time().causes(&plan.groups),
            busy_fraction: fraction(self.assigner.all_busy().as_secs_f64(), triggering.as_secs_f64()),
            network: NetworkCounts::of(self.source_reports(), lanes.iter(), self.reports()),
            paths: PathSummary::worst(self.paths()),
            security: self.refusal_counts(),
            clock: ClockSummary {
                shared: roster.sources().iter().all(|seat| seat.shared_clock)
                    && roster.builders().iter().all(|seat| seat.shared_clock),
                error_us: builders.iter().map(|builder| builder.clock_error_us).fold(0.0, f64::max),
            },
            sources,
            builders,
            changes: books.findings().exclusions().to_vec(),
            failure: books.findings().failure(),
            ..RunReport::default()
        };
        report.problems = self.problems(&report);
        report.remarks = self.remarks(&report);
        let spotless = report.problems.is_empty() && events.incomplete == 0 && events.lost == 0;
        report.exit_code = u8::from(!spotless);
        report.verdict = verdict(&report);
        report
    }

    /// Returns the paths in the final reports of the sources.
    fn paths(&self) -> impl Iterator<Item = PathSummary> + use<'a> {
        let roster = self.roster;
        let of_run = |path: &PathSummary| roster.builder_index(BuilderId::new(path.builder)).is_some();
        let reports =
            roster.sources().iter().filter_map(|seat| Some((seat.id.number(), seat.report.as_ref()?)));
        reports.flat_map(|(source, own)| PathSummary::of(source, own)).filter(of_run)
    }

    /// Returns the final reports of the sources.
    fn source_reports(&self) -> impl Iterator<Item = &'a SourceReport> + Clone + use<'a> {
        self.roster.sources().iter().filter_map(|seat| seat.report.as_ref())
    }

    /// Returns the final reports of the builders.
    fn reports(&self) -> impl Iterator<Item = &'a BuilderReport> + Clone + use<'a> {
        self.roster.builders().iter().filter_map(|seat| seat.report.as_ref())
    }

    /// Returns the counts of connections refused at the builders' ports. The driver adds the counts
    /// of the supervisor's own port.
    fn refusal_counts(&self) -> RefusalCounts {
        let mut counts = RefusalCounts::default();
        self.reports().filter_map(|report| report.refusals.as_ref()).for_each(|report| counts.add(report));
        counts
    }

    /// Returns the summary of a source; `lanes` contains the sums of its lanes at all builders.
    fn source(&self, index: SourceIndex, lanes: &LaneReport) -> SourceSummary {
        let seat = self.roster.source(index);
        let none = SourceReport::default();
        let last_report = seat.report.as_ref().unwrap_or(&none);
        SourceSummary {
            name: self.plan.name_of(Peer::Source(seat.id)).to_owned(),
            reported: seat.report.is_some(),
            missing: self.books.missing(index),
            missing_by_cause: self.books.missing_by_cause(index).clone(),
            absent: self.books.absent_by_cause(index).values().sum(),
            absent_by_cause: self.books.absent_by_cause(index).clone(),
            expendable: self.roster.owing().is_expendable(index),
            sporadic: self.roster.owing().is_sporadic(index),
            excluded: self.roster.owing().is_excluded(index),
            missing_at_end: match &seat.report {
                Some(report) => self.books.counts().triggered.saturating_sub(report.last_event),
                None => 0,
            },
            down_s: seat.down_time.as_secs_f64(),
            ..SourceSummary::of(seat.id.number(), last_report, lanes)
        }
    }

    fn grant_path(&self) -> RunPath {
        RunPath::of(self.reports(), self.source_reports())
    }

    fn build_latency(&self) -> Percentiles {
        let mut joined = Percentiles::default();
        self.reports().for_each(|report| joined.add(&report.latency_us, report.latency_max_us));
        joined
    }

    /// Returns the summary of a builder, from the ledger and from its last report.
    fn builder(&self, index: BuilderIndex, triggering: Duration) -> BuilderSummary {
        let seat = self.roster.builder(index);
        let (tally, busy) = (self.books.total(index), self.assigner.busy(index));
        let summary = seat.report.as_ref().map(|report| BuilderSummary::of(seat.id.number(), report));
        // If a builder sent no report, its written events are those that it completed according to
        // the ledger.
        let accepted = self.books.present(index).accepted();
        let written = summary.as_ref().map_or(accepted, |summary| summary.written);
        let summary = summary.unwrap_or_default();
        BuilderSummary {
            id: seat.id.number(),
            name: self.plan.name_of(Peer::Builder(seat.id)).to_owned(),
            assigned: tally.assigned,
            complete: tally.complete,
            incomplete: tally.incomplete,
            rejected: tally.rejected,
            lost: tally.all_lost(),
            written: written.saturating_add(self.books.past_written(index)),
            payload_bytes: summary.payload_bytes.saturating_add(seat.past_payload_bytes),
            busy_fraction: fraction(busy.as_secs_f64(), triggering.as_secs_f64()),
            protocol_faults: tally.faults,
            ..summary
        }
    }

    /// Returns all problems of the run, including contradictions in the ledger itself.
    fn problems(&self, report: &RunReport) -> Vec<String> {
        let mut problems = self.books.findings().sentences();
        if report.events.open() != Some(0) {
            problems.push(format!("{LEDGER_OPEN}: {:?}", report.events));
        }
        problems.extend(announcements::problems(&report.triggers));
        problems.extend(source_findings::problems(&report.sources, self.books.is_started()));
        for index in self.roster.builders().positions() {
            let seat = self.roster.builder(index);
            let (named, faults) = (self.plan.named(Peer::Builder(seat.id)), self.books.total(index).faults);
            if faults > 0 {
                problems.push(format!("{named} finished {} {NOT_ASSIGNED}", counted(faults, "event")));
            }
            match &seat.report {
                None if !self.books.is_started() || seat.incarnation == 0 => {}
                None if !seat.is_member() || seat.over => {}
                None => problems.push(format!("{named} {NO_FINAL_REPORT}")),
                Some(report) => {
                    problems.extend(mismatch(&named, self.books.present(index), report));
                    problems.extend((!report.gone.is_empty()).then(|| format!("{named}: {}", report.gone)));
                    problems.extend(report.filter.as_ref().and_then(|filter| unjudged(&named, filter)));
                }
            }
        }
        problems
    }

    /// Returns the incidents of the run that cost no event.
    fn remarks(&self, report: &RunReport) -> Vec<String> {
        let of_sources = source_findings::remarks(&report.sources);
        let of_triggers = announcements::remarks(&report.triggers);
        self.books.findings().remarks().iter().cloned().chain(of_triggers).chain(of_sources).collect()
    }
}

/// Returns the problem of a builder whose filter has left events without a verdict.
fn unjudged(named: &str, filter: &FilterReport) -> Option<String> {
    let (events, fault) = (counted(filter.failed, "event"), plain(&filter.fault, MAX_REASON));
    let cause = if fault.is_empty() { fault } else { format!(" (at last, {fault})") };
    (filter.failed > 0).then(|| {
        format!("{named}: its filter did not judge {events}{cause}; its log names them: correct the program of the filter")
    })
}

/// Returns for each source the sums of the counters of its lanes at all builders.
fn lane_sums(roster: &Roster) -> Per<SourceIndex, LaneReport> {
    let mut sums: Per<_, LaneReport> = roster.sources().iter().map(|_| LaneReport::default()).collect();
    for packed in roster.builders().iter().filter_map(|seat| seat.lanes.as_ref()) {
        for lane in packed.lanes() {
            if let Some(index) = roster.source_numbered(lane.source) {
                sums[index].add(&lane);
            }
        }
    }
    sums
}

fn between(from: Option<Instant>, to: Option<Instant>) -> Duration {
    from.zip(to).map_or(Duration::ZERO, |(from, to)| to.since(from))
}

/// Describes where the counts of a builder's last report differ from the ledger; `None` if they
/// agree.
fn mismatch(builder: &str, tally: &BuilderCounts, report: &BuilderReport) -> Option<String> {
    let ours = [tally.complete, tally.incomplete, tally.rejected, tally.lost, tally.accepted()];
    let theirs = [report.complete, report.incomplete, report.rejected, report.lost, report.written];
    let names = ["complete", "incomplete", "rejected", "lost", "written"];
    let differences: Vec<String> = names
        .iter()
        .zip(ours.iter().zip(theirs))
        .filter(|(_, (ours, theirs))| *ours != theirs)
        .map(|(name, (ours, theirs))| format!("{theirs} {name} where the supervisor counted {ours}"))
        .collect();
    (!differences.is_empty()).then(|| {
        format!(
            "{builder} reports {}, which is a fault of evb: report it with the logs",
            differences.join(", ")
        )
    })
}

/// Returns the verdict on the run in one line: what was built, and the first problem.
fn verdict(report: &RunReport) -> String {
    let built = report.outcome();
    match report.problems.as_slice() {
        [] => built,
        [first, ..] if report.events.assigned == 0 => format!("{built}: {first}"),
        [first] => format!("{built}; {first}"),
        [first, rest @ ..] => format!("{built}; {first}; {}", counted(rest.len(), "more problem")),
    }
}
