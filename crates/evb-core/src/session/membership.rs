//! [`Membership`]: keeps a role registered with the supervisor over all its successive connections.

#[cfg(test)]
mod tests;

use core::time::Duration;

use super::{Dial, DialFailure, DialFault, Heard, RoleFault, RunIdentity, Target};
use crate::{
    id::Incarnation,
    quantities::time,
    time::{Instant, stood_still},
    wire::control::{Control, Hello, MalformedMessage, Message, Reason, Role, RunParameters, Stop, Welcome},
};

/// Time without a message after which a role treats the supervisor as lost, unless four periods of
/// heartbeats take longer. This limit is longer than the time after which the supervisor treats a
/// silent peer as down.
const SILENCE: Duration = Duration::from_secs(2);

/// Time limit for one attempt to register again. While the network is interrupted, the kernel
/// doubles the intervals between its own attempts. A new connection is up within a second after the
/// network is back.
const TRY: Duration = Duration::from_secs(2);

/// Time for which a role tries to register again if the supervisor has not specified one.
const PATIENCE: Duration = Duration::from_secs(15);

/// Number of looks for silence in the time after which the supervisor counts as lost.
const LOOKS: u32 = 8;

/// Time that a role waits between two attempts to connect.
const RETRY: Duration = Duration::from_millis(100);

/// A role that wants to join a run.
#[derive(Clone, Debug)]
pub struct Member {
    /// The supervisor's address.
    pub supervisor: String,
    /// The role's greeting.
    pub hello: Hello,
    /// Time for which the role tries to join.
    pub start_timeout: Duration,
}

/// A registration, and the time of the greeting that led to it.
#[derive(Clone, Debug, PartialEq)]
pub struct Registered {
    /// Time at which the role sent the greeting that the supervisor answered.
    pub greeted: Instant,
    /// The role's incarnation in the run.
    pub incarnation: Incarnation,
    /// The parameters that the supervisor sets.
    pub parameters: RunParameters,
}

/// An action that the membership requests from the driver.
#[derive(Debug)]
pub enum MembershipOutput {
    /// Connect to the supervisor and send it the role's greeting.
    Dial(Dial),
    /// Close the connection to the supervisor, or stop the attempt to connect.
    Close,
}

/// Event for the role's state machine that results from an input.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "it is handed on at once, and never kept")]
pub enum MembershipEvent {
    /// A message from the supervisor arrived.
    Message(Control),
    /// The connection to the supervisor broke; the role continues without it.
    Lost,
    /// The role is registered, for the first time or again. The role has to send messages again
    /// that an older connection may not have delivered.
    Registered(Registered),
}

/// A role's membership in a run. When the connection to the supervisor breaks, it registers again,
/// while the role continues to work.
///
/// After all inputs that share one `now`, call `poll` until it returns `None`.
/// Requirements: docs/reference/protocol.md CONN-11, CONN-17, CONN-18.
#[derive(Clone, Debug)]
pub struct Membership {
    supervisor: String,
    /// The greeting; run id and incarnation are filled in when they are known.
    hello: Hello,
    /// The run; `None` until the supervisor has admitted the role.
    identity: Option<RunIdentity>,
    patience: Duration,
    /// Time without a message after which the supervisor counts as lost.
    silence: Duration,
    /// True once the run has a roster. From then on, silence means that the supervisor is lost.
    is_watched: bool,
    /// True once the run has begun. From then on, the role may hold data.
    has_begun: bool,
    closes: bool,
    /// Cause of the role's request to end the run; the request is sent on every connection.
    stop: Option<String>,
    state: MembershipState,
}

#[derive(Clone, Debug)]
enum MembershipState {
    Up {
        /// Time at which the last message arrived, moved by the time for which this process stood
        /// still.
        heard: Instant,
        /// Time of the last look for silence.
        looked: Instant,
    },
    Away(Away),
    /// The membership has ended.
    Over,
}

#[derive(Clone, Debug)]
struct Away {
    since: Instant,
    /// Reason why the connection broke.
    cause: String,
    last: Option<String>,
    /// Time at which the present attempt to connect began.
    dialing: Option<Instant>,
    next: Instant,
    /// True if a warning has told of keys or versions that differ.
    has_warned: bool,
}

impl Membership {
    /// Creates the membership of a role that tries to join from `now` on.
    pub fn new(member: Member, now: Instant) -> Self {
        let Member { supervisor, hello, start_timeout } = member;
        let state = MembershipState::Away(Away::since(now, String::new()));
        Self {
            supervisor,
            hello,
            identity: None,
            patience: start_timeout,
            silence: SILENCE,
            is_watched: false,
            has_begun: false,
            closes: false,
            stop: None,
            state,
        }
    }

    /// Returns the run that the role belongs to; `None` until the supervisor has admitted the role.
    pub fn identity(&self) -> Option<RunIdentity> {
        self.identity
    }

    /// Returns true if the connection to the supervisor is up.
    pub fn is_up(&self) -> bool {
        matches!(self.state, MembershipState::Up { .. })
    }

    /// Expects regular messages from the supervisor from now on (docs/reference/protocol.md
    /// CTRL-5).
    pub fn watch(&mut self, now: Instant) {
        self.is_watched = true;
        if self.is_up() {
            self.state = MembershipState::Up { heard: now, looked: now };
        }
    }

    /// Notes that the run has begun.
    pub fn begin(&mut self) {
        self.has_begun = true;
    }

    /// Returns the time for which the role tries to register again. A role that shall end, and
    /// whose run has not begun, holds nothing: it only tells a supervisor that is back soon.
    fn patience(&self) -> Duration {
        if self.stop.is_some() && !self.has_begun { TRY.min(self.patience) } else { self.patience }
    }

    /// Notes that the role requests the end of the run. Returns the message to send now; `None` if
    /// the connection to the supervisor is down.
    pub fn request_run_end(&mut self, cause: String) -> Option<Control> {
        self.stop = Some(cause);
        if self.is_up() { self.stop_message() } else { None }
    }

    /// Returns the role's request to end the run, to be sent on each new connection; `None` if the
    /// role has not made one.
    pub fn stop_message(&self) -> Option<Control> {
        let cause = self.stop.clone()?;
        Some(Control { message: Some(Message::Stop(Stop { cause })) })
    }

    /// Handles an event of the connection to the supervisor.
    ///
    /// # Errors
    /// Returns [`RoleFault`] if the role cannot continue.
    pub fn handle(&mut self, heard: Heard, now: Instant) -> Result<Option<MembershipEvent>, RoleFault> {
        match heard {
            Heard::Message(message) => {
                let MembershipState::Up { heard, .. } = &mut self.state else { return Ok(None) };
                *heard = now;
                Ok(Some(MembershipEvent::Message(message)))
            }
            Heard::Welcome(welcome) => self.handle_welcome(&welcome, now),
            Heard::Failed(failure) => self.handle_failure(failure, now).map(|()| None),
            Heard::Closed(cause) => Ok(self.is_up().then(|| self.lose(cause, now))),
            Heard::Unreadable(words) => Err(self.end(RoleFault::Unreadable(words))),
        }
    }

    /// Handles the passage of time: a silent supervisor, an attempt that takes too long, and the
    /// end of the time for attempts.
    ///
    /// # Errors
    /// Returns [`RoleFault::Abandoned`] when the time for attempts to register again is over.
    pub fn handle_timeout(&mut self, now: Instant) -> Result<Option<MembershipEvent>, RoleFault> {
        let (is_first, patience) = (self.identity.is_none(), self.patience());
        match &mut self.state {
            MembershipState::Up { heard, looked } if self.is_watched => {
                let due = *looked + self.silence / LOOKS;
                if now >= due {
                    if stood_still(due, now) {
                        // What arrived meanwhile is unread.
                        *heard = (*heard + now.since(*looked)).min(now);
                    }
                    *looked = now;
                }
                if now.since(*heard) >= self.silence {
                    self.closes = true;
                    return Ok(Some(self.lose(format!("it sent nothing for {}", time(self.silence)), now)));
                }
            }
            // The driver limits the duration of an attempt before the role has joined.
            MembershipState::Away(away) if !is_first => match away.dialing {
                Some(since) if now.since(since) >= TRY => {
                    away.fail(format!("no answer within {}", time(TRY)), now);
                    self.closes = true;
                }
                // If `patience` ends during an attempt, the attempt may continue for its own time
                // limit.
                None if now.since(away.since) >= patience => return Err(self.give_up(now)),
                _ => {}
            },
            MembershipState::Up { .. } | MembershipState::Away(_) | MembershipState::Over => {}
        }
        Ok(None)
    }

    /// Returns the time at which to call [`Self::handle_timeout`] and [`Self::poll`] without
    /// further input.
    pub fn next_timeout(&self) -> Option<Instant> {
        let is_first = self.identity.is_none();
        match &self.state {
            MembershipState::Up { heard, looked } => {
                self.is_watched.then(|| (*heard + self.silence).min(*looked + self.silence / LOOKS))
            }
            MembershipState::Away(Away { dialing: Some(_), .. }) if is_first => None,
            MembershipState::Away(Away { dialing: Some(since), .. }) => Some(*since + TRY),
            MembershipState::Away(away) if is_first => Some(away.next),
            MembershipState::Away(away) => Some(away.next.min(away.since + self.patience())),
            MembershipState::Over => None,
        }
    }

    /// Returns the next action.
    pub fn poll(&mut self, now: Instant) -> Option<MembershipOutput> {
        if core::mem::take(&mut self.closes) {
            return Some(MembershipOutput::Close);
        }
        let (is_first, patience) = (self.identity.is_none(), self.patience());
        let MembershipState::Away(away) = &mut self.state else { return None };
        let has_patience = is_first || now.since(away.since) < patience;
        if away.dialing.is_some() || now < away.next || !has_patience {
            return None;
        }
        away.dialing = Some(now);
        let (address, hello) = (self.supervisor.clone(), Box::new(self.hello.clone()));
        Some(MembershipOutput::Dial(Dial { target: Target::Supervisor, address, hello }))
    }

    /// Handles the supervisor's answer to a registration. A supervisor of another run ends the
    /// membership.
    fn handle_welcome(
        &mut self,
        welcome: &Welcome,
        now: Instant,
    ) -> Result<Option<MembershipEvent>, RoleFault> {
        // A welcome that arrives while no attempt is in progress is late: its connection has been
        // dropped.
        let MembershipState::Away(Away { dialing: Some(greeted), .. }) = self.state else { return Ok(None) };
        let identity = RunIdentity::of(welcome);
        if self.identity.is_some_and(|known| known.id != identity.id) {
            if let MembershipState::Away(away) = &mut self.state {
                "another supervisor took its place".clone_into(&mut away.cause);
                away.last = Some("that supervisor leads another run".to_owned());
            }
            return Err(self.give_up(now));
        }
        let is_again = self.identity.replace(identity).is_some();
        let registered = match registered(welcome, greeted) {
            Ok(registered) => registered,
            Err(fault) => return Err(self.end(fault.into())),
        };
        if is_again {
            let (supervisor, incarnation) = (&self.supervisor, registered.incarnation.number());
            let this = this(&self.hello);
            tracing::info!(
                supervisor,
                incarnation,
                "{this} has registered again with the supervisor at {supervisor}, and the run goes on: nothing needs to be done"
            );
        }
        self.hello.run_id = identity.id;
        self.hello.incarnation = registered.incarnation.number();
        self.patience = match registered.parameters.patience_ns {
            0 => PATIENCE,
            nanos => Duration::from_nanos(nanos),
        };
        self.silence =
            SILENCE.max(Duration::from_nanos(registered.parameters.heartbeat_ns.saturating_mul(4)));
        self.state = MembershipState::Up { heard: now, looked: now };
        Ok(Some(MembershipEvent::Registered(registered)))
    }

    /// Handles an attempt to connect that failed: tries again, or gives up if the fault does not
    /// pass by itself or the time for the first registration is over.
    fn handle_failure(&mut self, failure: DialFailure, now: Instant) -> Result<(), RoleFault> {
        let is_first = self.identity.is_none();
        let MembershipState::Away(away) = &mut self.state else { return Ok(()) };
        if away.dialing.is_none() {
            return Ok(());
        }
        let DialFailure { fault, words } = failure;
        if is_first && matches!(fault, DialFault::Handshake { is_lasting: true }) && !away.has_warned {
            let (supervisor, patience) = (&self.supervisor, time(self.patience));
            let this = this(&self.hello);
            tracing::warn!(
                supervisor,
                "{this} cannot register with the supervisor at {supervisor}, and keeps trying for {patience}: {words}"
            );
            away.has_warned = true;
        }
        // Before the first registration, an address that cannot be resolved is most likely wrong.
        let may_pass = may_pass(&fault) && !(is_first && matches!(fault, DialFault::NoAddress));
        away.fail(words, now);
        if !may_pass || (is_first && now.since(away.since) > self.patience) {
            return Err(self.give_up(now));
        }
        Ok(())
    }

    /// Notes that the connection to the supervisor is lost. The membership tries to register again.
    fn lose(&mut self, cause: String, now: Instant) -> MembershipEvent {
        let (supervisor, patience) = (&self.supervisor, time(self.patience()));
        let this = this(&self.hello);
        tracing::warn!(
            supervisor,
            cause,
            "{this} has lost the supervisor at {supervisor}, keeps its data, and tries for {patience} to register again: {cause}; if the supervisor has ended, start it again within this time, or these data are lost"
        );
        self.state = MembershipState::Away(Away::since(now, cause));
        MembershipEvent::Lost
    }

    /// Ends the membership, and returns the fault with the cause and the last failed attempt.
    fn give_up(&mut self, now: Instant) -> RoleFault {
        let fault = match &self.state {
            MembershipState::Away(Away { since, cause, last, .. }) => {
                let last = last.clone().unwrap_or_else(|| "the supervisor did not answer".to_owned());
                let (cause, tried, held) = (cause.clone(), now.since(*since), String::new());
                match self.identity {
                    None => RoleFault::NotJoined(last),
                    Some(_) => RoleFault::Abandoned { cause, tried, last, held },
                }
            }
            MembershipState::Up { .. } | MembershipState::Over => {
                RoleFault::NotJoined("the role has ended".to_owned())
            }
        };
        self.end(fault)
    }

    /// Ends the membership after a fault; further input has no effect.
    fn end(&mut self, fault: RoleFault) -> RoleFault {
        self.state = MembershipState::Over;
        self.closes = true;
        fault
    }
}

impl Away {
    fn since(now: Instant, cause: String) -> Self {
        Self { since: now, cause, last: None, dialing: None, next: now, has_warned: false }
    }

    fn fail(&mut self, words: String, now: Instant) {
        (self.last, self.dialing, self.next) = (Some(words), None, now + RETRY);
    }
}

/// Returns what a role is in its own log.
const fn this(hello: &Hello) -> &'static str {
    match hello.role {
        Role::Source => "this source",
        Role::Builder => "this builder",
        Role::Supervisor | Role::Unspecified => "this role",
    }
}

/// Returns true if another attempt may succeed (docs/reference/protocol.md CONN-11). Names and
/// addresses that are not available now may be available again when the network is back.
fn may_pass(fault: &DialFault) -> bool {
    match fault {
        // After a restart of the role, the supervisor may still have the old connection and refuse
        // the new one as a duplicate.
        DialFault::Refused(refusal) => refusal.reason == Reason::DuplicateId,
        // The other side may be a stranger at the supervisor's address.
        DialFault::Unreachable | DialFault::NoAddress | DialFault::Handshake { .. } => true,
    }
}

fn registered(welcome: &Welcome, greeted: Instant) -> Result<Registered, MalformedMessage> {
    let parameters = welcome.checked_parameters()?;
    let incarnation = Incarnation::new(welcome.incarnation);
    Ok(Registered { greeted, incarnation, parameters })
}
