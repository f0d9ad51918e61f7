//! [`ControlLink`]: one control connection, from a source or builder to the supervisor, with
//! bounded queues both ways.

mod connect;
#[cfg(test)]
mod tests;

use std::{
    io,
    mem::MaybeUninit,
    net::SocketAddr,
    os::fd::AsFd as _,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::{Buf as _, BytesMut};
use evb_core::{
    quantities::SAME_RELEASE,
    wire::{
        control::{Control, Hello, HelloReply, MAX_MESSAGE, Refusal, UnreadableMessage, Welcome},
        encoding::Encoding as _,
        preamble::ConnectionKind,
    },
};
use socket2::SockRef;
use tokio::net::TcpStream;
use tokio_util::io::poll_read_buf;

use crate::{
    class::TrafficClass,
    handshake::{self, Channel, HandshakeError},
    security::{Forged, Security, Session},
};

pub use connect::{ConnectError, connect, connect_secured, listen, open, set_control_options};

/// Limit of the bytes queued for a peer that reads slowly; the connection is closed beyond this
/// limit (docs/reference/protocol.md CTRL-7).
pub const OUTGOING_LIMIT: usize = 4 << 20;

/// Maximum number of bytes that one read takes from the socket.
const READ_SIZE: usize = 64 << 10;

/// Reason why a control connection ended.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// The peer closed the control connection.
    #[error("the other side closed the connection")]
    Closed,
    /// The network or the peer's host failed.
    #[error(
        "the connection broke: {0}; if this repeats, check the network between the hosts, then the other side's log"
    )]
    Io(#[from] io::Error),
    /// The peer announced a message that is longer than the limit.
    #[error("it announced a message of {length} bytes, more than the limit of {MAX_MESSAGE}; {SAME_RELEASE}")]
    TooLong {
        /// The announced length.
        length: u32,
    },
    /// The received bytes are not a valid control message, or decode to a message that would take
    /// too much memory.
    #[error("{0}; {SAME_RELEASE}")]
    Malformed(#[from] UnreadableMessage),
    /// The received bytes fail authentication: no peer with the key sent them in this form.
    #[error(transparent)]
    Forged(#[from] Forged),
    /// The connection has used up all numbers (nonces) for encrypted parcels.
    #[error("the keys of this connection are used up, so evb opens it again with new ones")]
    UsedUp,
    /// The peer reads too slowly: more than [`OUTGOING_LIMIT`] bytes are queued for it.
    #[error(
        "the other side reads too slowly, and more than {} MiB are waiting for it; check whether its host is overloaded",
        OUTGOING_LIMIT >> 20
    )]
    Overflow,
}

/// A control connection after its handshake. The link buffers messages in both directions, so that
/// every method is safe to cancel and small messages share reads and writes.
#[derive(Debug)]
pub struct ControlLink {
    stream: TcpStream,
    peer: SocketAddr,
    session: Option<Box<ProtectedSession>>,
    incoming: BytesMut,
    outgoing: BytesMut,
    outgoing_peak: usize,
}

/// An encrypted session, with buffers for received parcels (encrypted frames) and for at most one
/// parcel that is being sent.
#[derive(Debug)]
struct ProtectedSession {
    session: Session,
    incoming: BytesMut,
    outgoing: BytesMut,
}

/// An accepted control connection whose `Hello` has been read and not been answered yet.
#[derive(Debug)]
pub struct Incoming {
    channel: Channel,
    peer: SocketAddr,
    /// The peer's description of itself, of which only the syntax has been checked.
    pub hello: Hello,
}

/// Appends the wire format of a control message, its length and then its bytes, for
/// [`ControlLink::send_encoded`]. Requirements: docs/reference/protocol.md CTRL-1.
pub fn encode_into(message: &Control, bytes: &mut BytesMut) {
    bytes.reserve(4 + message.encoded_len());
    message.encode_framed(bytes);
}

/// Decodes one control message and removes it from the front of `bytes`: the inverse of
/// [`encode_into`]. Returns `None` if the end of the message has not arrived yet. An announced
/// length allocates no memory: the buffer grows only with the bytes that arrive.
///
/// # Errors
/// [`LinkError::TooLong`] and [`LinkError::Malformed`]: the peer is at fault, and the bytes that
/// follow cannot be interpreted.
pub fn decode_from(bytes: &mut BytesMut) -> Result<Option<Control>, LinkError> {
    let Some((prefix, rest)) = bytes.split_first_chunk::<4>() else { return Ok(None) };
    let length = u32::from_le_bytes(*prefix);
    if length as usize > MAX_MESSAGE {
        return Err(LinkError::TooLong { length });
    }
    let Some(message) = rest.get(..length as usize) else { return Ok(None) };
    let message = Control::read(message)?;
    bytes.advance(4 + length as usize);
    Ok(Some(message))
}

impl Incoming {
    /// Reads the peer's `Hello` on a new control connection, as
    /// [`accept_secured`](Self::accept_secured) does with [`Security::None`].
    ///
    /// # Errors
    /// Returns the errors of [`accept_secured`](Self::accept_secured).
    pub async fn accept(stream: TcpStream, peer: SocketAddr) -> Result<Self, HandshakeError> {
        Self::accept_secured(stream, peer, &Security::None).await
    }

    /// Agrees on session keys if a pre-shared key is configured, and reads the peer's `Hello` on a
    /// new control connection, with limits on time and length.
    ///
    /// # Errors
    /// Returns a [`HandshakeError`]; the connection is closed, and a peer that speaks the evb
    /// protocol is told the reason.
    pub async fn accept_secured(
        stream: TcpStream,
        peer: SocketAddr,
        security: &Security,
    ) -> Result<Self, HandshakeError> {
        set_control_options(&stream)?;
        let (channel, hello) = Channel::accept(stream, ConnectionKind::Control, security).await?;
        // A connection that its peer closed while it waited in the listener's queue must not take
        // the place of a later connection.
        if has_gone(channel.as_ref()) {
            return Err(HandshakeError::Closed);
        }
        Ok(Self { channel, peer, hello })
    }

    /// Returns the peer's address.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Accepts the peer. The link's next flush sends the `Welcome`.
    pub fn welcome(self, welcome: Welcome) -> ControlLink {
        let reply = handshake::welcomed(welcome);
        let mut link = ControlLink::new(self.channel, self.peer);
        match &mut link.session {
            None => link.outgoing.extend_from_slice(&handshake::opening(ConnectionKind::Control, &reply)),
            // The answer has an encrypted parcel of its own (docs/reference/protocol.md SEC-5). A
            // cipher that fails here also fails for the next parcel, which then reports the error.
            Some(protected) => {
                let sealed = protected.session.message(&reply).unwrap_or_default();
                protected.outgoing.extend_from_slice(&sealed);
            }
        }
        link
    }

    /// Refuses the peer, and closes the connection.
    pub fn refuse(self, refusal: Refusal) {
        let reply: HelloReply = handshake::refused(refusal);
        self.channel.refuse(ConnectionKind::Control, &reply);
    }
}

/// Returns true if the peer has closed or reset the connection already, and all its bytes are read.
fn has_gone(stream: &TcpStream) -> bool {
    match SockRef::from(stream).peek(&mut [MaybeUninit::uninit()]) {
        Ok(read) => read == 0,
        Err(error) => error.kind() != io::ErrorKind::WouldBlock,
    }
}

impl ProtectedSession {
    fn new(session: Session) -> Box<Self> {
        Box::new(Self { session, incoming: BytesMut::new(), outgoing: BytesMut::new() })
    }
}

impl ControlLink {
    fn new(channel: Channel, peer: SocketAddr) -> Self {
        let (stream, session) = channel.into_parts();
        let session = session.map(ProtectedSession::new);
        let (incoming, outgoing) = (BytesMut::new(), BytesMut::new());
        Self { stream, peer, session, incoming, outgoing, outgoing_peak: 0 }
    }

    /// Returns the peer's address.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Marks this connection's packets from now on with `class`, by which switches and this host
    /// can send control messages before event data.
    ///
    /// # Errors
    /// An I/O error of the operating system, if the socket is no longer usable.
    pub fn classify(&self, class: TrafficClass) -> io::Result<()> {
        class.apply(self.stream.as_fd())
    }

    /// Returns the number of bytes that wait for the peer.
    pub fn queued(&self) -> usize {
        self.outgoing.len()
    }

    /// Polls for the next message from the peer; does not send queued messages.
    ///
    /// # Errors
    /// Returns a [`LinkError`], after which the link must be dropped.
    pub fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Result<Control, LinkError>> {
        loop {
            if let Some(message) = decode_from(&mut self.incoming)? {
                return Poll::Ready(Ok(message));
            }
            let into = match &mut self.session {
                None => &mut self.incoming,
                Some(protected) => {
                    if protected.session.open(&mut protected.incoming, &mut self.incoming)? {
                        continue;
                    }
                    &mut protected.incoming
                }
            };
            into.reserve(READ_SIZE);
            if ready!(poll_read_buf(Pin::new(&mut self.stream), cx, into))? == 0 {
                return Poll::Ready(Err(LinkError::Closed));
            }
        }
    }

    /// Waits for the next message, and sends queued messages meanwhile. Safe to cancel.
    ///
    /// # Errors
    /// Returns a [`LinkError`], after which the link must be dropped.
    pub async fn recv(&mut self) -> Result<Control, LinkError> {
        std::future::poll_fn(|cx| {
            if let Poll::Ready(Err(error)) = self.poll_flush(cx) {
                return Poll::Ready(Err(error));
            }
            self.poll_recv(cx)
        })
        .await
    }

    /// Queues a message for the next flush.
    ///
    /// # Errors
    /// [`LinkError::Overflow`] if the peer reads too slowly; the link must then be dropped.
    pub fn send(&mut self, message: &Control) -> Result<(), LinkError> {
        self.admit(4 + message.encoded_len())?;
        encode_into(message, &mut self.outgoing);
        Ok(())
    }

    /// Queues messages that [`encode_into`] has encoded; many links can share the same encoded
    /// bytes.
    ///
    /// # Errors
    /// [`LinkError::Overflow`] if the peer reads too slowly; the link must then be dropped.
    pub fn send_encoded(&mut self, messages: &[u8]) -> Result<(), LinkError> {
        self.admit(messages.len())?;
        self.outgoing.extend_from_slice(messages);
        Ok(())
    }

    /// Writes as much of the queue as the socket takes; ready when the queue is empty.
    ///
    /// # Errors
    /// Returns a [`LinkError`], after which the link must be dropped.
    pub fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LinkError>> {
        loop {
            let outgoing = match &mut self.session {
                None => &mut self.outgoing,
                Some(protected) => {
                    if protected.outgoing.is_empty() && !self.outgoing.is_empty() {
                        let sealed = protected.session.seal(&mut self.outgoing, &mut protected.outgoing);
                        sealed.map_err(|_| LinkError::UsedUp)?;
                    }
                    &mut protected.outgoing
                }
            };
            if outgoing.is_empty() {
                break;
            }
            match self.stream.try_write(outgoing) {
                Ok(0) => return Poll::Ready(Err(LinkError::Closed)),
                Ok(written) => outgoing.advance(written),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready!(self.stream.poll_write_ready(cx))?;
                }
                Err(error) => return Poll::Ready(Err(error.into())),
            }
        }
        // A buffer that a burst of messages enlarged is freed; a buffer of usual size is kept for
        // reuse.
        if self.outgoing_peak > READ_SIZE {
            self.outgoing = BytesMut::new();
            self.outgoing_peak = 0;
        }
        Poll::Ready(Ok(()))
    }

    /// Waits until all queued messages are written to the socket. Safe to cancel.
    ///
    /// # Errors
    /// Returns a [`LinkError`], after which the link must be dropped.
    pub async fn flush(&mut self) -> Result<(), LinkError> {
        std::future::poll_fn(|cx| self.poll_flush(cx)).await
    }

    fn admit(&mut self, length: usize) -> Result<(), LinkError> {
        let fits = self.outgoing.is_empty() || self.outgoing.len() + length <= OUTGOING_LIMIT;
        self.outgoing_peak = self.outgoing_peak.max(self.outgoing.len() + length);
        if fits { Ok(()) } else { Err(LinkError::Overflow) }
    }
}
