//! A process that wants to join a run and is not admitted yet.

use evb_core::{
    session::{Joining, JoiningOutput, Member, RoleFault, RunOutcome, Start},
    time::{Instant, earlier},
    wire::control::Hello,
};

use super::{Exit, Surroundings, line::Line};
use crate::system::{failure::Failure, scenario};

#[derive(Debug)]
pub(crate) struct Applicant {
    joining: Joining,
    pub(crate) line: Line,
}

/// The result of an attempt to join a run.
#[derive(Debug)]
pub(crate) enum Joined {
    Begin(Box<Start>),
    Exit(Exit),
}

impl Applicant {
    pub(crate) fn new(hello: Hello, now: Instant) -> Self {
        let member = Member {
            supervisor: scenario::address_of_node(0),
            hello,
            start_timeout: scenario::START_TIMEOUT,
        };
        Self { joining: Joining::new(member, now), line: Line::default() }
    }

    pub(crate) fn turn(&mut self, around: &mut Surroundings<'_>) -> Result<Option<Joined>, Failure> {
        let now = around.now();
        if self.joining.next_timeout().is_some_and(|due| due <= now) {
            self.joining.handle_timeout(now);
        }
        loop {
            while let Some(output) = self.joining.poll(now) {
                match output {
                    JoiningOutput::Dial(dial) => self.line.dial(dial, around),
                    JoiningOutput::Close => self.line.close(around),
                    JoiningOutput::Send(message) => drop(self.line.send(&message, around)),
                    JoiningOutput::Joined(_) => around.records.counts.registrations += 1,
                    JoiningOutput::Begin(start) => return Ok(Some(Joined::Begin(start))),
                    JoiningOutput::Ended(ended) => return exit(*ended).map(|exit| Some(Joined::Exit(exit))),
                }
            }
            let Some(heard) = self.line.poll(around)? else { return Ok(None) };
            self.joining.handle_supervisor(heard, now);
        }
    }

    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        earlier(self.joining.next_timeout(), self.line.next_timeout())
    }
}

/// Returns how the process of a role ends after the role has ended. Simulated hosts never break the
/// protocol, so a role that ends with a protocol error has failed a check.
pub(crate) fn exit(ended: Result<RunOutcome, RoleFault>) -> Result<Exit, Failure> {
    match ended {
        Ok(_) => Ok(Exit::Over),
        Err(fault @ (RoleFault::NotJoined(_) | RoleFault::Abandoned { .. })) => {
            Ok(Exit::Failed(fault.to_string()))
        }
        Err(fault) => Err(Failure::protocol(fault)),
    }
}
