//! [`SupervisorRole`]: the supervisor's machine with its journal. What depends on an entry leaves when it is written.

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

/// Time for which a run stands still when its journal cannot be written, before it goes on without.
const JOURNAL_PATIENCE: Duration = Duration::from_secs(5);

/// Time that a write of the journal may take before the run stands still, and what is inhibited then is put down to the disk.
pub const JOURNAL_STALL: Duration = Duration::from_millis(100);

/// Time from a write of the journal that failed to the next try.
pub const JOURNAL_RETRY: Duration = Duration::from_millis(100);

/// What the driver has to do.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "most are messages, and boxed each would cost an allocation")]
pub enum SupervisorOutput {
    /// Sends a message. Messages to one peer keep their order.
    Send {
        /// To whom; a peer without a connection misses it.
        to: Recipients,
        /// What.
        message: Control,
    },
    /// Tells a peer that was registered that it is: its welcome is the first that it hears.
    Connect(Peer),
    /// Says to whoever asked for something under that number that it is done: see [`SupervisorRole::confirm`].
    Confirmed(u64),
    /// Closes a peer's connection, that which waits for [`Self::Connect`] included.
    Drop {
        /// Whose connection.
        peer: Peer,
        /// For the log.
        reason: String,
    },
    /// Writes an entry down.
    Journal(Box<Entry>),
    /// Removes the journal: what the file tells is no longer true. [`SupervisorRole::handle_journal_abandoned`] follows.
    AbandonJournal,
    /// The ledger is closed. Flushes all connections, and ends.
    Ended(Box<RunReport>),
}

/// The journal, as the machine knows it.
#[derive(Clone, Debug)]
struct Journal {
    /// For operators.
    name: String,
    /// Since when it cannot be written, and why.
    fails: Option<(Instant, String)>,
}

/// The supervisor's whole part in a run.
///
/// Law: after inputs that share one `now`, call [`poll`](Self::poll) until `None`, tell the journal's state by
/// [`handle_journal`](Self::handle_journal), and poll once more.
#[derive(Clone, Debug)]
pub struct SupervisorRole {
    core: SupervisorCore,
    /// Outputs that depend on nothing.
    ready: VecDeque<SupervisorOutput>,
    held: Held,
    journal: Option<Journal>,
    /// The highest announced trigger that was taken.
    announced: u64,
    /// Announcements before it that did not come.
    unannounced: u64,
}

impl SupervisorRole {
    /// Makes the role of a machine that keeps the journal of that name, if any.
    pub fn new(core: SupervisorCore, journal: Option<String>) -> Self {
        Self {
            // A run that goes on by its journal has taken those already.
            announced: core.decided().number(),
            core,
            ready: VecDeque::new(),
            held: Held::default(),
            journal: journal.map(|name| Journal { name, fails: None }),
            unannounced: 0,
        }
    }

    /// Returns the machine, to be looked at.
    pub fn core(&self) -> &SupervisorCore {
        &self.core
    }

    /// Returns the machine, for what people ask of a run: triggers, pauses, builders that come and go, its end.
    pub fn run_mut(&mut self) -> &mut SupervisorCore {
        &mut self.core
    }

    /// Registers a peer that said hello; [`SupervisorOutput::Connect`] follows when nothing stands in its way any more.
    ///
    /// # Errors
    /// What to tell a peer that is turned away.
    pub fn register(&mut self, hello: &Hello, now: Instant) -> Result<(Peer, Welcome), Refusal> {
        let welcome = self.core.register(hello, now)?;
        // The machine registers nobody without a name.
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

    /// Takes external triggers: some, or one by its number, with those before it whose announcements did not come.
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
            tracing::warn!(number, after = self.announced, "ignored a leap in the trigger numbers");
        } else if new > 0 && self.core.trigger(new, now) == new {
            self.announced = number;
            self.unannounced += new - 1;
        }
    }

    /// Lets [`SupervisorOutput::Confirmed`] follow when all that was done so far is written down: what people were told holds
    /// after a crash, too. Where the disk hangs, nobody is kept waiting for it.
    pub fn confirm(&mut self, number: u64) {
        self.held.push(SupervisorOutput::Confirmed(number));
    }

    /// Says whether the run has to wait for the journal's disk.
    pub fn set_stalled(&mut self, is_stalled: bool, now: Instant) {
        if is_stalled {
            self.core.stall_journal(now);
            self.ready.extend(self.held.take_confirmed());
        } else {
            self.core.journal_goes_on(now);
        }
    }

    /// Ends a turn: all its outputs depend on the `added` entries so far, of which that many are `written`.
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

    /// Notes that entries were not written, and why: they are tried again, but not for ever.
    pub fn handle_journal_failure(&mut self, error: String, now: Instant) {
        let Some(Journal { name, fails }) = &mut self.journal else { return };
        if fails.is_none() {
            tracing::warn!(path = name, %error, "the journal cannot be written: nothing is sent that depends on it");
        }
        let (since, _) = fails.get_or_insert((now, error));
        if now.since(*since) >= JOURNAL_PATIENCE {
            self.ready.push_back(SupervisorOutput::AbandonJournal);
        }
    }

    /// Notes that the journal is no more, and what came of removing it: the run goes on without.
    pub fn handle_journal_abandoned(&mut self, removed: Result<(), String>) {
        let Some(Journal { name, fails }) = self.journal.take() else { return };
        let error = fails.map_or_else(|| "its thread ended".to_owned(), |(_, error)| error);
        let mut problem =
            format!("the journal {name} could not be written: {error}; the run went on without it");
        if let Err(error) = removed {
            problem += &format!(", and it could not be removed: {error}; remove it before the next start");
        }
        tracing::warn!("{problem}");
        self.core.abandon_journal(problem);
        // Nothing depends on it any more.
        self.held.free();
    }

    /// Returns the next thing to do.
    pub fn poll(&mut self, now: Instant) -> Option<SupervisorOutput> {
        if let Some(output) = self.ready.pop_front() {
            return Some(output);
        }
        while let Some(output) = self.core.poll(now) {
            match output {
                // It depends on nothing, and peers listen for it.
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

    /// The report, with what only the role knows.
    fn closed(&self, mut report: Box<RunReport>) -> Box<RunReport> {
        if self.unannounced > 0 {
            // What it cost, if it did, is among the problems.
            report.remarks.push(format!(
                "{} trigger announcements did not come; their events were made up for",
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
