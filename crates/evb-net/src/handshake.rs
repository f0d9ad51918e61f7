//! The first exchange on every connection, control or lane: preamble and `Hello` from the side that
//! connects, preamble and `HelloReply` back (docs/reference/protocol.md CONN-5). Each side limits
//! the time and length that it grants the other.

mod sealed;
#[cfg(feature = "security")]
pub(crate) mod greeting;
mod channel;
mod refusals;
#[cfg(test)]
mod tests;

use std::{io, net::IpAddr, time::Duration};

use evb_core::quantities::split_remedy;
use evb_core::wire::encoding::Encoding;
use evb_core::wire::{
    control::{Hello, HelloReply, MAX_HELLO, Reason, Refusal, Reply, Welcome, plain},
    preamble::{
        ConnectionKind, MAGIC, PREAMBLE_LENGTH, PreambleError, Spoken, check_preamble, preamble,
        protected_preamble,
    },
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
};

use crate::{
    security::{CipherError, Forged, Security, Session},
    sys_tcp,
};

pub use channel::Channel;
pub use evb_core::session::HANDSHAKE_TIMEOUT;
pub use refusals::RefusalLog;

/// Reason why a handshake failed.
#[derive(Debug, thiserror::Error)]
pub enum HandshakeError {
    /// The peer did not complete the handshake within [`HANDSHAKE_TIMEOUT`].
    #[error("the peer did not complete its first messages within {} s: it is frozen or overloaded, or is not evb; see which program it is, and start it again if it is evb", HANDSHAKE_TIMEOUT.as_secs())]
    Timeout,
    /// The peer closed the connection during the handshake.
    #[error(
        "the peer closed the connection within the first messages; see that evb of this release runs there and is not just ending, then look at the peer's log"
    )]
    Closed,
    /// The connection failed.
    #[error(
        "the network failed: {0}; check that the peer's host is up and that network and firewalls let this host reach it, then that the peer is running"
    )]
    Io(io::Error),
    /// The peer's first bytes are not an acceptable preamble of the evb protocol.
    #[error(transparent)]
    Preamble(#[from] PreambleError),
    /// The peer announced a handshake message that is longer than the limit.
    #[error(
        "the peer announced a first message of {length} bytes, more than the limit of {MAX_HELLO}; install the same release of evb on both hosts"
    )]
    TooLong {
        /// The announced length.
        length: u32,
    },
    /// The received bytes are not a valid handshake message.
    #[error(
        "the peer's first message cannot be used: {0}; if this repeats, check that both hosts have the same release of evb and take part in the same run"
    )]
    Malformed(String),
    /// The peer has no key, but this process requires one.
    #[error(
        "the peer has no key, but this system accepts only peers with its key; give the peer [security] mode = \"psk\" and key_file with a copy of the key"
    )]
    NoKey,
    /// The peer uses a key, but this process has none.
    #[error(
        "the peer uses a key, but this process has none; give both [security] mode = \"psk\" and a copy of the same key_file, or neither"
    )]
    UnexpectedKey,
    /// The peer accepted the connection without using a key, although this process has one.
    #[error(
        "the peer answers without a key, though this process has one: the peer does not belong to this system, or its configuration has no key; check its address, and give it a copy of the same key_file"
    )]
    UnexpectedClear,
    /// The peer's key differs from the key of this process.
    #[error("the peer's key differs from this system's; copy the same key_file to all hosts")]
    WrongKey,
    /// Bytes received after the agreement on keys fail authentication.
    #[error(transparent)]
    Forged(#[from] Forged),
    /// The peer refused the connection, but did not prove that it has the key.
    #[error("{}", unproved(.0))]
    Unauthenticated(Refusal),
    /// The operating system provides no random numbers, or the encryption failed.
    #[error(
        "this host cannot make keys for the connection: {0}; look at the log of its kernel (`dmesg`), which gives the random numbers for them"
    )]
    Cipher(#[from] CipherError),
    /// The peer is on another host, and this build cannot protect the connection.
    #[error(
        "{0} is not a loopback address, and this program was built without the feature `security`; build it with the feature, or keep all peers on one host"
    )]
    NotLoopback(IpAddr),
    /// The peer understood the handshake and refused the connection.
    #[error("the peer refused this process: {}", words(.0))]
    Refused(Refusal),
}

impl From<io::Error> for HandshakeError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::BrokenPipe => Self::Closed,
            _ => Self::Io(error),
        }
    }
}

/// Returns the round-trip time that the kernel measured on a connection; `None` before the first
/// measurement.
pub fn round_trip(stream: &TcpStream) -> Option<Duration> {
    sys_tcp::round_trip(stream)
}

/// Returns a readable text of a refusal (docs/reference/protocol.md CONN-16).
pub fn words(refusal: &Refusal) -> String {
    let detail = plain(&refusal.detail, 400);
    if detail.is_empty() {
        format!(
            "it gives only the code \"{:?}\" as its reason; check that both sides have the same release and configuration, then look at its log",
            refusal.reason
        )
    } else {
        detail
    }
}

/// Returns a readable text of a refusal by a peer that has not proved that it has the key.
fn unproved(refusal: &Refusal) -> String {
    let words = words(refusal);
    let (reason, remedy) = split_remedy(&words);
    let then = remedy.map_or_else(String::new, |remedy| format!(", then {remedy}"));
    format!(
        "the peer refused this process, and has not proved that it has this system's key: {reason}; check that both have the same key_file{then}"
    )
}

/// Performs the connecting side's handshake without a key: [`connect_secured`] with
/// [`Security::None`].
///
/// # Errors
/// Returns a [`HandshakeError`], after which the connection is unusable.
pub async fn connect_handshake<S>(
    stream: &mut S,
    kind: ConnectionKind,
    hello: &Hello,
) -> Result<Welcome, HandshakeError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    Ok(connect_secured(stream, kind, hello, &Security::None).await?.1)
}

/// Performs the connecting side's handshake: agrees on keys if a key is configured, sends `hello`,
/// and waits for the peer's answer.
///
/// # Errors
/// Returns a [`HandshakeError`], after which the connection is unusable.
pub async fn connect_secured<S>(
    stream: &mut S,
    kind: ConnectionKind,
    hello: &Hello,
    security: &Security,
) -> Result<(Option<Session>, Welcome), HandshakeError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let exchange = async {
        let (session, reply) = match security {
            Security::None => {
                stream.write_all(&opening(kind, hello)).await?;
                if check_preamble(read_preamble(stream).await?, kind)? != Spoken::Clear {
                    return Err(HandshakeError::UnexpectedKey);
                }
                (None, read_message::<HelloReply, _>(stream).await?)
            }
            #[cfg(feature = "security")]
            Security::Psk(key) => {
                let mut session = greeting::connect(stream, kind, key).await?;
                stream.write_all(&session.message(hello)?).await?;
                let reply = sealed::read_message(stream, &mut session).await?;
                (Some(session), reply)
            }
        };
        match reply.reply {
            Some(Reply::Welcome(welcome)) => Ok((session, welcome)),
            Some(Reply::Refusal(refusal)) => Err(HandshakeError::Refused(refusal)),
            None => {
                Err(HandshakeError::Malformed("it neither accepts nor refuses the connection".to_owned()))
            }
        }
    };
    tokio::time::timeout(HANDSHAKE_TIMEOUT, exchange).await.map_err(|_| HandshakeError::Timeout)?
}

/// Reads the peer's `Hello` on the accepting side, as [`accept_secured`] does with
/// [`Security::None`].
///
/// # Errors
/// Returns a [`HandshakeError`]; the caller should close the connection and report the error to the
/// [`RefusalLog`].
pub async fn accept_handshake<S>(stream: &mut S, kind: ConnectionKind) -> Result<Hello, HandshakeError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    Ok(accept_secured(stream, kind, &Security::None).await?.1)
}

/// Reads the peer's `Hello` on the accepting side, after an agreement on keys if a key is
/// configured. If the handshake of a peer that speaks the evb protocol fails, the peer gets a
/// refusal before this function returns; a peer with another protocol gets no answer at all.
///
/// # Errors
/// Returns a [`HandshakeError`]; the caller should close the connection and report the error to the
/// [`RefusalLog`].
pub async fn accept_secured<S>(
    stream: &mut S,
    kind: ConnectionKind,
    security: &Security,
) -> Result<(Option<Session>, Hello), HandshakeError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut session = None;
    let greeting = async {
        let spoken = check_preamble(read_preamble(stream).await?, kind)?;
        match (security, spoken) {
            (Security::None, Spoken::Clear) => read_message::<Hello, _>(stream).await,
            #[cfg(feature = "security")]
            (Security::Psk(key), Spoken::Noise) => {
                let session = session.insert(greeting::accept(stream, kind, key).await?);
                sealed::read_message(stream, session).await
            }
            // The peer's message is read before the peer is refused: the kernel resets a connection
            // that is closed with unread bytes, and the refusal would be lost.
            #[cfg(feature = "security")]
            (Security::Psk(_), Spoken::Clear) => {
                read_message::<Hello, _>(stream).await?;
                Err(HandshakeError::NoKey)
            }
            (Security::None, Spoken::Noise) => {
                sealed::read_agreement(stream).await?;
                Err(HandshakeError::UnexpectedKey)
            }
        }
    };
    let result = tokio::time::timeout(HANDSHAKE_TIMEOUT, greeting).await;
    let result = result.unwrap_or(Err(HandshakeError::Timeout));
    let error = match result {
        Ok(hello) => return Ok((session, hello)),
        Err(error) => error,
    };
    if let Some(refusal) = error.refusal() {
        // A failure to send the refusal is ignored: the peer may be gone already, and the caller
        // gets the error that caused the refusal.
        let _ = reply_secured(stream, kind, &mut session, &refused(refusal)).await;
    }
    Err(error)
}

impl HandshakeError {
    /// Returns true if the `[security]` settings of the two peers do not match; retrying is then
    /// useless.
    pub fn is_about_keys(&self) -> bool {
        matches!(
            self,
            Self::NoKey
                | Self::UnexpectedKey
                | Self::UnexpectedClear
                | Self::WrongKey
                | Self::Unauthenticated(_)
                | Self::NotLoopback(_)
        )
    }

    /// Returns true if another attempt would most probably fail in the same way, because the keys
    /// or the protocol versions of the two peers do not match.
    pub fn is_lasting(&self) -> bool {
        self.is_about_keys() || matches!(self, Self::Preamble(PreambleError::Version { .. }))
    }

    /// Returns the refusal to send to the peer; `None` after an error that is not answered, such as
    /// a peer that does not speak the evb protocol.
    fn refusal(&self) -> Option<Refusal> {
        let detail = || self.to_string();
        let (reason, detail) = match self {
            Self::Preamble(PreambleError::Version { .. }) => (Reason::ProtocolVersion, detail()),
            Self::Preamble(PreambleError::Kind { .. }) => (Reason::WrongRole, detail()),
            Self::Preamble(PreambleError::Protection(_)) => (Reason::Configuration, detail()),
            Self::TooLong { .. } | Self::Malformed(_) => (Reason::Malformed, detail()),
            Self::NoKey | Self::UnexpectedKey | Self::WrongKey => {
                let words = match self {
                    Self::NoKey => {
                        "this system accepts only peers with its key; give yours [security] mode = \"psk\" and key_file with a copy of the key"
                    }
                    Self::UnexpectedKey => {
                        "your process uses a key, but this one has none; give both [security] mode = \"psk\" and a copy of the same key_file, or neither"
                    }
                    _ => "your key differs from this system's; copy the same key_file to all hosts",
                };
                (Reason::Configuration, words.to_owned())
            }
            _ => return None,
        };
        Some(Refusal::because(reason, detail))
    }
}

/// Sends the accepting side's answer without encryption, and leaves the connection open.
///
/// # Errors
/// Returns the connection's error, or [`HandshakeError::Timeout`].
pub async fn reply<S>(stream: &mut S, kind: ConnectionKind, reply: &HelloReply) -> Result<(), HandshakeError>
where
    S: AsyncWrite + Unpin,
{
    reply_secured(stream, kind, &mut None, reply).await
}

/// Sends the accepting side's answer, encrypted if the connection has a session.
///
/// # Errors
/// Returns the connection's error, or [`HandshakeError::Timeout`].
pub async fn reply_secured<S>(
    stream: &mut S,
    kind: ConnectionKind,
    session: &mut Option<Session>,
    reply: &HelloReply,
) -> Result<(), HandshakeError>
where
    S: AsyncWrite + Unpin,
{
    let bytes = answer(kind, session, reply)?;
    match tokio::time::timeout(HANDSHAKE_TIMEOUT, stream.write_all(&bytes)).await {
        Ok(written) => Ok(written?),
        Err(_) => Err(HandshakeError::Timeout),
    }
}

/// Builds the answer that accepts a peer.
pub fn welcomed(welcome: Welcome) -> HelloReply {
    HelloReply { reply: Some(Reply::Welcome(welcome)) }
}

/// Builds the answer that refuses a peer.
pub fn refused(refusal: Refusal) -> HelloReply {
    HelloReply { reply: Some(Reply::Refusal(refusal)) }
}

/// Returns the bytes of the accepting side's answer: preamble and message, or only the encrypted
/// message within a session, because the preamble was sent before the session began.
///
/// # Errors
/// [`HandshakeError::Cipher`] if the encryption fails.
pub(crate) fn answer(
    kind: ConnectionKind,
    session: &mut Option<Session>,
    reply: &HelloReply,
) -> Result<Vec<u8>, HandshakeError> {
    match session {
        Some(session) => Ok(session.message(reply)?),
        None => Ok(opening(kind, reply)),
    }
}

/// Returns all bytes that one side sends in an unencrypted handshake: preamble, length of the
/// message, message.
pub fn opening(kind: ConnectionKind, message: &impl Encoding) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(PREAMBLE_LENGTH + 4 + message.encoded_len());
    bytes.extend_from_slice(&preamble(kind));
    message.encode_framed(&mut bytes);
    bytes
}

/// Returns the preamble that announces an agreement on keys.
pub(crate) fn protected(kind: ConnectionKind) -> [u8; PREAMBLE_LENGTH] {
    protected_preamble(kind, Spoken::Noise)
}

/// Reads the peer's preamble, and stops at the first byte that differs from the evb protocol's
/// magic number: a peer with another protocol may send no more bytes before it gets an answer.
pub(crate) async fn read_preamble(
    stream: &mut (impl AsyncRead + Unpin),
) -> Result<[u8; PREAMBLE_LENGTH], HandshakeError> {
    let mut bytes = [0; PREAMBLE_LENGTH];
    let mut filled = 0;
    while filled < PREAMBLE_LENGTH {
        let read = stream.read(&mut bytes[filled..]).await?;
        if read == 0 {
            return Err(HandshakeError::Closed);
        }
        filled += read;
        if bytes.iter().zip(MAGIC).take(filled).any(|(byte, magic)| *byte != magic) {
            return Err(PreambleError::Foreign(bytes).into());
        }
    }
    Ok(bytes)
}

/// Reads a message of the handshake, which a length of four bytes precedes.
pub(crate) async fn read_message<M, S>(stream: &mut S) -> Result<M, HandshakeError>
where
    M: Encoding,
    S: AsyncRead + Unpin,
{
    let mut length = [0; 4];
    stream.read_exact(&mut length).await?;
    let length = u32::from_le_bytes(length);
    let mut bytes = [0; MAX_HELLO];
    let Some(bytes) = bytes.get_mut(..length as usize) else {
        return Err(HandshakeError::TooLong { length });
    };
    stream.read_exact(bytes).await?;
    M::decode(bytes).map_err(|error| HandshakeError::Malformed(error.to_string()))
}
