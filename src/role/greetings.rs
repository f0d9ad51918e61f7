//! [`Greetings`]: handshakes under way at a listener, with limits on their number and duration.

use std::{
    future::Future,
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll},
};

use evb_core::{
    session::{GREETING_PATIENCE, GREETINGS},
    time::Instant,
    wire::control::RefusalReport,
};
use evb_net::handshake::{HandshakeError, RefusalLog};
use tokio::net::{TcpListener, TcpStream};

/// A handshake under way.
pub(crate) type Greeting<T> = Pin<Box<dyn Future<Output = Result<T, HandshakeError>> + Send>>;

/// A listener and its handshakes under way.
pub(crate) struct Greetings<T> {
    listener: TcpListener,
    /// Most handshakes under way at once.
    most: usize,
    greet: Box<dyn Fn(TcpStream, SocketAddr) -> Greeting<T> + Send>,
    under_way: Vec<(Instant, SocketAddr, Greeting<T>)>,
    log: RefusalLog,
}

impl<T> Greetings<T> {
    /// Creates greetings for a listener of that name; `greet` performs the handshake of a
    /// connection. If `peers` connect at once, none of them has to wait until another has finished
    /// its handshake. A single address may have half of all handshakes under way.
    pub(crate) fn new(
        name: &'static str,
        listener: TcpListener,
        peers: usize,
        greet: impl Fn(TcpStream, SocketAddr) -> Greeting<T> + Send + 'static,
    ) -> Self {
        let most = peers.max(GREETINGS);
        let log = RefusalLog::new(name).limit_of_one(most / 2);
        Self { listener, most, greet: Box::new(greet), under_way: Vec::new(), log }
    }

    /// Returns the number of handshakes under way.
    pub(crate) fn len(&self) -> usize {
        self.under_way.len()
    }

    /// Returns the counts of connections that were refused.
    pub(crate) fn refusals(&self) -> RefusalReport {
        self.log.counts()
    }

    /// Counts an accepted connection that ended because of bytes without a valid tag.
    pub(crate) fn count_forged(&mut self) {
        self.log.count_forged();
    }

    /// Logs and counts the refusal of a peer.
    pub(crate) fn record_refusal(&mut self, peer: SocketAddr, words: &str) {
        self.log.record_refusal(peer, &words);
    }

    /// Returns the next peer that has sent its hello.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>, now: Instant) -> Poll<(T, SocketAddr)> {
        loop {
            self.accept(cx, now);
            let mut index = 0;
            while index < self.under_way.len() {
                let (_, peer, greeting) = &mut self.under_way[index];
                let (peer, Poll::Ready(greeted)) = (*peer, greeting.as_mut().poll(cx)) else {
                    index += 1;
                    continue;
                };
                drop(self.under_way.swap_remove(index));
                match greeted {
                    Ok(greeted) => return Poll::Ready((greeted, peer)),
                    Err(error) => self.log.record_failure(peer, &error),
                }
            }
            if !self.make_room(now) {
                return Poll::Pending;
            }
        }
    }

    fn accept(&mut self, cx: &mut Context<'_>, now: Instant) {
        while self.under_way.len() < self.most {
            match self.listener.poll_accept(cx) {
                Poll::Ready(Ok((stream, peer))) => {
                    if self.log.admits(peer, self.under_way.iter().map(|greeting| greeting.1)) {
                        self.under_way.push((now, peer, (self.greet)(stream, peer)));
                    }
                }
                Poll::Ready(Err(error)) => {
                    // No file descriptor is free, or the peer has closed the connection. The next
                    // turn tries again.
                    self.log.record("listener", &error);
                    return;
                }
                Poll::Pending => return,
            }
        }
    }

    /// Drops silent connections if the limit is reached. Returns true if a connection was dropped.
    fn make_room(&mut self, now: Instant) -> bool {
        let before = self.under_way.len();
        if before < self.most {
            return false;
        }
        let log = &mut self.log;
        self.under_way.retain(|(since, peer, _)| {
            let stays = now.since(*since) < GREETING_PATIENCE;
            if !stays {
                log.record_silence(*peer);
            }
            stays
        });
        self.under_way.len() < before
    }
}
