//! [`Findings`]: the problems and incidents of a run, for its report.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use crate::{
    alignment::Episode,
    id::SourceId,
    ledger::OwingChange,
    quantities::counted,
    wire::control::{Changes, MAX_CHANGES, Message},
};

/// Number of different findings that are kept; further findings are only counted.
const FINDINGS_LIMIT: usize = 64;

/// The problems and incidents of a run.
#[derive(Clone, Debug, Default)]
pub(super) struct Findings {
    problems: Vec<String>,
    /// Incidents that cost no event.
    remarks: Vec<String>,
    /// Numbers of lost events by cause; the text of a cause names the peer at fault.
    losses: BTreeMap<String, u64>,
    unsaid: u64,
    failure: Option<String>,
    /// Episodes of sources whose timestamps disagreed, for the files.
    episodes: Vec<Episode>,
    /// Sources that were excluded or included, in the order of the requests.
    exclusions: Vec<OwingChange>,
}

impl Findings {
    pub(super) fn note_episode(&mut self, episode: Episode) {
        Episode::note(&mut self.episodes, episode);
    }

    pub(super) fn episodes(&self) -> &[Episode] {
        &self.episodes
    }

    pub(super) fn note_exclusion(&mut self, change: OwingChange) {
        self.exclusions.retain(|known| !change.replaces(known));
        if self.exclusions.len() < MAX_CHANGES {
            self.exclusions.push(change);
        }
    }

    pub(super) fn exclusions(&self) -> &[OwingChange] {
        &self.exclusions
    }

    /// Returns the message that tells builders of all exclusions and inclusions, if there are any.
    pub(super) fn changes(&self) -> Option<Message> {
        let changes: Vec<_> = self.exclusions.iter().map(OwingChange::entry).collect();
        (!changes.is_empty()).then_some(Message::Changes(Changes { changes }))
    }

    /// Returns why that source is excluded.
    pub(super) fn reason_of_exclusion(&self, source: SourceId) -> String {
        let known = self.exclusions.iter().rev().find(|change| change.source == source && change.excluded);
        known.map(|change| change.why.clone()).unwrap_or_default()
    }

    /// Adds a problem that ends the run, or prevents it from beginning.
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
        let cause =
            if known { cause } else { "further causes, which the logs of the builders name".to_owned() };
        *self.losses.entry(cause).or_default() += events;
    }

    /// Returns all problems, and the problem because of which the run failed, if it failed.
    pub(super) fn said(&self) -> (&[String], Option<&String>) {
        (&self.problems, self.failure.as_ref())
    }

    /// Returns the numbers of lost events by cause.
    pub(super) fn losses(&self) -> impl Iterator<Item = (&String, &u64)> {
        self.losses.iter()
    }

    /// Returns all problems as sentences.
    pub(super) fn sentences(&self) -> Vec<String> {
        let losses =
            self.losses.iter().map(|(cause, events)| format!("{} lost: {cause}", counted(*events, "event")));
        let unsaid = (self.unsaid > 0).then(|| {
            format!(
                "{} are not listed here: correct those above first, then look at the log of the supervisor",
                counted(self.unsaid, "further problem")
            )
        });
        self.problems.iter().cloned().chain(losses).chain(unsaid).collect()
    }
}
