//! Who may open a lane: sources of this run and epoch, each once.

use std::{
    future::Future,
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll},
};

use evb_core::{
    id::{BuilderId, Peer, SourceId},
    time::Instant,
    wire::{
        control::{Hello, LaneState, Refusal, Welcome, refusal::Reason},
        preamble::ConnectionKind,
    },
};
use evb_net::{
    clock,
    handshake::{HandshakeError, RefusalLog, accept_handshake, opening, refused, reply, welcomed},
    lane::LaneOptions,
    pacing::Transport,
};
use tokio::net::{TcpListener, TcpStream};

use super::BuilderConfig;
use crate::role::{GREETING_PATIENCE, GREETINGS, RunIdentity};

type Greeting = Pin<Box<dyn Future<Output = Result<(TcpStream, Hello), HandshakeError>>>>;
type Answer = Pin<Box<dyn Future<Output = Knock>>>;

/// Lanes on their way in.
pub(super) struct Entrance {
    listener: TcpListener,
    builder: BuilderId,
    identity: RunIdentity,
    sources: Vec<SourceId>,
    transport: Transport,
    options: LaneOptions,
    greetings: Vec<(Instant, SocketAddr, Greeting)>,
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
        config: &BuilderConfig,
        identity: RunIdentity,
        sources: Vec<SourceId>,
    ) -> Self {
        let log = RefusalLog::new("builder");
        Self {
            listener,
            builder: config.id,
            identity,
            sources,
            transport: config.transport,
            options: config.lane.clone(),
            greetings: Vec::new(),
            answers: Vec::new(),
            log,
        }
    }

    /// The next source at the door.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Knock> {
        for index in 0..self.answers.len() {
            if let Poll::Ready(knock) = self.answers[index].as_mut().poll(cx) {
                drop(self.answers.swap_remove(index));
                return Poll::Ready(knock);
            }
        }
        loop {
            self.accept(cx);
            if let Some(knock) = self.poll_greetings(cx) {
                return Poll::Ready(knock);
            }
            if !self.make_room() {
                return Poll::Pending;
            }
        }
    }

    fn accept(&mut self, cx: &mut Context<'_>) {
        while self.greetings.len() < GREETINGS {
            match self.listener.poll_accept(cx) {
                Poll::Ready(Ok((stream, peer))) => {
                    self.greetings.push((clock::now(), peer, Box::pin(greet(stream))));
                }
                Poll::Ready(Err(error)) => {
                    // Out of descriptors, or the peer has gone: the next turn tries again.
                    self.log.record("listener", &error);
                    return;
                }
                Poll::Pending => return,
            }
        }
    }

    fn poll_greetings(&mut self, cx: &mut Context<'_>) -> Option<Knock> {
        let mut index = 0;
        while index < self.greetings.len() {
            let (_, peer, greeting) = &mut self.greetings[index];
            let (peer, Poll::Ready(greeted)) = (*peer, greeting.as_mut().poll(cx)) else {
                index += 1;
                continue;
            };
            drop(self.greetings.swap_remove(index));
            match greeted {
                Ok((stream, hello)) => match self.check(&hello) {
                    Ok(lane) => return Some(Knock::Asks(lane, stream, peer)),
                    Err(refusal) => self.refuse(stream, peer, refusal),
                },
                Err(error) => self.log.record(peer, &error),
            }
        }
        None
    }

    /// Sends those away that block a full door in silence; whether anybody.
    fn make_room(&mut self) -> bool {
        let (before, now) = (self.greetings.len(), clock::now());
        if before < GREETINGS {
            return false;
        }
        let log = &mut self.log;
        self.greetings.retain(|(since, peer, _)| {
            let stays = now.since(*since) < GREETING_PATIENCE;
            if !stays {
                log.record(peer, &"it said no hello while others waited");
            }
            stays
        });
        self.greetings.len() < before
    }

    /// Opens the lane; [`Knock::Opened`] follows when the source has been told. `connection` numbers its association, if it
    /// goes by datagrams.
    pub(super) fn welcome(&mut self, lane: usize, mut stream: TcpStream, held: LaneState, connection: u32) {
        let welcome = Welcome {
            epoch: self.identity.epoch.number(),
            run: self.identity.run.number(),
            lane: Some(held),
            connection,
            ..Welcome::default()
        };
        if let Err(error) = self.options.apply(&stream) {
            tracing::warn!(%error, "cannot set the lane's options");
        }
        self.answers.push(Box::pin(async move {
            let told = reply(&mut stream, ConnectionKind::Lane, &welcomed(welcome)).await;
            if told.is_ok() { Knock::Opened(lane, stream) } else { Knock::Failed(lane) }
        }));
    }

    /// Turns somebody away, with the reason.
    pub(super) fn refuse(&mut self, stream: TcpStream, peer: SocketAddr, refusal: Refusal) {
        self.log.record(peer, &refusal.detail);
        // Nothing was written on this connection before, so the answer fits the socket's buffer; if not, the peer is gone.
        let _ = stream.try_write(&opening(ConnectionKind::Lane, &refused(refusal)));
    }

    /// The lane index of a source that belongs here (docs/protocol.md CONN-8, CONN-9, CONN-10).
    fn check(&self, hello: &Hello) -> Result<usize, Refusal> {
        let because = |reason, detail: String| Err(Refusal::because(reason, detail));
        let ours = Peer::Builder(self.builder);
        let Some(theirs) = hello.from_peer() else {
            return because(Reason::Malformed, "the hello does not say who it is from".to_owned());
        };
        if hello.to_peer() != Some(ours) {
            let wanted = hello.to_peer().map_or_else(|| "nobody".to_owned(), |peer| peer.to_string());
            return because(
                Reason::WrongId,
                format!("this is {ours}; you wanted {wanted}: check the addresses"),
            );
        }
        let Peer::Source(source) = theirs else {
            return because(Reason::WrongRole, format!("{ours} takes lanes of sources only"));
        };
        if hello.datagrams != (self.transport == Transport::Udp) {
            let wanted = if hello.datagrams { Transport::Udp } else { Transport::Tcp };
            let ours_is = self.transport;
            return because(
                Reason::Configuration,
                format!("{ours} takes lanes over {ours_is}, you want {wanted}: transport must be the same"),
            );
        }
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

async fn greet(mut stream: TcpStream) -> Result<(TcpStream, Hello), HandshakeError> {
    let hello = accept_handshake(&mut stream, ConnectionKind::Lane).await?;
    Ok((stream, hello))
}
