//! [`Greetings`]: handshakes under way at a listener, with limits on their number and duration.

use std::{
    future::Future,
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll},
};

use evb_core::{
    session::{GREETINGS, greeting_patience},
    time::Instant,
    wire::control::RefusalReport,
};
use evb_net::handshake::{HandshakeError, RefusalLog, round_trip};
use tokio::net::{TcpListener, TcpStream};

use super::Wakes;

/// A handshake under way.
pub(crate) type Greeting<T> = Pin<Box<dyn Future<Output = Result<T, HandshakeError>> + Send>>;

/// Words of the log for a connection that the operating system could not hand over.
const UNACCEPTED: &str =
    "cannot accept a connection, and tries again (if too many files are open, raise `ulimit -n`)";

struct UnderWay<T> {
    /// Time from which on the handshake gives way, if there are too many.
    gives_way: Instant,
    peer: SocketAddr,
    greeting: Greeting<T>,
}

/// A listener and its handshakes under way.
pub(crate) struct Greetings<T> {
    listener: TcpListener,
    greet: Box<dyn Fn(TcpStream, SocketAddr) -> Greeting<T> + Send>,
    /// Places for handshakes; their number is the limit of handshakes under way.
    places: Vec<Option<UnderWay<T>>>,
    /// Places without a handshake.
    free: Vec<usize>,
    wakes: Wakes,
    /// Places whose handshakes have woken this task.
    woken: Vec<usize>,
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
        Self {
            listener,
            greet: Box::new(greet),
            places: (0..most).map(|_| None).collect(),
            free: (0..most).rev().collect(),
            wakes: Wakes::new(most),
            woken: Vec::new(),
            log,
        }
    }

    /// Returns the number of handshakes under way.
    pub(crate) fn len(&self) -> usize {
        self.places.len() - self.free.len()
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
            let was_full = self.free.is_empty();
            self.accept(cx, now);
            while let Some(place) = self.woken.pop() {
                let Some(under_way) = &mut self.places[place] else { continue };
                let peer = under_way.peer;
                let cx = &mut Context::from_waker(self.wakes.waker(place));
                let Poll::Ready(greeted) = under_way.greeting.as_mut().poll(cx) else { continue };
                self.vacate(place);
                match greeted {
                    Ok(greeted) => return Poll::Ready((greeted, peer)),
                    Err(error) => self.log.record_failure(peer, &error),
                }
            }
            self.wakes.take(cx, &mut self.woken);
            // A place that has become free is for the next connection in the kernel's queue.
            let has_room = self.make_room(now) || (was_full && !self.free.is_empty());
            if self.woken.is_empty() && !has_room {
                return Poll::Pending;
            }
        }
    }

    /// Accepts connections while places for greetings are free.
    fn accept(&mut self, cx: &mut Context<'_>, now: Instant) {
        while let Some(place) = self.free.last().copied() {
            match self.listener.poll_accept(cx) {
                Poll::Ready(Ok((stream, peer))) => {
                    if self.log.admits(peer, self.places.iter().flatten().map(|under_way| under_way.peer)) {
                        let gives_way = now + greeting_patience(round_trip(&stream).unwrap_or_default());
                        let greeting = (self.greet)(stream, peer);
                        self.free.pop();
                        self.places[place] = Some(UnderWay { gives_way, peer, greeting });
                        self.woken.push(place);
                    }
                }
                Poll::Ready(Err(error)) => {
                    // No file descriptor is free, or the peer has closed the connection. The next
                    // turn tries again.
                    self.log.record(UNACCEPTED, &error);
                    return;
                }
                Poll::Pending => return,
            }
        }
    }

    /// Drops handshakes that take long if the limit is reached. Returns true if one was dropped.
    fn make_room(&mut self, now: Instant) -> bool {
        if !self.free.is_empty() {
            return false;
        }
        for place in 0..self.places.len() {
            if let Some(UnderWay { gives_way, peer, .. }) = &self.places[place]
                && now >= *gives_way
            {
                self.log.record_silence(*peer);
                self.vacate(place);
            }
        }
        !self.free.is_empty()
    }

    fn vacate(&mut self, place: usize) {
        self.places[place] = None;
        self.free.push(place);
    }
}
