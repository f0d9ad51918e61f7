//! [`Registration`]: a role's place in the run. When its connection breaks, it registers again, while the role goes on.

use std::{
    fmt::Display,
    future::{Future, poll_fn},
    net::IpAddr,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use evb_core::{
    id::Incarnation,
    time::Instant,
    wire::control::{
        Control, Hello, MalformedMessage, Roster, RunEnd, RunParameters, Welcome, control, refusal,
    },
};
use evb_net::{
    class::TrafficClass,
    clock,
    control::{ConnectError, ControlLink, LinkError},
    security::Security,
};

use super::{RETRY, RoleError, RunIdentity, classify};

/// A supervisor that says nothing for so long is not there: twice the silence after which it takes a peer for down.
const SILENCE: Duration = Duration::from_secs(2);

/// How long one try to register may take. Behind a network that is cut, the kernel waits longer and longer between its own
/// tries; a new connection is there within a second of the network.
const TRY: Duration = Duration::from_secs(2);

/// How long to try, where the supervisor does not say.
const PATIENCE: Duration = Duration::from_secs(15);

type Trying = Pin<Box<dyn Future<Output = Result<(ControlLink, Welcome), ConnectError>>>>;

/// What comes from the supervisor.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "it is rare, never kept, and boxed would cost an allocation each"
)]
pub(crate) enum Heard {
    /// A message.
    Message(Control),
    /// The connection is gone: go on without.
    Lost,
    /// There is another one: what the old one may not have carried is to be said again.
    Again(Box<Registered>),
}

/// A registration, and when the greeting that led to it was sent.
#[derive(Debug)]
pub(crate) struct Registered {
    pub(crate) greeted: Instant,
    pub(crate) incarnation: Incarnation,
    pub(crate) parameters: RunParameters,
}

/// How the supervisor is reached.
#[derive(Clone, Debug)]
pub(crate) struct OldAccess {
    pub(crate) supervisor: String,
    pub(crate) bind: Option<IpAddr>,
    pub(crate) class: TrafficClass,
    pub(crate) security: Security,
}

/// The connection to the supervisor, over all the connections that it takes.
/// Requirements: docs/protocol.md CONN-17, CONN-18.
pub(crate) struct Registration {
    access: OldAccess,
    /// As it is said: with run, epoch and incarnation.
    hello: Hello,
    identity: RunIdentity,
    patience: Duration,
    /// Silence means something: the run has a roster.
    is_watched: bool,
    state: State,
}

enum State {
    Up {
        link: Box<ControlLink>,
        /// When anything came last.
        heard: Instant,
        /// It failed as something was said; what came before is still to be read.
        broken: Option<LinkError>,
    },
    Lost(Loss),
}

struct Loss {
    since: Instant,
    /// Why the connection broke, and what came of the last try.
    cause: String,
    last: Option<ConnectError>,
    trying: Option<(Instant, Trying)>,
    next: Instant,
}

impl Registration {
    /// After the first registration, by `hello` that was sent at `greeted`.
    pub(crate) fn new(
        access: OldAccess,
        hello: Hello,
        (link, welcome): (ControlLink, &Welcome),
        greeted: Instant,
    ) -> Result<(Self, Registered), MalformedMessage> {
        classify(&link, access.class);
        let identity = RunIdentity::of(welcome);
        let registered = registered(welcome, greeted)?;
        let state = State::Up { link: Box::new(link), heard: clock::now(), broken: None };
        let patience = PATIENCE;
        let mut new = Self { access, hello, identity, patience, is_watched: false, state };
        new.note(&registered);
        Ok((new, registered))
    }

    pub(crate) fn identity(&self) -> RunIdentity {
        self.identity
    }

    /// Waits for the roster, and watches from then on; the end of the run, if that comes first. `registered` is the registration
    /// that holds then.
    ///
    /// # Errors
    /// As of [`Self::poll`].
    pub(crate) async fn roster(
        &mut self,
        registered: &mut Registered,
    ) -> Result<Result<Roster, RunEnd>, RoleError> {
        loop {
            match self.recv().await? {
                Heard::Message(message) => match message.message {
                    Some(control::Message::Roster(roster)) => {
                        self.watch();
                        return Ok(Ok(roster));
                    }
                    Some(control::Message::RunEnd(end)) => return Ok(Err(end)),
                    _ => {}
                },
                Heard::Again(again) => *registered = *again,
                Heard::Lost => {}
            }
        }
    }

    /// From now on, the supervisor is to be heard regularly (docs/protocol.md CTRL-5).
    pub(crate) fn watch(&mut self) {
        self.is_watched = true;
        if let State::Up { heard, .. } = &mut self.state {
            *heard = clock::now();
        }
    }

    /// The next that comes from the supervisor.
    ///
    /// # Errors
    /// [`RoleError::Supervisor`]: it breaks the protocol. [`RoleError::Abandoned`]: it cannot be reached for too long, or refuses for good; `held` says what is lost with us.
    pub(crate) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        held: impl FnOnce() -> String,
    ) -> Poll<Result<Heard, RoleError>> {
        let now = clock::now();
        let cause = match &mut self.state {
            State::Lost(_) => return self.poll_again(cx, now, held),
            State::Up { link, heard, broken } => match (link.poll_recv(cx), broken) {
                (Poll::Ready(Ok(message)), _) => {
                    *heard = now;
                    return Poll::Ready(Ok(Heard::Message(message)));
                }
                (Poll::Ready(Err(error @ (LinkError::TooLong { .. } | LinkError::Malformed(_)))), _) => {
                    return Poll::Ready(Err(RoleError::Supervisor(error)));
                }
                (Poll::Ready(Err(error)), _) => error.to_string(),
                (Poll::Pending, Some(error)) => error.to_string(),
                (Poll::Pending, None) if self.is_watched && now.since(*heard) >= SILENCE => {
                    format!("nothing was heard of it for {SILENCE:?}")
                }
                (Poll::Pending, None) => return Poll::Pending,
            },
        };
        self.lose(&cause);
        Poll::Ready(Ok(Heard::Lost))
    }

    /// The same, for a role that does nothing else meanwhile.
    ///
    /// # Errors
    /// As of [`Self::poll`].
    pub(crate) async fn recv(&mut self) -> Result<Heard, RoleError> {
        loop {
            let wait = self.next_timeout().map_or(SILENCE, |at| at.since(clock::now()));
            let polled = poll_fn(|cx| self.poll(cx, || "nothing is built yet".to_owned()));
            if let Ok(heard) = tokio::time::timeout(wait, polled).await {
                return heard;
            }
        }
    }

    /// Queues a message; without a connection, it is not said.
    pub(crate) fn send(&mut self, message: &Control) {
        if let State::Up { link, broken, .. } = &mut self.state
            && let Err(error) = link.send(message)
        {
            *broken = Some(error);
        }
    }

    /// Writes what is queued, as far as it goes; how many bytes went.
    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>) -> usize {
        let State::Up { link, broken, .. } = &mut self.state else { return 0 };
        if broken.is_some() {
            return 0;
        }
        let before = link.queued();
        if let Poll::Ready(Err(error)) = link.poll_flush(cx) {
            *broken = Some(error);
            // To be read to its end, and said.
            cx.waker().wake_by_ref();
        }
        before - link.queued()
    }

    /// Whether there is a connection.
    pub(crate) fn is_up(&self) -> bool {
        matches!(self.state, State::Up { .. })
    }

    /// When to poll, if nothing comes.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        match &self.state {
            State::Up { heard, .. } => self.is_watched.then(|| *heard + SILENCE),
            State::Lost(loss) => {
                // A try ends by itself.
                loss.trying.is_none().then(|| loss.next.min(loss.since + self.patience))
            }
        }
    }

    fn lose(&mut self, cause: &str) {
        tracing::warn!(supervisor = self.access.supervisor, cause, "lost the supervisor; registering again");
        let now = clock::now();
        let cause = cause.to_owned();
        self.state = State::Lost(Loss { since: now, cause, last: None, trying: None, next: now });
    }

    fn poll_again(
        &mut self,
        cx: &mut Context<'_>,
        now: Instant,
        held: impl FnOnce() -> String,
    ) -> Poll<Result<Heard, RoleError>> {
        loop {
            let State::Lost(loss) = &mut self.state else { return Poll::Pending };
            let Some((greeted, trying)) = &mut loss.trying else {
                if now.since(loss.since) >= self.patience {
                    return Poll::Ready(Err(self.give_up(held())));
                }
                if now < loss.next {
                    return Poll::Pending;
                }
                loss.trying = Some((now, attempt(&self.access, &self.hello)));
                continue;
            };
            let Poll::Ready(outcome) = trying.as_mut().poll(cx) else {
                // One that hangs at the end of all patience ends by itself.
                return Poll::Pending;
            };
            let greeted = *greeted;
            loss.trying = None;
            loss.next = now + RETRY;
            match outcome {
                Ok((link, welcome)) => return Poll::Ready(self.go_on(link, &welcome, greeted, held)),
                Err(error) => {
                    let is_final = is_final(&error);
                    loss.last = Some(error);
                    if is_final {
                        return Poll::Ready(Err(self.give_up(held())));
                    }
                }
            }
        }
    }

    fn go_on(
        &mut self,
        link: ControlLink,
        welcome: &Welcome,
        greeted: Instant,
        held: impl FnOnce() -> String,
    ) -> Result<Heard, RoleError> {
        if RunIdentity::of(welcome) != self.identity {
            let State::Lost(loss) = &mut self.state else { return Ok(Heard::Lost) };
            loss.cause = "another supervisor took its place, which leads another run".to_owned();
            return Err(self.give_up(held()));
        }
        let registered = registered(welcome, greeted)?;
        self.note(&registered);
        classify(&link, self.access.class);
        tracing::info!(
            supervisor = self.access.supervisor,
            incarnation = registered.incarnation.number(),
            "registered again"
        );
        self.state = State::Up { link: Box::new(link), heard: clock::now(), broken: None };
        Ok(Heard::Again(Box::new(registered)))
    }

    fn note(&mut self, registered: &Registered) {
        self.hello.epoch = self.identity.epoch.number();
        self.hello.run = self.identity.run.number();
        self.hello.incarnation = registered.incarnation.number();
        self.patience = match registered.parameters.patience_ns {
            0 => PATIENCE,
            nanos => Duration::from_nanos(nanos),
        };
    }

    fn give_up(&mut self, held: String) -> RoleError {
        let State::Lost(loss) = &self.state else { return RoleError::Vanished };
        let last: Option<&dyn Display> = loss.last.as_ref().map(|error| error as _);
        let last = last.map_or_else(|| "there was no answer".to_owned(), ToString::to_string);
        RoleError::Abandoned { cause: loss.cause.clone(), tried: clock::now().since(loss.since), last, held }
    }
}

fn attempt(access: &OldAccess, hello: &Hello) -> Trying {
    let (OldAccess { supervisor, bind, security, .. }, hello) = (access.clone(), hello.clone());
    Box::pin(async move {
        let trying = evb_net::control::connect_secured(&supervisor, bind, &hello, &security);
        let out_of_time = |_| {
            let reason = std::io::ErrorKind::TimedOut.into();
            Err(ConnectError::Unreachable { address: supervisor.clone(), reason })
        };
        tokio::time::timeout(TRY, trying).await.unwrap_or_else(out_of_time)
    })
}

fn registered(welcome: &Welcome, greeted: Instant) -> Result<Registered, MalformedMessage> {
    let parameters = welcome.checked_parameters()?;
    let incarnation = Incarnation::new(welcome.incarnation);
    Ok(Registered { greeted, incarnation, parameters })
}

/// Whether there is no use in trying again (docs/protocol.md CONN-11). Names and addresses that are not to be had now may be
/// when the network is back.
fn is_final(error: &ConnectError) -> bool {
    match error {
        // After a restart, the supervisor may still hold our old connection.
        ConnectError::Refused { refusal, .. } => refusal.reason() != refusal::Reason::DuplicateId,
        _ => false,
    }
}

#[cfg(test)]
mod tests;
