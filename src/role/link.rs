//! [`SupervisorLink`]: a role's connection to its supervisor. The role's state machine decides when
//! to open and when to drop the connection.

use std::{
    future::Future,
    net::IpAddr,
    pin::Pin,
    task::{Context, Poll},
};

use evb_core::{
    session::{Dial, DialFailure, DialFault, Heard, RoleFault},
    wire::control::{Control, Welcome},
};
use evb_net::{
    class::TrafficClass,
    control::{ConnectError, ControlLink, LinkError, connect_secured},
    security::Security,
};

use super::RoleError;

type Dialing = Pin<Box<dyn Future<Output = Result<(ControlLink, Welcome), ConnectError>>>>;

/// Settings for the connection to the supervisor.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    pub(crate) bind: Option<IpAddr>,
    pub(crate) class: TrafficClass,
    pub(crate) security: Security,
}

/// A role's connection to its supervisor.
pub(crate) struct SupervisorLink {
    access: Access,
    state: LinkState,
    /// The last failure, with its original error type.
    failure: Option<RoleError>,
}

enum LinkState {
    Down,
    Dialing(Dialing),
    Up {
        link: Box<ControlLink>,
        /// The error with which sending failed; bytes that arrived before the error are still to be
        /// read.
        broken: Option<LinkError>,
    },
}

impl SupervisorLink {
    pub(crate) fn new(access: Access) -> Self {
        Self { access, state: LinkState::Down, failure: None }
    }

    /// Begins to connect; [`Self::poll`] continues.
    pub(crate) fn dial(&mut self, dial: Dial) {
        let Access { bind, security, .. } = self.access.clone();
        let dialing = async move { connect_secured(&dial.address, bind, &dial.hello, &security).await };
        self.state = LinkState::Dialing(Box::pin(dialing));
    }

    /// Drops the connection, or the attempt to connect.
    pub(crate) fn close(&mut self) {
        self.state = LinkState::Down;
    }

    /// Returns the next message or event of the connection.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Heard> {
        match &mut self.state {
            LinkState::Down => Poll::Pending,
            LinkState::Dialing(dialing) => match dialing.as_mut().poll(cx) {
                Poll::Pending => Poll::Pending,
                Poll::Ready(Ok((link, welcome))) => {
                    classify(&link, self.access.class);
                    self.state = LinkState::Up { link: Box::new(link), broken: None };
                    Poll::Ready(Heard::Welcome(welcome))
                }
                Poll::Ready(Err(error)) => {
                    self.state = LinkState::Down;
                    let failure = failure(&error);
                    self.failure = Some(error.into());
                    Poll::Ready(Heard::Failed(failure))
                }
            },
            LinkState::Up { link, broken } => match (link.poll_recv(cx), broken) {
                (Poll::Ready(Ok(message)), _) => Poll::Ready(Heard::Message(message)),
                (Poll::Ready(Err(error)), _) => Poll::Ready(self.end(error)),
                (Poll::Pending, broken) => match broken.take() {
                    Some(error) => Poll::Ready(self.end(error)),
                    None => Poll::Pending,
                },
            },
        }
    }

    /// Queues a message for the supervisor; without a connection, the message is dropped.
    pub(crate) fn send(&mut self, message: &Control) {
        if let LinkState::Up { link, broken } = &mut self.state
            && let Err(error) = link.send(message)
        {
            *broken = Some(error);
        }
    }

    /// Writes queued messages until the socket accepts no more. Returns the number of bytes
    /// written.
    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>) -> usize {
        let LinkState::Up { link, broken: broken @ None } = &mut self.state else { return 0 };
        let before = link.queued();
        if let Poll::Ready(Err(error)) = link.poll_flush(cx) {
            *broken = Some(error);
            // The next poll reads the connection to its end and reports the error.
            cx.waker().wake_by_ref();
        }
        before - link.queued()
    }

    /// Returns ready when all queued messages are written, or cannot be.
    pub(crate) fn poll_flushed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.state {
            LinkState::Up { link, broken: None } => link.poll_flush(cx).map(drop),
            _ => Poll::Ready(()),
        }
    }

    /// Returns the reason for which a role could not go on, with the details of the connection's
    /// last failure.
    pub(crate) fn error(&mut self, fault: RoleFault) -> RoleError {
        match (&fault, self.failure.take()) {
            (RoleFault::NotJoined(_), Some(failure @ RoleError::Join(_)))
            | (RoleFault::Unreadable(_), Some(failure @ RoleError::Supervisor(_))) => failure,
            _ => fault.into(),
        }
    }

    /// Marks the connection as down. A message that cannot be read is also a failure of this role.
    fn end(&mut self, error: LinkError) -> Heard {
        self.state = LinkState::Down;
        let words = error.to_string();
        if !matches!(error, LinkError::TooLong { .. } | LinkError::Malformed(_)) {
            return Heard::Closed(words);
        }
        self.failure = Some(error.into());
        Heard::Unreadable(words)
    }
}

/// Marks the packets of the supervisor's connection with a traffic class. A refusal by the
/// operating system is only logged, because nothing depends on the mark.
pub(crate) fn classify(link: &ControlLink, class: TrafficClass) {
    if let Err(error) = link.classify(class) {
        tracing::warn!(%error, "this process cannot mark the packets between supervisor and roles with the configured traffic class, so they travel without a mark, and the run goes on: {error}; if permission is denied, grant evb CAP_NET_ADMIN, otherwise correct `dscp` and `socket_priority` of [shaping.classes]");
    }
}

/// Returns the failure as the state machine knows it: by what may help, with the error's words.
fn failure(error: &ConnectError) -> DialFailure {
    let fault = match error {
        ConnectError::Unreachable { .. } => DialFault::Unreachable,
        ConnectError::Resolve(_) | ConnectError::Bind { .. } | ConnectError::Path(_) => DialFault::NoAddress,
        ConnectError::Handshake { error, .. } => DialFault::Handshake { is_lasting: error.is_lasting() },
        ConnectError::Refused { refusal, .. } => DialFault::Refused(refusal.clone()),
    };
    DialFailure { fault, words: error.to_string() }
}
