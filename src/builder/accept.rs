//! Who may open a lane: sources of this run and epoch, each once.

use std::{
    future::Future,
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll},
};

use evb_core::{
    id::{BuilderId, Peer, SourceId},
    wire::{
        control::{Hello, LaneState, Refusal, Welcome, refusal::Reason},
        preamble::ConnectionKind,
    },
};
use evb_net::{
    handshake::{HandshakeError, RefusalLog, accept_handshake, refused, reply, welcomed},
    lane::LaneOptions,
};
use tokio::net::{TcpListener, TcpStream};

use crate::role::RunIdentity;

/// Handshakes that may be under way at once; more wait in the kernel's queue (docs/protocol.md CONN-7).
const LIMIT: usize = 64;

type Greeting = Pin<Box<dyn Future<Output = (SocketAddr, Result<(TcpStream, Hello), HandshakeError>)>>>;
type Answer = Pin<Box<dyn Future<Output = Option<Knock>>>>;

/// Lanes on their way in.
pub(super) struct Entrance {
    listener: TcpListener,
    builder: BuilderId,
    identity: RunIdentity,
    sources: Vec<SourceId>,
    options: LaneOptions,
    greetings: Vec<Greeting>,
    answers: Vec<Answer>,
    log: RefusalLog,
}

/// What an entrance has to say.
pub(super) enum Knock {
    /// A source of this run wants its lane; answer by [`Entrance::welcome`] or [`Entrance::refuse`].
    Asks(usize, TcpStream, SocketAddr),
    /// The lane is open.
    Opened(usize, TcpStream),
    /// The source went away before it was told.
    Failed(usize),
}

impl Entrance {
    pub(super) fn new(
        listener: TcpListener,
        builder: BuilderId,
        identity: RunIdentity,
        sources: Vec<SourceId>,
        options: LaneOptions,
    ) -> Self {
        let log = RefusalLog::new("builder");
        Self {
            listener,
            builder,
            identity,
            sources,
            options,
            greetings: Vec::new(),
            answers: Vec::new(),
            log,
        }
    }

    /// The next source at the door.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Knock> {
        for index in 0..self.answers.len() {
            if let Poll::Ready(opened) = self.answers[index].as_mut().poll(cx) {
                drop(self.answers.swap_remove(index));
                return match opened {
                    Some(knock) => Poll::Ready(knock),
                    None => self.poll(cx),
                };
            }
        }
        while self.greetings.len() < LIMIT {
            match self.listener.poll_accept(cx) {
                Poll::Ready(Ok((stream, peer))) => self.greetings.push(Box::pin(greet(stream, peer))),
                Poll::Ready(Err(error)) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    break;
                }
                Poll::Pending => break,
            }
        }
        let mut index = 0;
        while index < self.greetings.len() {
            let Poll::Ready((peer, greeting)) = self.greetings[index].as_mut().poll(cx) else {
                index += 1;
                continue;
            };
            drop(self.greetings.swap_remove(index));
            match greeting {
                Ok((stream, hello)) => match self.check(&hello) {
                    Ok(lane) => return Poll::Ready(Knock::Asks(lane, stream, peer)),
                    Err(refusal) => self.refuse(stream, peer, refusal),
                },
                Err(error) => self.log.record(peer, &error),
            }
        }
        Poll::Pending
    }

    /// Opens the lane; [`Knock::Opened`] follows when the source has been told.
    pub(super) fn welcome(&mut self, lane: usize, mut stream: TcpStream, held: LaneState) {
        let welcome = Welcome {
            epoch: self.identity.epoch.number(),
            run: self.identity.run.number(),
            lane: Some(held),
            ..Welcome::default()
        };
        if let Err(error) = self.options.apply(&stream) {
            tracing::warn!(%error, "cannot set the lane's options");
        }
        self.answers.push(Box::pin(async move {
            let told = reply(&mut stream, ConnectionKind::Lane, &welcomed(welcome)).await;
            Some(if told.is_ok() { Knock::Opened(lane, stream) } else { Knock::Failed(lane) })
        }));
    }

    /// Turns somebody away, with the reason.
    pub(super) fn refuse(&mut self, mut stream: TcpStream, peer: SocketAddr, refusal: Refusal) {
        self.log.record(peer, &refusal.detail);
        if self.answers.len() < LIMIT {
            self.answers.push(Box::pin(async move {
                // The peer may be gone; the log has the reason.
                let _ = reply(&mut stream, ConnectionKind::Lane, &refused(refusal)).await;
                None
            }));
        }
    }

    /// The lane index of a source that belongs here (docs/protocol.md CONN-8, CONN-9, CONN-10).
    fn check(&self, hello: &Hello) -> Result<usize, Refusal> {
        let because = |reason, detail: String| Err(Refusal::because(reason, detail));
        let ours = Peer::Builder(self.builder);
        if hello.to_peer() != Some(ours) {
            let wanted = hello.to_peer().map_or_else(|| "nobody".to_owned(), |peer| peer.to_string());
            return because(
                Reason::WrongId,
                format!("this is {ours}; you wanted {wanted}: check the addresses"),
            );
        }
        let Some(Peer::Source(source)) = hello.from_peer() else {
            return because(Reason::WrongRole, format!("{ours} takes lanes of sources only"));
        };
        if hello.known_run() != Some(self.identity.run) {
            let run = self.identity.run;
            return because(Reason::Run, format!("{ours} is in run {run}, you are in run {}", hello.run));
        }
        if hello.known_epoch() != Some(self.identity.epoch) {
            let epoch = self.identity.epoch;
            return because(
                Reason::Epoch,
                format!(
                    "{ours} is in epoch {epoch}, you are in {}: the supervisor was restarted",
                    hello.epoch
                ),
            );
        }
        match self.sources.binary_search(&source) {
            Ok(lane) => Ok(lane),
            Err(_) => {
                because(Reason::UnknownPeer, format!("source {source} is not in the roster of this run"))
            }
        }
    }
}

async fn greet(
    mut stream: TcpStream,
    peer: SocketAddr,
) -> (SocketAddr, Result<(TcpStream, Hello), HandshakeError>) {
    match accept_handshake(&mut stream, ConnectionKind::Lane).await {
        Ok(hello) => (peer, Ok((stream, hello))),
        Err(error) => (peer, Err(error)),
    }
}
