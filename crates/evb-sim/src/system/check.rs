//! Compares the ledger of a run with the contents of the disks.

mod boards;

use std::{collections::BTreeSet, time::Duration};

use evb_core::{
    event::{Cause, MissingSource},
    id::{EventId, Peer, RunNumber, SourceId},
    ledger::{LEDGER_OPEN, NOT_ASSIGNED, RunReport},
    time::Utc,
    wire::record::MAX_RESEND_RANGES,
};

use super::{
    disk::{EventRecord, Files},
    failure::{Check, Failure},
    fault::Fault,
    scenario::{Pushes, Scenario},
};
use crate::workload::Workload;

/// A finished run, with the facts that its ledger is compared with.
pub(crate) struct OfRun<'a> {
    pub(crate) scenario: &'a Scenario,
    pub(crate) run: u32,
    pub(crate) files: &'a Files,
    pub(crate) failed: &'a BTreeSet<(RunNumber, EventId)>,
    pub(crate) workload: &'a Workload,
    /// The faults that happened in the run, or shortly before it.
    pub(crate) faults: &'a [Fault],
    /// Number of datagrams that the network lost during the run.
    pub(crate) lost_datagrams: u64,
    /// True if faults explain that events are lost.
    pub(crate) may_lose: bool,
}

impl OfRun<'_> {
    /// Compares the ledger with the disks. Returns the number of event records on disk beyond the
    /// first of each event.
    pub(crate) fn check(&self, report: &RunReport) -> Result<u64, Failure> {
        let events = &report.events;
        let fail = |check, what: String| Err(Failure::new(check, what));
        if events.open() != Some(0) {
            return fail(Check::Ledger, format!("the ledger does not close: {events:?}"));
        }
        let said = report.problems.join("; ");
        // A problem of the kind `NOT_ASSIGNED` is only acceptable if events were lost.
        let is_wrong = events.lost == 0 && said.contains(NOT_ASSIGNED);
        if said.contains(LEDGER_OPEN) || is_wrong {
            return fail(Check::Ledger, format!("the ledger reports an error: {said}"));
        }
        let run = RunNumber::new(self.run + 1);
        let of_run = self.files.range((run, EventId::new(0))..=(run, EventId::new(u64::MAX)));
        let (mut complete, mut incomplete, mut copies) = (0, 0, 0);
        let mut latest = Utc::UNKNOWN;
        let mut lacking = vec![0; self.scenario.sources.into()];
        let mut absent = lacking.clone();
        let mut silenced = BTreeSet::new();
        for ((_, event), records) in of_run {
            let mut epochs: Vec<u64> = records.iter().map(|record| record.epoch).collect();
            epochs.sort_unstable();
            if epochs.array_windows().any(|[a, b]| a == b) {
                return fail(
                    Check::Doubled,
                    format!("event {event} was written twice under one epoch: {records:?}"),
                );
            }
            copies += records.len() as u64 - 1;
            latest = check_times(*event, records, latest)?;
            let Some(valid) = records.iter().max_by_key(|record| record.epoch) else { continue };
            self.check_owing(*event, valid, report)?;
            self.check_record(*event, valid, &mut silenced)?;
            let lacks = &valid.missing;
            if lacks.is_empty() {
                complete += 1;
                valid.absent.iter().for_each(|one| absent[usize::from(one.source.number()) - 1] += 1);
            } else {
                incomplete += 1
            }
            lacks.iter().for_each(|id| lacking[usize::from(id.number()) - 1] += 1);
        }
        let found = format!(
            "on the disks are {complete} complete and {incomplete} incomplete events, in the ledger {events:?}; {said}"
        );
        let written = events.complete + events.incomplete;
        // An event may count as lost although it is on a disk, if its builder was not heard from
        // again after writing it.
        if written > complete + incomplete || complete + incomplete > written + events.lost {
            return fail(Check::Disk, found);
        }
        if events.lost == 0 && (events.complete, events.incomplete) != (complete, incomplete) {
            return fail(Check::Disk, found);
        }
        let missing: Vec<u64> = report.sources.iter().map(|source| source.missing).collect();
        if events.lost == 0 && missing != lacking {
            let what = format!("on the disks, sources are missing in {lacking:?} events, in the ledger in");
            return fail(Check::Missing, format!("{what} {missing:?}; {said}"));
        }
        let without: Vec<u64> = report.sources.iter().map(|source| source.absent).collect();
        if events.lost == 0 && without != absent {
            let what =
                format!("on the disks, sources are absent in {absent:?} complete events, in the ledger in");
            return fail(Check::Missing, format!("{what} {without:?}; {said}"));
        }
        let failed = self.failed.iter().filter(|(of, _)| *of == run).count() as u64;
        if events.lost > failed && !self.may_lose && !self.is_emptied() {
            return fail(Check::Lost, format!("{} events are lost, {failed} by disks: {said}", events.lost));
        }
        self.check_datagrams(report)?;
        Ok(copies)
    }

    /// Checks that an event record names exactly the sources without a fragment as missing, and
    /// that a fault or the workload explains each of them. `silenced` has the sources for which the
    /// workload had no fragment of an earlier event, so that their readout may count as quiet.
    fn check_record(
        &self,
        event: EventId,
        record: &EventRecord,
        silenced: &mut BTreeSet<SourceId>,
    ) -> Result<(), Failure> {
        let is_absent = |id: &SourceId| {
            self.scenario.sporadic.contains_key(id) || record.absent.iter().any(|absent| absent.source == *id)
        };
        let mut lacks = record.lacks(self.scenario.sources);
        lacks.retain(|id| !is_absent(id));
        if record.missing != lacks {
            let what = format!("event {event} has no fragment of {lacks:?}, and names {:?}", record.missing);
            return Err(Failure::new(Check::Missing, what));
        }
        let delay = |id: &SourceId| self.workload.draw(usize::from(id.number()) - 1, event).delay;
        // The event closes when the last source that it waits for has delivered.
        let is_late = |id: &SourceId| Some(delay(id)) >= record.present.iter().map(delay).max();
        for id in lacks {
            let is_quiet = record.quiet.contains(&id) && silenced.contains(&id) && is_late(&id);
            if !self.workload.has(usize::from(id.number()) - 1, event) {
                silenced.insert(id);
            } else if !is_quiet && !self.may_lack(id) {
                let what = format!("event {event}: source {id} is missing, and nothing was wrong with it");
                return Err(Failure::new(Check::Incomplete, what));
            }
        }
        Ok(())
    }

    /// Checks the absent sources of an event record against the changes of the run: an excluded
    /// source has no fragment and is absent, and so is an expendable one without a fragment. No
    /// event is assigned while too few sources of a group are included.
    fn check_owing(&self, event: EventId, record: &EventRecord, report: &RunReport) -> Result<(), Failure> {
        let expected = |source: SourceId| {
            let changes = report.changes.iter().filter(|one| one.source == source && one.from <= event);
            let is_excluded = changes.max_by_key(|one| one.from).is_some_and(|last| last.excluded);
            match (is_excluded, record.present.contains(&source)) {
                (true, _) => Some(MissingSource::new(source, Cause::Excluded)),
                (false, false) if self.scenario.expendable.contains(&source) => {
                    Some(MissingSource::new(source, Cause::Expendable))
                }
                _ => None,
            }
        };
        let expected: Vec<_> = (1..=self.scenario.sources).map(SourceId::new).filter_map(expected).collect();
        let is_excluded = |id: &SourceId| expected.contains(&MissingSource::new(*id, Cause::Excluded));
        for group in &self.scenario.groups {
            let included = group.sources.iter().filter(|id| !is_excluded(id)).count();
            if included < group.at_least as usize {
                let what = format!("event {event} was assigned with {included} sources of {group:?}");
                return Err(Failure::new(Check::Missing, what));
            }
        }
        if record.absent == expected {
            return Ok(());
        }
        let what = format!("event {event} should lack {expected:?}: {record:?}; {:?}", report.changes);
        Err(Failure::new(Check::Missing, what))
    }

    /// Returns true if a fault of the scenario explains that fragments of a source are missing.
    fn may_lack(&self, source: SourceId) -> bool {
        let calm = &self.scenario.weather;
        let slow = calm.stall > 0 || calm.loss > 0 || calm.delay > 0 || calm.damage > 0;
        slow || self.delays(source) >= self.scenario.deadline
            || self.faults.iter().any(|fault| {
                match *fault {
                    Fault::Storm { .. } => true,
                    // `delays` counts them.
                    Fault::Late { .. } => false,
                    Fault::Disk { who: Peer::Supervisor, .. } => true,
                    Fault::Split { source: of, .. } => of == source,
                    fault => match fault.who() {
                        Some(Peer::Source(id)) => id == source,
                        // Decisions may come too late, or the supervisor may declare sources down.
                        Some(Peer::Supervisor) => true,
                        Some(Peer::Builder(_)) => {
                            matches!(fault, Fault::Cut { .. } | Fault::Reset { .. } | Fault::Reboot { .. })
                        }
                        None => false,
                    },
                }
            })
    }

    /// Returns the longest time that the network, readout and late processes take until a builder
    /// has the announcement of a source's fragment.
    fn delays(&self, source: SourceId) -> Duration {
        let readout = match self.scenario.pushes {
            Pushes::Ahead => Duration::ZERO,
            Pushes::OnDemand | Pushes::Late => 2 * self.scenario.readout.delay,
        };
        let of_fault = |fault: &Fault| match *fault {
            Fault::Late { who: Peer::Source(other), .. } if other != source => Duration::ZERO,
            // The process is late three times: for the decision, the end of the readout, and the
            // credit.
            Fault::Late { by, .. } => 3 * by,
            _ => Duration::ZERO,
        };
        // The decision, the announcement, and an announcement before it that has to be repeated.
        let network = 3 * (self.scenario.weather.latency + self.scenario.weather.jitter);
        network + readout + self.faults.iter().map(of_fault).sum::<Duration>()
    }

    /// Returns true if the run may have had no builder. The supervisor allows the only builder to
    /// be removed while it is silent; the builder's events are lost if the run is stopped before it
    /// is back.
    fn is_emptied(&self) -> bool {
        let is_removed = |fault: &Fault| matches!(fault, Fault::Remove { .. });
        self.scenario.builders == 1 && self.faults.iter().any(is_removed)
    }

    /// Checks that only lost datagrams are sent again, if the network has no other faults than
    /// losses.
    fn check_datagrams(&self, report: &RunReport) -> Result<(), Failure> {
        let weather = &self.scenario.weather;
        let is_steady =
            weather.jitter.is_zero() && weather.delay == 0 && weather.repeat == 0 && weather.damage == 0;
        if !self.scenario.is_udp() || !is_steady || !self.faults.is_empty() {
            return Ok(());
        }
        let counts = &report.network.datagrams;
        // When a timer expires, the builder requests every range again whose permission seems lost.
        let at_timeouts = MAX_RESEND_RANGES as u64 * counts.timeouts;
        let spurious = counts.duplicates + counts.late_after_loss;
        // After a burst of losses, a timer cannot tell further losses from a long queue.
        let is_excusable = weather.burst > 1 && spurious <= at_timeouts;
        let is_excess = counts.resends > self.lost_datagrams + at_timeouts;
        if (spurious > 0 && !is_excusable) || is_excess {
            let what = format!(
                "{spurious} segments came that were taken for lost, or twice; the network lost {} datagrams: {counts:?}",
                self.lost_datagrams
            );
            return Err(Failure::new(Check::Spurious, what));
        }
        Ok(())
    }
}

/// Checks that the copies of an event have the same time, not before `latest`, the time of the
/// event before. Returns the event's time.
fn check_times(event: EventId, records: &[EventRecord], latest: Utc) -> Result<Utc, Failure> {
    let fail = |what| Err(Failure::new(Check::Time, what));
    let Some(first) = records.first() else { return Ok(latest) };
    if records.iter().any(|record| record.utc != first.utc) {
        return fail(format!("the copies of event {event} differ in time: {records:?}"));
    }
    match first.utc.is_known() && first.utc >= latest {
        true => Ok(first.utc),
        false => fail(format!("event {event} has the time {}, after {latest}", first.utc)),
    }
}
