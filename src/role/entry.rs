//! [`AdmittedRole`]: a role that is joining a run.

use std::{future::poll_fn, task::Poll};

use evb_core::{
    id::EventId,
    session::{Heard, Joining, JoiningOutput, Member, RunOutcome, Start},
};
use evb_net::clock;
use tokio::sync::mpsc;

use super::{Access, RoleError, SupervisorLink};

/// A role that was admitted and waits for the first roster.
pub(crate) struct AdmittedRole {
    joining: Joining,
    link: SupervisorLink,
    /// Requests to end the run.
    run_ends: mpsc::Receiver<String>,
}

/// The outcome of a role's attempt to join.
pub(crate) enum JoinOutcome {
    /// The role joined, with a roster, the connection to the supervisor, and the requests to end
    /// the run.
    Start(Box<Start>, SupervisorLink, mpsc::Receiver<String>),
    /// The role did not join, because the run is over.
    Over(Box<RunOutcome>),
}

/// An input of a role that is joining.
#[expect(clippy::large_enum_variant, reason = "it is handled at once, and never kept")]
enum JoiningInput {
    Heard(Heard),
    /// A request to end the run, with its cause.
    RunEnd(String),
}

impl AdmittedRole {
    /// Joins a run with a role. Also returns the first event that the role has a part in.
    /// `run_ends` are the requests to end the run.
    ///
    /// # Errors
    /// The reason for which the role could not join.
    pub(crate) async fn join(
        member: Member,
        access: Access,
        run_ends: mpsc::Receiver<String>,
    ) -> Result<(Self, EventId), RoleError> {
        let joining = Joining::new(member, clock::now());
        let mut new = Self { joining, link: SupervisorLink::new(access), run_ends };
        loop {
            match new.next().await {
                JoiningOutput::Joined(first) => return Ok((new, first)),
                JoiningOutput::Ended(ended) => {
                    ended.map_err(|fault| new.link.error(fault))?;
                    return Err(RoleError::Vanished);
                }
                JoiningOutput::Dial(_)
                | JoiningOutput::Close
                | JoiningOutput::Send(_)
                | JoiningOutput::Begin(_) => {}
            }
        }
    }

    /// Waits for the first roster of the run.
    ///
    /// # Errors
    /// The reason for which the role cannot go on.
    pub(crate) async fn begin(mut self) -> Result<JoinOutcome, RoleError> {
        loop {
            match self.next().await {
                JoiningOutput::Begin(start) => {
                    return Ok(JoinOutcome::Start(start, self.link, self.run_ends));
                }
                JoiningOutput::Ended(ended) => {
                    let outcome = ended.map_err(|fault| self.link.error(fault))?;
                    return Ok(JoinOutcome::Over(Box::new(outcome)));
                }
                JoiningOutput::Dial(_)
                | JoiningOutput::Close
                | JoiningOutput::Send(_)
                | JoiningOutput::Joined(_) => {}
            }
        }
    }

    /// Handles outputs that concern the connection, and returns the next other output.
    async fn next(&mut self) -> JoiningOutput {
        loop {
            let now = clock::now();
            self.joining.handle_timeout(now);
            while let Some(output) = self.joining.poll(now) {
                match output {
                    JoiningOutput::Dial(dial) => self.link.dial(dial),
                    JoiningOutput::Close => self.link.close(),
                    JoiningOutput::Send(message) => self.link.send(&message),
                    output => return output,
                }
            }
            let (link, run_ends) = (&mut self.link, &mut self.run_ends);
            let input = poll_fn(|cx| {
                // The handshake's last bytes may still be queued.
                link.poll_flush(cx);
                match run_ends.poll_recv(cx) {
                    Poll::Ready(Some(cause)) => Poll::Ready(JoiningInput::RunEnd(cause)),
                    _ => link.poll(cx).map(JoiningInput::Heard),
                }
            });
            let input = match self.joining.next_timeout() {
                Some(at) => tokio::time::timeout(at.since(now), input).await.ok(),
                None => Some(input.await),
            };
            match input {
                Some(JoiningInput::Heard(heard)) => self.joining.handle_supervisor(heard, clock::now()),
                Some(JoiningInput::RunEnd(cause)) => self.joining.request_run_end(cause),
                None => {}
            }
        }
    }
}
