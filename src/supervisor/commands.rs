//! [`Commands`]: requests to a run, sent by handles.

use std::{
    collections::BTreeMap,
    task::{Context, Poll},
};

use evb_core::{
    id::Peer,
    ledger::Annotation,
    supervisor::{ChangeError, NotReady, RunChange, SupervisorRole, Survey},
    time::Instant,
};
use tokio::sync::{mpsc, oneshot};

use super::links::Links;

/// Limit of the commands that are carried out in one turn.
const BATCH: usize = 64;

/// A command sent by a handle.
#[derive(Debug)]
pub(super) enum HandleCommand {
    Trigger(u64),
    Stop(String),
    Change(RunChange, oneshot::Sender<Result<(), ChangeError>>),
    Begin(Annotation, oneshot::Sender<Result<(), NotReady>>),
    Survey(oneshot::Sender<Survey>),
}

/// The queue of commands, and answers that wait for the journal.
#[derive(Debug)]
pub(super) struct Commands {
    /// Queue of new commands; `None` once all handles are dropped.
    incoming: Option<mpsc::Receiver<HandleCommand>>,
    askers: BTreeMap<u64, oneshot::Sender<Result<(), ChangeError>>>,
    /// Channels that wait for the result of the run's beginning.
    beginners: Vec<oneshot::Sender<Result<(), NotReady>>>,
    /// Number of the last command whose answer waits.
    last: u64,
}

impl Commands {
    pub(super) fn new(incoming: mpsc::Receiver<HandleCommand>) -> Self {
        Self { incoming: Some(incoming), askers: BTreeMap::new(), beginners: Vec::new(), last: 0 }
    }

    /// Carries out waiting commands. Returns true if more commands may be waiting.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        role: &mut SupervisorRole,
        links: &mut Links,
        now: Instant,
    ) -> bool {
        for _ in 0..BATCH {
            let Some(incoming) = &mut self.incoming else { return false };
            match incoming.poll_recv(cx) {
                Poll::Pending => return false,
                Poll::Ready(None) => self.incoming = None,
                Poll::Ready(Some(command)) => self.carry_out(command, role, links, now),
            }
        }
        true
    }

    /// Confirms the command with the given number: its change is made and written to the journal.
    /// The caller may be gone by then.
    pub(super) fn confirm(&mut self, number: u64) {
        if let Some(answer) = self.askers.remove(&number) {
            drop(answer.send(Ok(())));
        }
    }

    /// Tells the result of the run's beginning to those who wait for it.
    pub(super) fn answer_begin(&mut self, result: &Result<(), NotReady>) {
        for answer in self.beginners.drain(..) {
            drop(answer.send(result.clone()));
        }
    }

    /// Carries out a command of a handle. The answer follows at once, or when the change is
    /// confirmed.
    fn carry_out(
        &mut self,
        command: HandleCommand,
        role: &mut SupervisorRole,
        links: &mut Links,
        now: Instant,
    ) {
        match command {
            HandleCommand::Trigger(count) => {
                role.run_mut().trigger(count, now);
            }
            HandleCommand::Stop(cause) => role.run_mut().stop(&cause, now),
            HandleCommand::Survey(answer) => drop(answer.send(role.core().survey(now))),
            HandleCommand::Begin(annotation, answer) => match role.run_mut().begin(&annotation, now) {
                Ok(()) => self.beginners.push(answer),
                Err(error) => drop(answer.send(Err(error))),
            },
            HandleCommand::Change(change, answer) => match role.change(change.clone(), now) {
                Ok(()) => {
                    if let RunChange::AddBuilder(id) = change {
                        links.add(Peer::Builder(id));
                    }
                    self.answer_later(answer, role);
                }
                Err(error) => drop(answer.send(Err(error))),
            },
        }
    }

    fn answer_later(&mut self, asker: oneshot::Sender<Result<(), ChangeError>>, role: &mut SupervisorRole) {
        self.last += 1;
        self.askers.insert(self.last, asker);
        role.confirm(self.last);
    }
}
