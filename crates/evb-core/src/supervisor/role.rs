//! [`SupervisorRole`]: the supervisor's state machine together with its journal. The role holds
//! back an output until the journal entries that the output depends on are written.

mod held;
#[cfg(test)]
mod tests;

use core::time::Duration;
use std::collections::VecDeque;

use held::HeldOutputs;

use super::{NotReady, Output, Recipients, SupervisorCore};
use crate::{
    id::Peer,
    ledger::RunReport,
    quantities::counted,
    time::Instant,
    trigger::{
        announcement::{Announcement, Asked},
        numbers::Judged,
    },
    wire::{
        control::{Control, Hello, Message, Refusal, Welcome},
        journal::Entry,
    },
};

/// Time for which a run waits when its journal cannot be written. After that, the run continues
/// without a journal.
const JOURNAL_PATIENCE: Duration = Duration::from_secs(5);

/// Time that a write of the journal may take. If a write takes longer, triggers are inhibited, and
/// the disk is named as the cause.
pub const JOURNAL_STALL: Duration = Duration::from_millis(100);

/// Time from a failed write of the journal to the next attempt.
pub const JOURNAL_RETRY: Duration = Duration::from_millis(100);

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
    /// Write an entry to the journal.
    Journal(Box<Entry>),
    /// Remove the journal, because the run continues without it and it would become wrong. Call
    /// [`SupervisorRole::handle_journal_abandoned`] afterwards.
    AbandonJournal,
    /// The ledger is closed. Send all remaining messages, and end.
    Ended(Box<RunReport>),
}

/// State of the journal as far as the supervisor knows it.
#[derive(Clone, Debug)]
struct Journal {
    /// The journal's name for operators.
    name: String,
    /// Time since which the journal cannot be written, and the reason; `None` while it can be
    /// written.
    fails: Option<(Instant, String)>,
}

/// State machine of a supervisor process, with its journal.
///
/// After all inputs that share one `now`, call [`poll`](Self::poll) until it returns `None`, pass
/// the journal's state to [`handle_journal`](Self::handle_journal), and call `poll` until `None`
/// again.
#[derive(Clone, Debug)]
pub struct SupervisorRole {
    core: SupervisorCore,
    /// Outputs that depend on no journal entry, or whose entries are written.
    ready: VecDeque<SupervisorOutput>,
    held: HeldOutputs,
    journal: Option<Journal>,
}

impl SupervisorRole {
    /// Creates the role from a state machine. `journal` is the name of the journal, if one is kept.
    pub fn new(core: SupervisorCore, journal: Option<String>) -> Self {
        Self {
            core,
            ready: VecDeque::new(),
            held: HeldOutputs::default(),
            journal: journal.map(|name| Journal { name, fails: None }),
        }
    }

    /// Returns the state machine for inspection.
    pub fn core(&self) -> &SupervisorCore {
        &self.core
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

    fn handle_announcement(&mut self, announcement: Announcement, now: Instant) {
        let core = &mut self.core;
        let Judged::New(new) = core.intake.numbers.judge(announcement) else { return };
        if core.trigger(new, now) == new {
            core.intake.numbers.take(announcement);
        } else if !core.has_begun() {
            core.intake.numbers.refuse(1);
        }
    }

    /// Confirms a request of an operator: [`SupervisorOutput::Confirmed`] with that number follows
    /// when all changes so far are in the journal, so that a confirmed change survives a crash.
    /// While the disk does not respond, requests are confirmed without waiting for it.
    pub fn confirm(&mut self, number: u64) {
        self.held.push(SupervisorOutput::Confirmed(number));
    }

    /// Notes whether a slow write of the journal has to stop decisions at present.
    pub fn set_stalled(&mut self, is_stalled: bool, now: Instant) {
        if is_stalled {
            self.core.stall_journal(now);
            self.ready.extend(self.held.take_confirmed());
        } else {
            self.core.journal_goes_on(now);
        }
    }

    /// Ends a turn. All outputs of the turn depend on the first `added` entries of the journal, of
    /// which `written` are on disk.
    pub fn handle_journal(&mut self, added: u64, written: u64) {
        self.held.seal(added);
        while let Some(output) = self.held.pop(written) {
            self.ready.push_back(output);
        }
    }

    /// Notes that entries were written to the journal.
    pub fn handle_journal_written(&mut self) {
        if let Some(Journal { name, fails }) = &mut self.journal
            && fails.take().is_some()
        {
            tracing::warn!(
                path = name,
                "the supervisor's journal {name} can be written again, and the run goes on: nothing needs to be done"
            );
        }
    }

    /// Notes that entries could not be written, and the reason. The driver tries again until
    /// [`SupervisorOutput::AbandonJournal`] follows.
    pub fn handle_journal_failure(&mut self, error: String, now: Instant) {
        let Some(Journal { name, fails }) = &mut self.journal else { return };
        if fails.is_none() {
            tracing::warn!(path = name, %error, "the supervisor's journal {name} cannot be written, and the run takes no triggers: {error}; make room on its disk");
        }
        let (since, _) = fails.get_or_insert((now, error));
        if now.since(*since) >= JOURNAL_PATIENCE {
            self.ready.push_back(SupervisorOutput::AbandonJournal);
        }
    }

    /// Notes that the driver has given up the journal, and the result of removing it. The run
    /// continues without a journal.
    pub fn handle_journal_abandoned(&mut self, removed: Result<(), String>) {
        let Some(Journal { name, fails }) = self.journal.take() else { return };
        let error = fails.map_or_else(|| "the journal's thread ended".to_owned(), |(_, error)| error);
        let mut problem =
            format!("the journal {name} could not be written: {error}; the run went on without it");
        if let Err(error) = removed {
            problem += &format!(", and it could not be removed: {error}; remove it before the next start");
        }
        tracing::warn!(
            "{problem}; keep the supervisor running until the run is over, because this run cannot go on without it, and repair the disk"
        );
        self.core.abandon_journal(problem);
        // Without a journal, no output has to wait for an entry.
        self.held.free();
    }

    /// Returns the next action for the driver; `None` if there is none before the next input.
    pub fn poll(&mut self, now: Instant) -> Option<SupervisorOutput> {
        if let Some(output) = self.ready.pop_front() {
            return Some(output);
        }
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
                Output::Journal(entry) => return Some(SupervisorOutput::Journal(entry)),
                Output::Ended(report) => {
                    let report = self.closed(report);
                    self.held.push(SupervisorOutput::Ended(report));
                }
            }
        }
        None
    }

    /// Handles the passage of time.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.next_timeout().is_some_and(|due| due <= now) {
            self.core.handle_timeout(now);
        }
    }

    /// Returns the time at which [`handle_timeout`](Self::handle_timeout) must be called next.
    pub fn next_timeout(&self) -> Option<Instant> {
        self.core.next_timeout()
    }

    /// Checks the invariants, for tests and the simulator.
    ///
    /// # Panics
    /// Panics if an invariant does not hold, which is a defect of evb.
    pub fn invariants(&self) {
        self.core.invariants();
    }

    /// Adds to the final report the facts that only this role knows.
    fn closed(&self, report: Box<RunReport>) -> Box<RunReport> {
        if report.events.lost > 0 {
            let (run, lost) = (report.run, report.events.lost);
            let events = counted(lost, "event");
            tracing::error!(
                run,
                lost,
                "run {run} has lost {events}: {}; the summary names the causes",
                report.verdict
            );
        }
        report
    }
}
