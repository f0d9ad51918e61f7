//! [`SupervisorRole`]: the supervisor's machine with its journal. An output that depends on an
//! entry leaves once the entry is written.

mod held;
#[cfg(test)]
mod tests;

use core::time::Duration;
use std::collections::VecDeque;

use held::Held;

use super::{Output, Recipients, SupervisorCore};
use crate::{
    id::Peer,
    ledger::RunReport,
    time::Instant,
    trigger::announcement::{Asked, MAX_COUNT},
    wire::{
        control::{Control, Hello, Message, Refusal, Welcome},
        journal::Entry,
    },
};

/// Time for which a run stands still when its journal cannot be written, before it goes on without
/// one.
const JOURNAL_PATIENCE: Duration = Duration::from_secs(5);

/// Time that a write of the journal may take before the run stands still and inhibits triggers on
/// account of the disk.
pub const JOURNAL_STALL: Duration = Duration::from_millis(100);

/// Time from a failed write of the journal to the next attempt.
pub const JOURNAL_RETRY: Duration = Duration::from_millis(100);

/// An action for the driver.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "most are messages, and boxed each would cost an allocation")]
pub enum SupervisorOutput {
    /// Send a message. Messages to one peer keep their order.
    Send {
        /// The recipients; a peer without a connection misses the message.
        to: Recipients,
        /// The message.
        message: Control,
    },
    /// Connect a registered peer: its welcome is the first message that it receives.
    Connect(Peer),
    /// Confirm the request of that number to the caller; see [`SupervisorRole::confirm`].
    Confirmed(u64),
    /// Close a peer's connection, even one that waits for [`Self::Connect`].
    Drop {
        /// The peer whose connection to close.
        peer: Peer,
        /// The reason for the log.
        reason: String,
    },
    /// Write an entry.
    Journal(Box<Entry>),
    /// Remove the journal, because it is no longer true.
    /// [`SupervisorRole::handle_journal_abandoned`] follows.
    AbandonJournal,
    /// The ledger is closed. Flush all connections, and end.
    Ended(Box<RunReport>),
}

/// The machine's view of the journal.
#[derive(Clone, Debug)]
struct Journal {
    /// The journal's name for operators.
    name: String,
    /// The time since which it cannot be written, and the reason.
    fails: Option<(Instant, String)>,
}

/// The supervisor's whole part in a run.
///
/// Law: after inputs that share one `now`, call [`poll`](Self::poll) until `None`, pass the
/// journal's state to [`handle_journal`](Self::handle_journal), and poll once more.
#[derive(Clone, Debug)]
pub struct SupervisorRole {
    core: SupervisorCore,
    /// Outputs that depend on no entry.
    ready: VecDeque<SupervisorOutput>,
    held: Held,
    journal: Option<Journal>,
    /// The highest announced trigger that was taken.
    announced: u64,
    /// Announcements of earlier triggers that did not arrive.
    unannounced: u64,
}

impl SupervisorRole {
    /// Creates the role of a machine that keeps the journal of that name, if any.
    pub fn new(core: SupervisorCore, journal: Option<String>) -> Self {
        Self {
            // A recovered run has taken these triggers already.
            announced: core.decided().number(),
            core,
            ready: VecDeque::new(),
            held: Held::default(),
            journal: journal.map(|name| Journal { name, fails: None }),
            unannounced: 0,
        }
    }

    /// Returns the machine for inspection.
    pub fn core(&self) -> &SupervisorCore {
        &self.core
    }

    /// Returns the machine for requests of operators: triggers, pauses, changes of builders, the
    /// run's end.
    pub fn run_mut(&mut self) -> &mut SupervisorCore {
        &mut self.core
    }

    /// Registers a peer that said hello; [`SupervisorOutput::Connect`] follows when the journal
    /// permits.
    ///
    /// # Errors
    /// The refusal to send to the peer.
    pub fn register(&mut self, hello: &Hello, now: Instant) -> Result<(Peer, Welcome), Refusal> {
        let welcome = self.core.register(hello, now)?;
        // The machine admits no hello without a sender.
        let peer = hello.from_peer().unwrap_or(Peer::Supervisor);
        self.held.drop_peer(peer);
        self.held.push(SupervisorOutput::Connect(peer));
        Ok((peer, welcome))
    }

    /// Takes in a message of a registered peer.
    pub fn handle_message(&mut self, peer: Peer, message: Control, now: Instant) {
        self.core.handle_message(peer, message, now);
    }

    /// Notes that a peer's connection is gone.
    pub fn handle_disconnect(&mut self, peer: Peer, reason: &str, now: Instant) {
        self.core.handle_disconnect(peer, reason, now);
    }

    /// Takes external triggers: a number of them, or all up to an announced one, including those
    /// whose announcements did not arrive.
    pub fn handle_trigger(&mut self, asked: Asked, now: Instant) {
        let number = match asked {
            Asked::Count(count) => {
                self.core.trigger(count, now);
                return;
            }
            Asked::Announced(announcement) => announcement.number,
        };
        let new = number.saturating_sub(self.announced);
        if new > MAX_COUNT {
            tracing::warn!(
                number,
                after = self.announced,
                "ignored a trigger announcement whose number is too far ahead"
            );
        } else if new > 0 && self.core.trigger(new, now) == new {
            self.announced = number;
            self.unannounced += new - 1;
        }
    }

    /// Lets [`SupervisorOutput::Confirmed`] follow when all changes so far are written, so that a
    /// confirmed change survives a crash. A disk that hangs does not delay the confirmation.
    pub fn confirm(&mut self, number: u64) {
        self.held.push(SupervisorOutput::Confirmed(number));
    }

    /// Notes whether the run has to wait for the journal's disk.
    pub fn set_stalled(&mut self, is_stalled: bool, now: Instant) {
        if is_stalled {
            self.core.stall_journal(now);
            self.ready.extend(self.held.take_confirmed());
        } else {
            self.core.journal_goes_on(now);
        }
    }

    /// Ends a turn: all its outputs depend on the first `added` entries, of which `written` are
    /// written.
    pub fn handle_journal(&mut self, added: u64, written: u64) {
        self.held.seal(added);
        while let Some(output) = self.held.pop(written) {
            self.ready.push_back(output);
        }
    }

    /// Notes that entries were written.
    pub fn handle_journal_written(&mut self) {
        if let Some(Journal { name, fails }) = &mut self.journal
            && fails.take().is_some()
        {
            tracing::warn!(path = name, "the journal can be written again");
        }
    }

    /// Notes that entries were not written, and why: the driver tries again, but not for ever.
    pub fn handle_journal_failure(&mut self, error: String, now: Instant) {
        let Some(Journal { name, fails }) = &mut self.journal else { return };
        if fails.is_none() {
            tracing::warn!(path = name, %error, "the journal cannot be written: the supervisor holds back all messages that depend on it");
        }
        let (since, _) = fails.get_or_insert((now, error));
        if now.since(*since) >= JOURNAL_PATIENCE {
            self.ready.push_back(SupervisorOutput::AbandonJournal);
        }
    }

    /// Notes that the journal is gone, and the result of removing it: the run goes on without one.
    pub fn handle_journal_abandoned(&mut self, removed: Result<(), String>) {
        let Some(Journal { name, fails }) = self.journal.take() else { return };
        let error = fails.map_or_else(|| "the journal's thread ended".to_owned(), |(_, error)| error);
        let mut problem =
            format!("the journal {name} could not be written: {error}; the run went on without it");
        if let Err(error) = removed {
            problem += &format!(", and it could not be removed: {error}; remove it before the next start");
        }
        tracing::warn!("{problem}");
        self.core.abandon_journal(problem);
        // No output depends on the journal any more.
        self.held.free();
    }

    /// Returns the next action.
    pub fn poll(&mut self, now: Instant) -> Option<SupervisorOutput> {
        if let Some(output) = self.ready.pop_front() {
            return Some(output);
        }
        while let Some(output) = self.core.poll(now) {
            match output {
                // A heartbeat depends on no entry, and peers wait for it.
                Output::Send { to, message: message @ Control { message: Some(Message::Heartbeat(_)) } } => {
                    return Some(SupervisorOutput::Send { to, message });
                }
                Output::Send { to, message } => self.held.push(SupervisorOutput::Send { to, message }),
                Output::Drop { peer, reason } => {
                    tracing::warn!(%peer, %reason, "connection closed");
                    self.held.drop_peer(peer);
                    return Some(SupervisorOutput::Drop { peer, reason });
                }
                Output::Journal(entry) => return Some(SupervisorOutput::Journal(entry)),
                Output::Ended(report) => {
                    let report = self.closed(report);
                    self.held.push(SupervisorOutput::Ended(report));
                }
            }
        }
        None
    }

    /// Notes that time passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.next_timeout().is_some_and(|due| due <= now) {
            self.core.handle_timeout(now);
        }
    }

    /// Returns when [`handle_timeout`](Self::handle_timeout) has something to do.
    pub fn next_timeout(&self) -> Option<Instant> {
        self.core.next_timeout()
    }

    /// Checks what always holds, for tests and the simulator.
    ///
    /// # Panics
    /// Where it does not hold: a defect of evb.
    pub fn invariants(&self) {
        self.core.invariants();
    }

    /// Returns the report with the facts that only the role knows.
    fn closed(&self, mut report: Box<RunReport>) -> Box<RunReport> {
        if self.unannounced > 0 {
            // Events that were lost by it, if any, are in the report's problems already.
            report.remarks.push(format!(
                "{} trigger announcements did not arrive; their triggers were taken with the next announcement",
                self.unannounced
            ));
        }
        if report.events.lost > 0 {
            let (run, lost) = (report.run, report.events.lost);
            tracing::error!(run, lost, verdict = report.verdict, "events were lost");
        }
        report
    }
}
