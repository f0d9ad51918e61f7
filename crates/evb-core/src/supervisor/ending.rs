//! The end of a run: no more triggers, settle, report, close the ledger.

use std::collections::BTreeMap;

use super::{Output, Phase, Recipients, SupervisorCore};
use crate::{
    id::Peer,
    time::Instant,
    wire::control::{Finish, Report, RunEnd, Stop, control::Message, report},
};

/// How many different findings are kept; the others are counted.
const FINDINGS_LIMIT: usize = 64;

/// What was not as it should be.
#[derive(Clone, Debug, Default)]
pub(super) struct Findings {
    problems: Vec<String>,
    /// Lost events by cause, which names the culprit.
    losses: BTreeMap<String, u64>,
    unsaid: u64,
}

impl Findings {
    pub(super) fn problem(&mut self, problem: String) {
        if self.problems.len() < FINDINGS_LIMIT {
            self.problems.push(problem);
        } else {
            self.unsaid += 1;
        }
    }

    pub(super) fn loss(&mut self, cause: String, events: u64) {
        let known = self.losses.len() < FINDINGS_LIMIT || self.losses.contains_key(&cause);
        let cause = if known { cause } else { "further causes".to_owned() };
        *self.losses.entry(cause).or_default() += events;
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
        self.phase = Phase::Draining { until: now + self.plan.deadline + self.plan.drain_grace };
        self.pending = 0;
        self.slots.close(now);
        self.tally.last_trigger_possible = Some(now);
        self.send(Recipients::Everyone, Message::Stop(Stop { cause: cause.to_owned() }));
    }

    pub(super) fn drain_if_done(&mut self, now: Instant) {
        if matches!(self.phase, Phase::Draining { .. }) && self.outstanding.is_empty() {
            self.finish(now);
        }
    }

    /// The drain took too long: what is outstanding is lost, and its builder is named.
    pub(super) fn give_outstanding_up(&mut self, now: Instant) {
        let waited = (self.plan.deadline + self.plan.drain_grace).as_secs_f64();
        for index in 0..self.builders.len() {
            let lost = self.take_outstanding(index);
            if lost > 0 {
                let id = self.builders[index].id;
                let cause =
                    format!("builder {id} did not settle them within {waited} s after the last trigger");
                self.findings.loss(cause, lost);
            }
        }
        self.finish(now);
    }

    pub(super) fn fail_to_start(&mut self, now: Instant) {
        let absent_sources = self.sources.iter().filter(|seat| seat.connection.is_none());
        let absent_builders = self.builders.iter().filter(|seat| seat.connection.is_none());
        let absent: Vec<String> = absent_sources
            .map(|seat| Peer::Source(seat.id).to_string())
            .chain(absent_builders.map(|seat| Peer::Builder(seat.id).to_string()))
            .collect();
        let waiting = self.sources.iter().filter(|seat| seat.connection.is_some() && !seat.ready);
        let waiting: Vec<String> = waiting.map(|seat| Peer::Source(seat.id).to_string()).collect();
        let limit = self.plan.start_timeout.as_secs_f64();
        let problem = if absent.is_empty() {
            format!(
                "after {limit} s, lanes to the builders were still not connected by: {}",
                waiting.join(", ")
            )
        } else {
            format!("after {limit} s, still missing: {}", absent.join(", "))
        };
        self.begin_draining(&problem, now);
        self.findings.problem(problem);
    }

    /// Requirements: docs/protocol.md RUN-17.
    pub(super) fn handle_report(&mut self, peer: Peer, report: Report, now: Instant) {
        if !matches!(self.phase, Phase::Reporting { .. }) {
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
                }
            }
            _ => return self.expel(peer, "its final report is of another role", now),
        }
        self.close_if_all_reported(now);
    }

    pub(super) fn close_if_all_reported(&mut self, now: Instant) {
        let sources = self.sources.iter().all(|seat| seat.connection.is_none() || seat.report.is_some());
        let builders = self.builders.iter().all(|seat| seat.connection.is_none() || seat.report.is_some());
        if matches!(self.phase, Phase::Reporting { .. }) && sources && builders {
            self.close_ledger(now);
        }
    }

    pub(super) fn close_ledger(&mut self, now: Instant) {
        self.phase = Phase::Ended;
        let report = self.summarize(now);
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
