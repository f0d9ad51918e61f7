//! [`Entrance`]: lanes that are being opened. The builder's state machine decides which lanes are
//! admitted.

use std::{
    future::Future,
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll},
};

use evb_core::{
    index::LaneIndex,
    time::Instant,
    wire::{
        control::{Hello, Refusal, RefusalReport, Welcome},
        preamble::ConnectionKind,
    },
};
use evb_net::{
    handshake::{Channel, refused, welcomed},
    lane::LaneOptions,
};
use tokio::net::TcpListener;

use super::BuilderConfig;
use crate::role::Greetings;

type Answer = Pin<Box<dyn Future<Output = LaneRequest>>>;

/// Lanes that are being opened.
pub(super) struct Entrance {
    greetings: Greetings<(Channel, Hello)>,
    options: LaneOptions,
    /// Answers that are being sent, by lane.
    answers: Vec<(LaneIndex, Answer)>,
}

/// A step in the opening of a lane.
pub(super) enum LaneRequest {
    /// A source asks for a lane: answer with [`Entrance::welcome`] or [`Entrance::refuse`].
    Asks(Box<Hello>, Channel, SocketAddr),
    /// The lane is open.
    Opened(LaneIndex, Channel),
    /// The source closed the connection before it received the answer.
    Failed(LaneIndex),
}

impl Entrance {
    /// Creates the entrance for lanes, at which each source is greeted before its lane is accepted.
    pub(super) fn new(listener: TcpListener, sources: usize, config: &BuilderConfig) -> Self {
        let security = config.security.clone();
        let greetings = Greetings::new("the builder", listener, sources, move |stream, _| {
            let security = security.clone();
            Box::pin(async move { Channel::accept(stream, ConnectionKind::Lane, &security).await })
        });
        Self { greetings, options: config.lane.clone(), answers: Vec::new() }
    }

    /// Returns the counts of connections that were refused.
    pub(super) fn refusals(&self) -> RefusalReport {
        self.greetings.refusals()
    }

    /// Counts a lane that ended because of bytes without a valid tag.
    pub(super) fn count_forged(&mut self) {
        self.greetings.count_forged();
    }

    /// Returns the next step of any lane.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, now: Instant) -> Poll<LaneRequest> {
        for index in 0..self.answers.len() {
            if let Poll::Ready(request) = self.answers[index].1.as_mut().poll(cx) {
                drop(self.answers.swap_remove(index));
                return Poll::Ready(request);
            }
        }
        self.greetings
            .poll(cx, now)
            .map(|((channel, hello), peer)| LaneRequest::Asks(Box::new(hello), channel, peer))
    }

    /// Accepts a lane of the source `from`. [`LaneRequest::Opened`] follows when the source has
    /// received the welcome, unless the source asks for the lane again before that.
    pub(super) fn welcome(&mut self, lane: LaneIndex, mut channel: Channel, welcome: Welcome, from: &str) {
        if let Err(error) = self.options.apply(channel.as_ref()) {
            tracing::warn!(%error, from, "this builder cannot set the options of the connection from {from} (buffers, priority), which goes on without them and may be slower: {error}; `evbd doctor` shows what this host permits");
        }
        self.forget(lane);
        let answer = async move {
            let sent = channel.reply(ConnectionKind::Lane, &welcomed(welcome)).await;
            if sent.is_ok() { LaneRequest::Opened(lane, channel) } else { LaneRequest::Failed(lane) }
        };
        self.answers.push((lane, Box::pin(answer)));
    }

    /// Drops the answer that is being sent on a lane, if there is one.
    pub(super) fn forget(&mut self, lane: LaneIndex) {
        self.answers.retain(|(of, _)| *of != lane);
    }

    /// Refuses a connection and tells the peer the reason.
    pub(super) fn refuse(&mut self, channel: Channel, peer: SocketAddr, refusal: Refusal) {
        self.greetings.record_refusal(peer, &refusal.detail);
        channel.refuse(ConnectionKind::Lane, &refused(refusal));
    }
}
