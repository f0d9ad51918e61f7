//! What is written down before it acts, so that another supervisor can go on with the run.

use super::{Output, SupervisorCore};
use crate::{
    time::Instant,
    wire::journal::{Begun, Entry, Finding, RosterChange},
};

pub(super) use crate::wire::journal::entry::What;

/// Ascending or not: first, then differences, modulo 2^64.
pub(super) fn differences(values: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut last = 0u64;
    values.map(|value| value.wrapping_sub(core::mem::replace(&mut last, value))).collect()
}

/// The opposite of [`differences`].
pub(super) fn sums(differences: &[u64]) -> impl Iterator<Item = u64> {
    let mut sum = 0u64;
    differences.iter().map(move |difference| {
        sum = sum.wrapping_add(*difference);
        sum
    })
}

impl SupervisorCore {
    /// The journal cannot be kept any more: nothing is written down from here on, and the report says why.
    pub fn abandon_journal(&mut self, problem: String) {
        self.plan.journal = false;
        self.outbox.abandon_journal();
        self.findings.problem(problem);
    }

    /// Puts an entry before everything that is sent from here on.
    pub(super) fn journal(&mut self, what: What, now: Instant) {
        if self.plan.journal {
            let entry = Entry { at_ns: now.as_nanos(), what: Some(what) };
            self.outbox.push(Output::Journal(Box::new(entry)));
        }
    }

    /// The first entry: which run this is.
    pub(super) fn journal_beginning(&mut self, now: Instant) {
        let what = What::Begun(self.begun());
        self.journal(what, now);
    }

    pub(super) fn begun(&self) -> Begun {
        Begun {
            run: self.plan.run.number(),
            epoch: self.plan.epoch.number(),
            seed: self.seed,
            sources: self.plan.sources.iter().map(|id| id.number().into()).collect(),
            builders: self.plan.builders.iter().map(|id| id.number().into()).collect(),
            boot_id: self.plan.boot_id.clone(),
        }
    }

    pub(super) fn journal_roster(&mut self, now: Instant) {
        let positions = |set: crate::set::SourceSet| set.iter().map(|index| index as u32).collect();
        let what = RosterChange {
            version: self.roster_version,
            up: positions(self.up),
            awaited: positions(self.awaited),
        };
        self.journal(What::Roster(what), now);
    }

    /// Notes what was not as it should be, for the report of whoever writes it.
    pub(super) fn problem(&mut self, problem: String, now: Instant) {
        self.journal(What::Finding(Finding { problem: problem.clone(), ..Finding::default() }), now);
        self.findings.problem(problem);
    }

    /// Notes what happened and cost nothing: people want to know of it, and the run is as good as any.
    pub(super) fn remark(&mut self, remark: String, now: Instant) {
        let finding = Finding { problem: remark.clone(), remark: true, ..Finding::default() };
        self.journal(What::Finding(finding), now);
        self.findings.remark(remark);
    }

    /// The same, and the run cannot begin or go on.
    pub(super) fn failure(&mut self, problem: String, now: Instant) {
        self.journal(
            What::Finding(Finding { problem: problem.clone(), failure: true, ..Finding::default() }),
            now,
        );
        self.findings.fail(problem);
    }
}
