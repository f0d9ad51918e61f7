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
    task::{Context, Poll, ready},
};

use bytes::{Buf as _, BytesMut};
use evb_core::wire::encoding::Encoding as _;
use evb_core::wire::{
    control::{Control, Hello, HelloReply, MAX_MESSAGE, Refusal, UnreadableMessage, Welcome},
    preamble::ConnectionKind,
};
use socket2::SockRef;
use tokio::net::TcpStream;

use crate::{
    class::TrafficClass,
    handshake::{self, Channel, HandshakeError},
    security::{Forged, Security, Session},
};

pub use connect::{ConnectError, connect, connect_secured, listen, open, set_control_options};

/// Bytes that may wait for a slow peer before it is dropped (docs/reference/protocol.md CTRL-7).
pub const OUTGOING_LIMIT: usize = 4 << 20;

/// Bytes that one read takes at most.
const READ_SIZE: usize = 64 << 10;

/// Reason why a control connection ended.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// The peer closed it.
    #[error("the peer closed the control connection")]
    Closed,
    /// The network or the peer's host failed.
    #[error("the control connection failed: {0}")]
    Io(#[from] io::Error),
    /// The peer announced more than a message may have.
    #[error("the peer announced a message of {length} bytes; the limit is {MAX_MESSAGE}")]
    TooLong {
        /// The announced length.
        length: u32,
    },
    /// The bytes are no message, or one that would take too much memory.
    #[error(transparent)]
    Malformed(#[from] UnreadableMessage),
    /// The bytes are not those of a peer with the key.
    #[error(transparent)]
    Forged(#[from] Forged),
    /// All numbers of parcels are used up.
    #[error("this connection's keys are used up; the connection must be opened again")]
    UsedUp,
    /// The peer does not read.
    #[error("the peer reads too slowly: more than {OUTGOING_LIMIT} bytes wait to be sent to it")]
    Overflow,
}

/// One control connection after its handshake. Messages in both directions are buffered here, so
/// that every method is safe to cancel; small messages share reads and writes.
#[derive(Debug)]
pub struct ControlLink {
    stream: TcpStream,
    peer: SocketAddr,
    session: Option<Box<Protected>>,
    incoming: BytesMut,
    outgoing: BytesMut,
    outgoing_peak: usize,
}

/// A session, and its parcels on their way in and out; at most one that leaves.
#[derive(Debug)]
struct Protected {
    session: Session,
    incoming: BytesMut,
    outgoing: BytesMut,
}

/// A connection whose hello has been read and not been answered yet.
#[derive(Debug)]
pub struct Incoming {
    channel: Channel,
    peer: SocketAddr,
    /// The peer's description of itself; only its form has been checked.
    pub hello: Hello,
}

/// Appends a message as it goes over the wire: length, bytes. For [`ControlLink::send_encoded`].
/// Requirements: docs/reference/protocol.md CTRL-1.
pub fn encode_into(message: &Control, bytes: &mut BytesMut) {
    bytes.reserve(4 + message.encoded_len());
    message.encode_framed(bytes);
}

/// Takes one message off the front of the bytes read: the opposite of [`encode_into`]. Returns
/// `None` if its end has not arrived yet. A length allocates nothing: the buffer grows with the
/// bytes that arrive.
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
    /// Reads the greeting on a fresh control connection, as
    /// [`accept_secured`](Self::accept_secured) does without protection.
    ///
    /// # Errors
    /// As there.
    pub async fn accept(stream: TcpStream, peer: SocketAddr) -> Result<Self, HandshakeError> {
        Self::accept_secured(stream, peer, &Security::None).await
    }

    /// Agrees on keys if a key is configured, and reads the greeting on a fresh control connection,
    /// in limited time and length.
    ///
    /// # Errors
    /// Returns a [`HandshakeError`]; the connection is closed, and a peer that speaks our protocol
    /// is told the reason.
    pub async fn accept_secured(
        stream: TcpStream,
        peer: SocketAddr,
        security: &Security,
    ) -> Result<Self, HandshakeError> {
        set_control_options(&stream)?;
        let (channel, hello) = Channel::accept(stream, ConnectionKind::Control, security).await?;
        // A peer that gave up while it waited in the listener's queue must not take the place of a
        // later one.
        if has_gone(channel.as_ref()) {
            return Err(HandshakeError::Closed);
        }
        Ok(Self { channel, peer, hello })
    }

    /// Returns the peer's address.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Lets the peer in. The answer leaves with the link's next flush.
    pub fn welcome(self, welcome: Welcome) -> ControlLink {
        let reply = handshake::welcomed(welcome);
        let mut link = ControlLink::new(self.channel, self.peer);
        match &mut link.session {
            None => link.outgoing.extend_from_slice(&handshake::opening(ConnectionKind::Control, &reply)),
            // The message has a parcel of its own (docs/reference/protocol.md SEC-5); a cipher that
            // fails here fails at the next one, too.
            Some(protected) => {
                let sealed = protected.session.message(&reply).unwrap_or_default();
                protected.outgoing.extend_from_slice(&sealed);
            }
        }
        link
    }

    /// Turns the peer away and closes.
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

impl Protected {
    fn new(session: Session) -> Box<Self> {
        Box::new(Self { session, incoming: BytesMut::new(), outgoing: BytesMut::new() })
    }
}

impl ControlLink {
    fn new(channel: Channel, peer: SocketAddr) -> Self {
        let (stream, session) = channel.into_parts();
        let session = session.map(Protected::new);
        let (incoming, outgoing) = (BytesMut::new(), BytesMut::new());
        Self { stream, peer, session, incoming, outgoing, outgoing_peak: 0 }
    }

    /// The other side's address.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Marks its packets from now on, so that switches and this host let it pass before event data.
    ///
    /// # Errors
    /// The system's, on a socket that is broken already.
    pub fn classify(&self, class: TrafficClass) -> io::Result<()> {
        class.apply(self.stream.as_fd())
    }

    /// Returns the number of bytes that wait for the peer.
    pub fn queued(&self) -> usize {
        self.outgoing.len()
    }

    /// The next message, if it is here already or arrives; drives nothing else.
    ///
    /// # Errors
    /// [`LinkError`]; drop the link.
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
            ready!(self.stream.poll_read_ready(cx))?;
            into.reserve(READ_SIZE);
            match self.stream.try_read_buf(into) {
                Ok(0) => return Poll::Ready(Err(LinkError::Closed)),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error.into())),
            }
        }
    }

    /// Waits for the next message, and sends meanwhile what is queued. Safe to cancel.
    ///
    /// # Errors
    /// [`LinkError`]; drop the link.
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
    /// [`LinkError::Overflow`]: the peer does not read; drop the link.
    pub fn send(&mut self, message: &Control) -> Result<(), LinkError> {
        self.admit(4 + message.encoded_len())?;
        encode_into(message, &mut self.outgoing);
        Ok(())
    }

    /// Queues messages that [`encode_into`] has encoded, once for many links.
    ///
    /// # Errors
    /// [`LinkError::Overflow`]: the peer does not read; drop the link.
    pub fn send_encoded(&mut self, messages: &[u8]) -> Result<(), LinkError> {
        self.admit(messages.len())?;
        self.outgoing.extend_from_slice(messages);
        Ok(())
    }

    /// Writes as much of the queue as the socket takes; ready when the queue is empty.
    ///
    /// # Errors
    /// [`LinkError`]; drop the link.
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
        // The memory of a burst is given back; that of every turn is kept.
        if self.outgoing_peak > READ_SIZE {
            self.outgoing = BytesMut::new();
            self.outgoing_peak = 0;
        }
        Poll::Ready(Ok(()))
    }

    /// Waits until the queue is on its way. Safe to cancel.
    ///
    /// # Errors
    /// [`LinkError`]; drop the link.
    pub async fn flush(&mut self) -> Result<(), LinkError> {
        std::future::poll_fn(|cx| self.poll_flush(cx)).await
    }

    fn admit(&mut self, length: usize) -> Result<(), LinkError> {
        let fits = self.outgoing.is_empty() || self.outgoing.len() + length <= OUTGOING_LIMIT;
        self.outgoing_peak = self.outgoing_peak.max(self.outgoing.len() + length);
        if fits { Ok(()) } else { Err(LinkError::Overflow) }
    }
}
