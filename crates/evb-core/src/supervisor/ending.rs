//! The end of a run: no more triggers, settle, report, close the ledger.

use std::collections::BTreeMap;

use super::{
    Output, Phase, Recipients, SupervisorCore,
    journal::{What, differences},
    outstanding::BuilderIndex,
    seats::Leaving,
};
use crate::{
    id::Peer,
    set::SourceSet,
    time::Instant,
    wire::{
        control::{Finish, Report, RunEnd, Stop, control::Message, report},
        journal::Lost,
    },
};

/// How many different findings are kept; the others are counted.
const FINDINGS_LIMIT: usize = 64;

/// What was not as it should be.
#[derive(Clone, Debug, Default)]
pub(super) struct Findings {
    problems: Vec<String>,
    /// What happened and cost nothing.
    remarks: Vec<String>,
    /// Lost events by cause, which names the culprit.
    losses: BTreeMap<String, u64>,
    unsaid: u64,
    failure: Option<String>,
}

impl Findings {
    /// A problem that ends the run, or did not let it begin.
    pub(super) fn fail(&mut self, problem: String) {
        self.failure.get_or_insert_with(|| problem.clone());
        self.problem(problem);
    }

    pub(super) fn failure(&self) -> Option<String> {
        self.failure.clone()
    }

    pub(super) fn problem(&mut self, problem: String) {
        if self.problems.len() < FINDINGS_LIMIT {
            self.problems.push(problem);
        } else {
            self.unsaid += 1;
        }
    }

    pub(super) fn remark(&mut self, remark: String) {
        if self.remarks.len() < FINDINGS_LIMIT {
            self.remarks.push(remark);
        }
    }

    pub(super) fn remarks(&self) -> &[String] {
        &self.remarks
    }

    pub(super) fn loss(&mut self, cause: String, events: u64) {
        let known = self.losses.len() < FINDINGS_LIMIT || self.losses.contains_key(&cause);
        let cause = if known { cause } else { "further causes".to_owned() };
        *self.losses.entry(cause).or_default() += events;
    }

    /// The problems, and which of them was a failure.
    pub(super) fn said(&self) -> (&[String], Option<&String>) {
        (&self.problems, self.failure.as_ref())
    }

    /// Lost events by cause.
    pub(super) fn losses(&self) -> impl Iterator<Item = (&String, &u64)> {
        self.losses.iter()
    }

    /// All of them as sentences.
    pub(super) fn sentences(&self) -> Vec<String> {
        let losses = self.losses.iter().map(|(cause, events)| format!("{events} events lost: {cause}"));
        let unsaid = (self.unsaid > 0).then(|| format!("and {} further problems", self.unsaid));
        self.problems.iter().cloned().chain(losses).chain(unsaid).collect()
    }
}

impl SupervisorCore {
    pub(super) fn begin_draining(&mut self, cause: &str, now: Instant) {
        tracing::info!(run = %self.plan.run, cause, outstanding = self.outstanding.len(), "stopping");
        self.journal(What::Stopping(cause.to_owned()), now);
        self.phase = Phase::Draining { until: now + self.plan.deadline + self.plan.drain_grace };
        self.pending = 0;
        self.slots.close(now);
        self.tally.last_trigger_possible = Some(now);
        self.send(Recipients::Everyone, Message::Stop(Stop { cause: cause.to_owned() }));
        if !self.awaited.is_empty() {
            self.awaited = SourceSet::default();
            self.publish_roster(now);
        }
    }

    /// While something is settled, what is left has its time from now on: a sink may be slow, and nothing is lost for that.
    pub(super) fn prolong_drain(&mut self, now: Instant) {
        if let Phase::Draining { until } = &mut self.phase {
            *until = (*until).max(now + self.plan.deadline + self.plan.drain_grace);
        }
    }

    pub(super) fn drain_if_done(&mut self, now: Instant) {
        if matches!(self.phase, Phase::Draining { .. }) && self.outstanding.is_empty() {
            self.finish(now);
        }
    }

    /// The drain took too long: what is outstanding is lost, and its builder is named.
    pub(super) fn give_outstanding_up(&mut self, now: Instant) {
        let waited = (self.plan.deadline + self.plan.drain_grace).as_secs_f64();
        self.lose_homeless("no builder had a slot for them before the end", now);
        for index in 0..self.builders.len() {
            let events = self.outstanding.of(index as BuilderIndex);
            let lost = self.take_outstanding(index);
            if lost > 0 {
                let id = self.builders[index].id;
                let cause =
                    format!("builder {id} settled nothing for the last {waited} s after the end of triggers");
                let events = differences(events.iter().map(|place| place.event));
                self.journal(What::Lost(Lost { events, cause: cause.clone() }), now);
                self.findings.loss(cause, lost);
            }
        }
        self.finish(now);
    }

    pub(super) fn fail_to_start(&mut self, now: Instant) {
        let words = |peers: Vec<Peer>| peers.iter().map(Peer::to_string).collect::<Vec<_>>().join(", ");
        let absent = self.absent();
        let limit = self.plan.start_timeout.as_secs_f64();
        let problem = if absent.is_empty() {
            let waiting = words(self.unconnected());
            format!("after {limit} s, lanes to the builders were still not connected by: {waiting}")
        } else {
            format!("after {limit} s, still missing: {}", words(absent))
        };
        self.begin_draining(&problem, now);
        self.failure(problem, now);
    }

    /// Who has not registered, or has left.
    pub(super) fn absent(&self) -> Vec<Peer> {
        let sources = self.sources.iter().filter(|seat| seat.connection.is_none());
        let builders = self.builders.iter().filter(|seat| seat.connection.is_none() && seat.is_member());
        sources.map(|seat| Peer::Source(seat.id)).chain(builders.map(|seat| Peer::Builder(seat.id))).collect()
    }

    /// Who is registered and not connected to all builders.
    pub(super) fn unconnected(&self) -> Vec<Peer> {
        let waiting = self.sources.iter().filter(|seat| seat.connection.is_some() && !seat.ready);
        waiting.map(|seat| Peer::Source(seat.id)).collect()
    }

    /// Tells one peer that the run is over for it; it closes its connection then.
    pub(super) fn let_go(&mut self, peer: Peer) {
        let verdict = "it left before the run began".to_owned();
        let end = Message::RunEnd(RunEnd { exit_code: 0, verdict });
        match peer {
            Peer::Source(id) => self.send(Recipients::Source(id), end),
            Peer::Builder(id) => self.send(Recipients::Builder(id), end),
            Peer::Supervisor => {}
        }
    }

    /// Requirements: docs/protocol.md RUN-17.
    pub(super) fn handle_report(&mut self, peer: Peer, mut report: Report, now: Instant) {
        if let Some(live) = report.live.take() {
            return self.handle_report_so_far(peer, report, live, now);
        }
        if !matches!(self.phase, Phase::Reporting { .. }) && !self.is_leaving(peer) {
            return self.expel(peer, "it reported before it was asked to", now);
        }
        match (peer, report.report) {
            (Peer::Source(id), Some(report::Report::Source(report))) => {
                if let Some(index) = self.source_index(id) {
                    self.sources[index].report = Some(report);
                }
            }
            (Peer::Builder(id), Some(report::Report::Builder(report))) => {
                if let Some(index) = self.builder_index(id) {
                    self.builders[index].report = Some(report);
                    if self.builders[index].leaving == Leaving::Finishing && self.is_under_way() {
                        self.dismiss(index, now);
                    }
                }
            }
            _ => return self.expel(peer, "its final report is of another role", now),
        }
        self.close_if_all_reported(now);
    }

    fn is_leaving(&self, peer: Peer) -> bool {
        let Peer::Builder(id) = peer else { return false };
        self.builder_index(id).is_some_and(|index| self.builders[index].leaving == Leaving::Finishing)
    }

    pub(super) fn close_if_all_reported(&mut self, now: Instant) {
        // Who lost its connection a moment ago may come back with its report.
        let gone = |connected: bool, heard: Instant| !connected && now.since(heard) >= self.two_leases();
        let sources = self.sources.iter().all(|seat| {
            seat.report.is_some() || seat.incarnation == 0 || gone(seat.connection.is_some(), seat.last_heard)
        });
        let builders = self.builders.iter().all(|seat| {
            seat.report.is_some() || !seat.is_alive() || gone(seat.connection.is_some(), seat.last_heard)
        });
        if matches!(self.phase, Phase::Reporting { .. }) && sources && builders {
            self.close_ledger(now);
        }
    }

    pub(super) fn close_ledger(&mut self, now: Instant) {
        self.phase = Phase::Ended;
        let report = self.summarize(now);
        self.tally.exit_code = Some(report.exit_code);
        self.journal(What::Ended(report.exit_code.into()), now);
        let end = RunEnd { exit_code: report.exit_code.into(), verdict: report.verdict.clone() };
        self.send(Recipients::Everyone, Message::RunEnd(end));
        self.outbox.push(Output::Ended(Box::new(report)));
    }

    fn finish(&mut self, now: Instant) {
        self.tally.drained = Some(now);
        self.send(Recipients::Everyone, Message::Finish(Finish {}));
        self.phase = Phase::Reporting { until: now + self.plan.report_timeout };
        if self.tally.started.is_none() {
            // Nothing was counted, and peers that never saw a roster have no report to give.
            return self.close_ledger(now);
        }
        self.close_if_all_reported(now);
    }
}
