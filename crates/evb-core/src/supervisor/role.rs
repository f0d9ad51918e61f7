//! [`SupervisorRole`]: the supervisor's state machine together with its journal. The role holds
//! back an output until the journal entries that the output depends on are written.

mod held;
mod keeper;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};

use held::HeldOutputs;

use super::{
    ChangeError, NotReady, Output, Recipients, RunChange, SupervisorCore,
    beginning::{Beginning, asks_permission},
    exclusions::Exclusions,
    roster::Roster,
    seats::staying,
};
use crate::{
    id::{BuilderId, Peer, SourceId},
    ledger::RunReport,
    quantities::counted,
    time::{Instant, earlier},
    trigger::{
        announcement::{Announcement, Asked},
        numbers::Judged,
    },
    wire::control::{Control, Hello, Message, Refusal, Welcome},
};

pub use keeper::{JournalWrite, Keeper};

/// An action for the driver.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "most are messages; a box would cost each an allocation")]
pub enum SupervisorOutput {
    /// Send a message. The messages to one peer must keep their order.
    Send {
        /// Recipients of the message; a peer without a connection does not get it.
        to: Recipients,
        /// The message to send.
        message: Control,
    },
    /// Connect a registered peer. The first message that the peer receives must be its welcome.
    Connect(Peer),
    /// The run has begun, or did not begin because of this reason.
    Begun(Result<(), NotReady>),
    /// Confirm the operator's request with that number to its caller; see
    /// [`SupervisorRole::confirm`].
    Confirmed(u64),
    /// Close a peer's connection; if the peer still waits for [`Self::Connect`], close that
    /// connection, too.
    Drop {
        /// The peer whose connection is to be closed.
        peer: Peer,
        /// Reason for the log.
        reason: String,
    },
    /// Write to the journal. Call [`SupervisorRole::handle_journal_written`] or
    /// [`SupervisorRole::handle_journal_failure`] afterwards; until then, no other write follows.
    Write(JournalWrite),
    /// Remove the journal, because the run continues without it and it would become wrong. Call
    /// [`SupervisorRole::handle_journal_abandoned`] afterwards.
    AbandonJournal,
    /// The ledger is closed. Send all remaining messages, and end.
    Ended(Box<RunReport>),
}

/// State machine of a supervisor process, with its journal.
///
/// After all inputs that share one `now`, call [`handle_timeout`](Self::handle_timeout), then
/// [`poll`](Self::poll) until it returns `None`.
#[derive(Clone, Debug)]
pub struct SupervisorRole {
    core: SupervisorCore,
    /// Outputs that depend on no journal entry, or whose entries are written.
    ready: VecDeque<SupervisorOutput>,
    held: HeldOutputs,
    keeper: Option<Keeper>,
}

impl SupervisorRole {
    /// Creates the role from a state machine, and from the keeper of its journal, if one is kept.
    pub fn new(core: SupervisorCore, keeper: Option<Keeper>) -> Self {
        Self { core, ready: VecDeque::new(), held: HeldOutputs::default(), keeper }
    }

    /// Returns the state machine for inspection.
    pub fn core(&self) -> &SupervisorCore {
        &self.core
    }

    /// Returns the builders that take part or are configured to, without those that are to leave;
    /// ascending. A recovered run may have other builders than its plan.
    pub fn builders(&self) -> Vec<BuilderId> {
        staying(self.core.roster.builders().iter())
    }

    /// Returns the sources that are excluded, with the operators' reasons. A recovered run may have
    /// others than its plan.
    pub fn excluded(&self) -> BTreeMap<SourceId, String> {
        let (roster, findings) = (&self.core.roster, self.core.books.findings());
        let excluded = Roster::positions(roster.owing().excluded()).map(|index| roster.source(index).id);
        excluded.map(|id| (id, findings.reason_of_exclusion(id))).collect()
    }

    /// Returns a peer of the run with its name, if it has one.
    pub fn named(&self, peer: Peer) -> String {
        self.core.plan.named(peer)
    }

    /// Returns the state machine for requests of operators: triggers, pauses, changes of builders,
    /// and the end of the run.
    pub fn run_mut(&mut self) -> &mut SupervisorCore {
        &mut self.core
    }

    /// Returns true while a run that begins waits for [`Self::permit`].
    pub fn asks_permission(&self) -> bool {
        asks_permission(&self.core)
    }

    /// Lets a run begin that [asks](Self::asks_permission), with a remark if there is one, or stops
    /// its beginning for a reason.
    pub fn permit(&mut self, answer: Result<Option<String>, String>, now: Instant) {
        Beginning { core: &mut self.core }.permit(answer, now);
    }

    /// Returns true if new peers may register. While the journal stalls, they wait, because a
    /// registration is answered only when it is written to the journal.
    pub fn takes_registrations(&self) -> bool {
        !self.keeper.as_ref().is_some_and(Keeper::is_stalled)
    }

    /// Registers a peer that sent a `Hello`. [`SupervisorOutput::Connect`] follows when the
    /// necessary journal entries are written.
    ///
    /// # Errors
    /// Returns the refusal to send to the peer.
    pub fn register(&mut self, hello: &Hello, now: Instant) -> Result<(Peer, Welcome), Refusal> {
        let welcome = self.core.register(hello, now)?;
        // The call of `register` has refused a `Hello` without a sender.
        let peer = hello.from_peer().unwrap_or(Peer::Supervisor);
        self.held.drop_peer(peer);
        self.held.push(SupervisorOutput::Connect(peer));
        Ok((peer, welcome))
    }

    /// Handles a message of a registered peer.
    pub fn handle_message(&mut self, peer: Peer, message: Control, now: Instant) {
        self.core.handle_message(peer, message, now);
    }

    /// Notes that a peer's connection is gone.
    pub fn handle_disconnect(&mut self, peer: Peer, reason: &str, now: Instant) {
        self.core.handle_disconnect(peer, reason, now);
    }

    /// Takes external triggers: either a number of triggers, or all triggers up to the announced
    /// number. An announced number includes triggers whose announcements were lost.
    pub fn handle_trigger(&mut self, asked: Asked, now: Instant) {
        match asked {
            Asked::Count(count) => {
                if self.core.trigger(count, now) == 0 && !self.core.has_begun() {
                    self.core.intake.numbers.refuse(count);
                }
            }
            Asked::Announced(announcement) => self.handle_announcement(announcement, now),
        }
    }

    /// Takes an announced trigger. If the run takes no triggers yet, the number counts as refused.
    fn handle_announcement(&mut self, announcement: Announcement, now: Instant) {
        let core = &mut self.core;
        let Judged::New(count) = core.intake.numbers.judge(announcement) else { return };
        if core.trigger(count, now) == count {
            core.intake.numbers.take(announcement);
        } else if !core.has_begun() {
            core.intake.numbers.refuse(1);
        }
    }

    /// Makes a change that an operator has requested.
    ///
    /// # Errors
    /// Returns [`ChangeError`] if the run cannot be changed in this way now.
    pub fn change(&mut self, change: RunChange, now: Instant) -> Result<(), ChangeError> {
        match change {
            RunChange::Pause => self.core.pause(now),
            RunChange::Resume => self.core.resume(now),
            RunChange::SetRate(rate) => self.core.set_rate(rate, now),
            RunChange::AddBuilder(id) => self.core.add_builder(id, now),
            RunChange::RemoveBuilder(id) => self.core.remove_builder(id, now),
            RunChange::Learn(source) => self.core.verdicts().learn(source, now),
            RunChange::Owe(request) => Exclusions { core: &mut self.core }.change(&request, now),
        }
    }

    /// Confirms a request of an operator: [`SupervisorOutput::Confirmed`] with that number follows
    /// when all changes so far are in the journal, so that a confirmed change survives a crash.
    /// While the disk does not respond, requests are confirmed without waiting for it.
    pub fn confirm(&mut self, number: u64) {
        self.held.push(SupervisorOutput::Confirmed(number));
    }

    /// Notes that the journal's current write is finished, and the journal's length. `replaced` is
    /// an error if the snapshot of the write did not replace the journal.
    pub fn handle_journal_written(&mut self, length: u64, replaced: Result<(), String>, now: Instant) {
        if let Some(keeper) = &mut self.keeper {
            keeper.handle_written(length, replaced, now);
        }
        self.heed_disk(now);
    }

    /// Notes that the journal's current write failed, and the reason. Another write follows, or
    /// [`SupervisorOutput::AbandonJournal`].
    pub fn handle_journal_failure(&mut self, error: String, now: Instant) {
        if self.keeper.as_mut().is_some_and(|keeper| keeper.handle_failure(error, now)) {
            self.ready.push_back(SupervisorOutput::AbandonJournal);
        }
    }

    /// Notes that the driver has given up the journal, and the result of removing it. The run
    /// continues without a journal.
    pub fn handle_journal_abandoned(&mut self, removed: Result<(), String>, now: Instant) {
        let Some(keeper) = self.keeper.take() else { return };
        self.core.abandon_journal(keeper.abandon(removed));
        // Without a journal, no output has to wait for an entry.
        self.held.free();
        self.heed_disk(now);
    }

    /// Stops decisions while the journal's disk is too slow. Confirmations do not wait for it.
    fn heed_disk(&mut self, now: Instant) {
        self.keeper.iter_mut().for_each(|keeper| keeper.handle_timeout(now));
        if self.takes_registrations() {
            self.core.journal_goes_on(now);
        } else {
            self.core.stall_journal(now);
            self.ready.extend(self.held.take_confirmed());
        }
    }

    /// Returns the next action for the driver; `None` if there is none before the next input.
    pub fn poll(&mut self, now: Instant) -> Option<SupervisorOutput> {
        let output = self.ready.pop_front().or_else(|| self.poll_core(now));
        output.or_else(|| self.end_turn(now))
    }

    /// Takes outputs of the state machine: a heartbeat and the end of a connection are returned at
    /// once, and all others are held until the journal has the entries before them.
    fn poll_core(&mut self, now: Instant) -> Option<SupervisorOutput> {
        while let Some(output) = self.core.poll(now) {
            match output {
                // A heartbeat depends on no entry, and peers wait for it, so it is sent at once.
                Output::Send { to, message: message @ Control { message: Some(Message::Heartbeat(_)) } } => {
                    return Some(SupervisorOutput::Send { to, message });
                }
                Output::Send { to, message } => self.held.push(SupervisorOutput::Send { to, message }),
                Output::Drop { peer, reason } => {
                    tracing::debug!(%peer, %reason, "connection closed");
                    self.held.drop_peer(peer);
                    return Some(SupervisorOutput::Drop { peer, reason });
                }
                Output::Begun(result) => self.held.push(SupervisorOutput::Begun(result)),
                Output::Journal(entry) => {
                    if let Some(keeper) = &mut self.keeper {
                        keeper.add(*entry, now);
                    }
                }
                Output::Ended(report) => {
                    let report = self.closed(report);
                    self.held.push(SupervisorOutput::Ended(report));
                }
            }
        }
        None
    }

    /// Ends a turn, when the state machine has no more outputs: all outputs of the turn depend on
    /// the entries that were added so far.
    fn end_turn(&mut self, now: Instant) -> Option<SupervisorOutput> {
        let (core, mut added, mut written) = (&self.core, 0, 0);
        if let Some(keeper) = &mut self.keeper {
            if let Some(write) = keeper.poll(now, || core.snapshot(now)) {
                return Some(SupervisorOutput::Write(write));
            }
            (added, written) = (keeper.added(), keeper.written());
        }
        self.held.seal(added);
        self.held.pop(written)
    }

    /// Handles the passage of time.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.heed_disk(now);
        if self.core.next_timeout().is_some_and(|due| due <= now) {
            self.core.handle_timeout(now);
        }
    }

    /// Returns the time at which [`handle_timeout`](Self::handle_timeout) must be called next.
    pub fn next_timeout(&self) -> Option<Instant> {
        earlier(self.core.next_timeout(), self.keeper.as_ref().and_then(Keeper::next_timeout))
    }

    /// Checks the invariants, for tests and the simulator.
    ///
    /// # Panics
    /// Panics if an invariant does not hold, which is a defect of evb.
    pub fn invariants(&self) {
        self.core.invariants();
        self.keeper.iter().for_each(Keeper::invariants);
    }

    /// Adds to the final report the facts that only this role knows.
    fn closed(&self, report: Box<RunReport>) -> Box<RunReport> {
        if report.events.lost > 0 {
            let (run, lost) = (report.run, report.events.lost);
            let events = counted(lost, "event");
            tracing::error!(
                run,
                lost,
                "run {run} has lost {events}: {}; what to do is in the lines `problem` of the summary that the supervisor's process prints at the end, unless it has --quiet",
                report.verdict
            );
        }
        report
    }
}
