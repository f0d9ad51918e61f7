//! Who may open a lane: sources of this run and epoch, each once.

use std::{
    future::Future,
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll},
};

use evb_core::{
    id::{BuilderId, Incarnation, Peer, SourceId},
    time::Instant,
    wire::{
        control::{Hello, LaneState, Refusal, RefusalReport, Welcome, refusal::Reason},
        preamble::ConnectionKind,
    },
};
use evb_net::{
    clock,
    handshake::{Channel, HandshakeError, RefusalLog, refused, welcomed},
    lane::LaneOptions,
    pacing::Transport,
    security::Security,
};
use tokio::net::TcpListener;

use super::BuilderConfig;
use crate::role::{GREETING_PATIENCE, GREETINGS, RunIdentity};

type Greeting = Pin<Box<dyn Future<Output = Result<(Channel, Hello), HandshakeError>>>>;
type Answer = Pin<Box<dyn Future<Output = Knock>>>;

/// Lanes on their way in.
pub(super) struct Entrance {
    listener: TcpListener,
    builder: BuilderId,
    identity: RunIdentity,
    incarnation: Incarnation,
    sources: Vec<SourceId>,
    transport: Transport,
    options: LaneOptions,
    security: Security,
    greetings: Vec<(Instant, SocketAddr, Greeting)>,
    /// By lane.
    answers: Vec<(usize, Answer)>,
    log: RefusalLog,
}

/// What an entrance has to say.
pub(super) enum Knock {
    /// A source of this run wants its lane, in that life of it; answer by [`Entrance::welcome`] or [`Entrance::refuse`].
    Asks(usize, Incarnation, Channel, SocketAddr),
    /// The lane is open.
    Opened(usize, Channel),
    /// The source went away before it was told.
    Failed(usize),
}

impl Entrance {
    pub(super) fn new(
        listener: TcpListener,
        config: &BuilderConfig,
        (identity, incarnation): (RunIdentity, Incarnation),
        sources: Vec<SourceId>,
    ) -> Self {
        let log = RefusalLog::new("builder");
        Self {
            listener,
            builder: config.id,
            identity,
            incarnation,
            sources,
            transport: config.transport,
            options: config.lane.clone(),
            security: config.security.clone(),
            greetings: Vec::new(),
            answers: Vec::new(),
            log,
        }
    }

    /// The builder begins another life: lanes of the one before are over.
    pub(super) fn begin(&mut self, incarnation: Incarnation) {
        self.incarnation = incarnation;
        self.answers.clear();
    }

    /// Who was turned away.
    pub(super) fn refusals(&self) -> RefusalReport {
        self.log.counts()
    }

    /// A lane ended by bytes without the right tag.
    pub(super) fn count_forged(&mut self) {
        self.log.count_forged();
    }

    /// The next source at the door.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Knock> {
        for index in 0..self.answers.len() {
            if let Poll::Ready(knock) = self.answers[index].1.as_mut().poll(cx) {
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
                    if !self.log.admits(peer, self.greetings.iter().map(|greeting| greeting.1)) {
                        continue;
                    }
                    let security = self.security.clone();
                    let greeting =
                        async move { Channel::accept(stream, ConnectionKind::Lane, &security).await };
                    self.greetings.push((clock::now(), peer, Box::pin(greeting)));
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
                    Ok(lane) => {
                        let incarnation = Incarnation::new(hello.incarnation);
                        return Some(Knock::Asks(lane, incarnation, stream, peer));
                    }
                    Err(refusal) => self.refuse(stream, peer, refusal),
                },
                Err(error) => self.log.record_failure(peer, &error),
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
                log.record_silence(*peer);
            }
            stays
        });
        self.greetings.len() < before
    }

    /// Opens the lane; [`Knock::Opened`] follows when the source has been told, unless it asks once more before. `connection` numbers its association, if it
    /// goes by datagrams.
    pub(super) fn welcome(&mut self, lane: usize, mut channel: Channel, held: LaneState, connection: u32) {
        let welcome = Welcome {
            epoch: self.identity.epoch.number(),
            run: self.identity.run.number(),
            lane: Some(held),
            connection,
            ..Welcome::default()
        };
        if let Err(error) = self.options.apply(channel.as_ref()) {
            tracing::warn!(%error, "cannot set the lane's options");
        }
        self.answers.retain(|(of, _)| *of != lane);
        let answer = async move {
            let told = channel.reply(ConnectionKind::Lane, &welcomed(welcome)).await;
            if told.is_ok() { Knock::Opened(lane, channel) } else { Knock::Failed(lane) }
        };
        self.answers.push((lane, Box::pin(answer)));
    }

    /// Turns somebody away, with the reason.
    pub(super) fn refuse(&mut self, channel: Channel, peer: SocketAddr, refusal: Refusal) {
        self.log.record_refusal(peer, &refusal.detail);
        channel.refuse(ConnectionKind::Lane, &refused(refusal));
    }

    /// The lane index of a source that belongs here (docs/protocol.md CONN-8, CONN-9, CONN-19).
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
        let Ok(lane) = self.sources.binary_search(&source) else {
            let detail = format!("source {source} is not in the roster of this run");
            return because(Reason::UnknownPeer, detail);
        };
        if hello.to_incarnation != self.incarnation.number() {
            let detail = format!(
                "this is life {} of {ours} in the run, you want life {}",
                self.incarnation, hello.to_incarnation
            );
            return because(Reason::Epoch, detail);
        }
        Ok(lane)
    }
}
