//! [`Entry`]: a role that is joining a run.

use std::future::poll_fn;

use evb_core::{
    id::EventId,
    session::{Joining, JoiningOutput, Member, RunOutcome, Start},
};
use evb_net::clock;

use super::{Access, RoleError, SupervisorLink};

/// A role that was admitted and waits for the first roster.
pub(crate) struct Entry {
    joining: Joining,
    link: SupervisorLink,
}

/// The outcome of a role's attempt to join.
pub(crate) enum Beginning {
    /// The role joined, with a roster and the connection to the supervisor.
    Start(Box<Start>, SupervisorLink),
    /// The role did not join, because the run is over.
    Over(Box<RunOutcome>),
}

impl Entry {
    /// Joins a run with a role. Also returns the first event that the role has a part in.
    ///
    /// # Errors
    /// The reason for which the role could not join.
    pub(crate) async fn join(member: Member, access: Access) -> Result<(Self, EventId), RoleError> {
        let joining = Joining::new(member, clock::now());
        let mut new = Self { joining, link: SupervisorLink::new(access) };
        loop {
            match new.next().await {
                JoiningOutput::Joined(first) => return Ok((new, first)),
                JoiningOutput::Ended(ended) => {
                    ended.map_err(|fault| new.link.error(fault))?;
                    return Err(RoleError::Vanished);
                }
                JoiningOutput::Dial(_) | JoiningOutput::Close | JoiningOutput::Begin(_) => {}
            }
        }
    }

    /// Waits for the first roster of the run.
    ///
    /// # Errors
    /// The reason for which the role cannot go on.
    pub(crate) async fn begin(mut self) -> Result<Beginning, RoleError> {
        loop {
            match self.next().await {
                JoiningOutput::Begin(start) => return Ok(Beginning::Start(start, self.link)),
                JoiningOutput::Ended(ended) => {
                    let outcome = ended.map_err(|fault| self.link.error(fault))?;
                    return Ok(Beginning::Over(Box::new(outcome)));
                }
                JoiningOutput::Dial(_) | JoiningOutput::Close | JoiningOutput::Joined(_) => {}
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
                    output => return output,
                }
            }
            let link = &mut self.link;
            let heard = poll_fn(|cx| {
                // The handshake's last bytes may still be queued.
                link.poll_flush(cx);
                link.poll(cx)
            });
            let heard = match self.joining.next_timeout() {
                Some(at) => tokio::time::timeout(at.since(now), heard).await.ok(),
                None => Some(heard.await),
            };
            if let Some(heard) = heard {
                self.joining.handle_supervisor(heard, clock::now());
            }
        }
    }
}
