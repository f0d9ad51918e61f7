//! [`Arrivals`]: the bytes of a front end's connection, which tell the listener when all that had
//! arrived at its request is read.

#[cfg(test)]
mod tests;

use std::{
    future::Future,
    io,
    os::fd::{AsFd, BorrowedFd},
    pin::Pin,
    task::{Context, Poll},
};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::{
    io::{AsyncRead, ReadBuf},
    net::{tcp, unix},
    sync::{mpsc, watch},
};

use super::device::Device;

/// Number of bytes after which a connection that never falls silent counts as read: more than a
/// socket's buffer has.
const MOST: usize = 64 << 20;

/// A token that connections hold until they have read all that had arrived at the listener's
/// request. The listener waits until all tokens are dropped.
type Token = mpsc::Sender<()>;

/// The requests of a listener to its connections.
#[derive(Debug)]
pub(super) struct Requests {
    tokens: watch::Sender<Token>,
    /// The end of this channel says that all connections have dropped their tokens.
    held: mpsc::Receiver<()>,
}

impl Requests {
    pub(super) fn new() -> Self {
        let (token, held) = mpsc::channel(1);
        Self { tokens: watch::Sender::new(token), held }
    }

    /// Waits until all connections have passed on what has arrived.
    pub(super) async fn read_out(&mut self) {
        let (token, held) = mpsc::channel(1);
        self.tokens.send_replace(token);
        // Nothing is ever sent.
        let _ = self.held.recv().await;
        self.held = held;
    }

    /// Returns the bytes of a new connection.
    pub(super) fn arrivals(&self, stream: Stream) -> Arrivals {
        let mut tokens = self.tokens.subscribe();
        let token = tokens.borrow_and_update().clone();
        Arrivals { stream, token, request: next(tokens.clone()), tokens, since_request: None }
    }
}

/// A wait for the listener's next request.
type Request = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Returns a future that waits for the next request to read out.
fn next(mut tokens: watch::Receiver<Token>) -> Request {
    Box::pin(async move {
        if tokens.changed().await.is_err() {
            // The listener has ended.
            std::future::pending::<()>().await;
        }
    })
}

/// The receiving side of a front end's connection.
#[derive(Debug)]
pub(super) enum Stream {
    Tcp(tcp::OwnedReadHalf),
    Unix(unix::OwnedReadHalf),
    Device(Device),
}

/// The bytes of a front end's connection.
pub(super) struct Arrivals {
    stream: Stream,
    token: Token,
    tokens: watch::Receiver<Token>,
    /// Wakes a connection that waits for bytes.
    request: Request,
    /// While a request waits for an answer: the token of the time after it, and the number of bytes
    /// read since.
    since_request: Option<(Token, usize)>,
}

impl Arrivals {
    /// Answers the listener's request if all that has arrived is read. `read` is the number of
    /// bytes of the latest read; 0 if there were none.
    fn answer_request(&mut self, read: usize) {
        if self.since_request.is_none() && self.tokens.has_changed().unwrap_or(false) {
            self.since_request = Some((self.tokens.borrow_and_update().clone(), 0));
        }
        let Some((_, since)) = &mut self.since_request else { return };
        *since += read;
        // A read without bytes may only mean that the runtime does not know yet what has arrived,
        // so the kernel is asked.
        let is_read = read == 0 && !is_readable(self.stream.as_fd());
        if (is_read || *since >= MOST)
            && let Some((token, _)) = self.since_request.take()
        {
            self.token = token;
        }
    }
}

impl AsyncRead for Arrivals {
    /// Reads bytes of the front end, and answers the listener's request when all that had arrived
    /// by then is read.
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = into.filled().len();
        let result = match &mut this.stream {
            Stream::Tcp(stream) => Pin::new(stream).poll_read(cx, into),
            Stream::Unix(stream) => Pin::new(stream).poll_read(cx, into),
            Stream::Device(device) => Pin::new(device).poll_read(cx, into),
        };
        if result.is_pending() && this.request.as_mut().poll(cx).is_ready() {
            this.request = next(this.tokens.clone());
            cx.waker().wake_by_ref();
        }
        this.answer_request(into.filled().len() - before);
        result
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(stream) => stream.as_ref().as_fd(),
            Self::Unix(stream) => stream.as_ref().as_fd(),
            Self::Device(device) => device.as_fd(),
        }
    }
}

/// Returns true if the kernel has a byte, an end or a connection for the socket.
pub(super) fn is_readable(socket: BorrowedFd<'_>) -> bool {
    let mut sockets = [PollFd::new(&socket, PollFlags::IN)];
    let ready = rustix::io::retry_on_intr(|| poll(&mut sockets, Some(&Timespec::default())));
    ready.is_ok_and(|count| count > 0)
}
