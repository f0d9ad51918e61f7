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

use std::{io, net::IpAddr};

use evb_core::wire::encoding::Encoding;
use evb_core::wire::{
    control::{Hello, HelloReply, MAX_HELLO, Reason, Refusal, Reply, Welcome},
    preamble::{
        ConnectionKind, MAGIC, PREAMBLE_LENGTH, PreambleError, Spoken, check_preamble, preamble,
        protected_preamble,
    },
};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::security::{CipherError, Forged, Security, Session};

pub use channel::Channel;
pub use evb_core::session::HANDSHAKE_TIMEOUT;
pub use refusals::RefusalLog;

/// Reason why a handshake failed.
#[derive(Debug, thiserror::Error)]
pub enum HandshakeError {
    /// Too few bytes came in time.
    #[error("no complete handshake within {} s: the peer is frozen, overloaded, or not evb", HANDSHAKE_TIMEOUT.as_secs())]
    Timeout,
    /// The peer closed the connection in the middle.
    #[error("the peer closed the connection during the handshake; its log may say why")]
    Closed,
    /// The connection failed.
    #[error("the connection failed during the handshake: {0}")]
    Io(io::Error),
    /// The first bytes were not ours.
    #[error(transparent)]
    Preamble(#[from] PreambleError),
    /// A length beyond what a handshake may have.
    #[error("the peer announced a handshake of {length} bytes; the limit is {MAX_HELLO}")]
    TooLong {
        /// The announced length.
        length: u32,
    },
    /// The bytes are no handshake message.
    #[error("malformed handshake: {0}")]
    Malformed(String),
    /// A peer without a key, where there must be one.
    #[error(
        "the peer has no key, but this system accepts only peers with its key: give the peer [security] mode = \"psk\" and key_file with a copy of the key"
    )]
    NoKey,
    /// A peer with a key, where there is none.
    #[error(
        "the peer uses a key, but this process has none: give both [security] mode = \"psk\" and a copy of the same key_file, or neither"
    )]
    UnexpectedKey,
    /// A peer that let us in without a word of the key.
    #[error(
        "the peer answers without a key, though this process has one: the peer does not belong to this system, or its configuration has no key"
    )]
    UnexpectedClear,
    /// A peer with another key.
    #[error("the peer's key is not this system's key: copy the same key_file to all machines")]
    WrongKey,
    /// Bytes that no peer with the key has sent, after the first ones.
    #[error(transparent)]
    Forged(#[from] Forged),
    /// A refusal from a peer that has not shown that it has the key.
    #[error("refused by a peer that did not prove that it has the key: {}", words(.0))]
    Unauthenticated(Refusal),
    /// The system gives no randomness, or the cipher does not work.
    #[error("cannot agree on keys with the peer: {0}")]
    Cipher(#[from] CipherError),
    /// A peer on another host, which this build must not talk to.
    #[error(
        "{0} is not a loopback address, and this program was built without the feature `security`: build it with the feature, or keep all peers on one host"
    )]
    NotLoopback(IpAddr),
    /// The peer understood and said no.
    #[error("refused: {}", words(.0))]
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

/// A refusal in words (docs/reference/protocol.md CONN-16).
pub fn words(refusal: &Refusal) -> String {
    let detail: String = refusal.detail.chars().filter(|c| !c.is_control()).take(400).collect();
    if detail.is_empty() { format!("{:?}", refusal.reason) } else { detail }
}

/// The connecting side: greets, and waits for the answer. [`connect_secured`] without protection.
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

/// Performs the connecting side's handshake: agrees on keys if a key is configured, greets, and
/// waits for the answer.
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
                Err(HandshakeError::Malformed("the answer is neither a welcome nor a refusal".to_owned()))
            }
        }
    };
    tokio::time::timeout(HANDSHAKE_TIMEOUT, exchange).await.map_err(|_| HandshakeError::Timeout)?
}

/// Reads the greeting on the accepting side, as [`accept_secured`] does without protection.
///
/// # Errors
/// [`HandshakeError`]; close the connection, and tell the [`RefusalLog`].
pub async fn accept_handshake<S>(stream: &mut S, kind: ConnectionKind) -> Result<Hello, HandshakeError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    Ok(accept_secured(stream, kind, &Security::None).await?.1)
}

/// Reads the greeting on the accepting side, after an agreement on keys if a key is configured. A
/// peer of our protocol that makes a mistake is told so before the error returns; a foreign one
/// gets no answer at all.
///
/// # Errors
/// [`HandshakeError`]; close the connection, and tell the [`RefusalLog`].
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
            // The system resets a connection that is closed with unread bytes, and the answer would
            // be lost.
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
        // The error that is returned is the one worth reading; the peer may be gone already.
        let _ = reply_secured(stream, kind, &mut session, &refused(refusal)).await;
    }
    Err(error)
}

impl HandshakeError {
    /// Returns true if the two sides' `[security]` do not fit, which waiting does not change.
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

    /// Returns the refusal to send to a peer of our protocol, if there is one.
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
                        "this system accepts only peers with its key: give yours [security] mode = \"psk\" and key_file with a copy of the key"
                    }
                    Self::UnexpectedKey => {
                        "your process uses a key, but this one has none: give both [security] mode = \"psk\" and a copy of the same key_file, or neither"
                    }
                    _ => "your key is not this system's key: copy the same key_file to all machines",
                };
                (Reason::Configuration, words.to_owned())
            }
            _ => return None,
        };
        Some(Refusal::because(reason, detail))
    }
}

/// The accepting side's answer. Sends it and does not close.
///
/// # Errors
/// The connection's, or a timeout.
pub async fn reply<S>(stream: &mut S, kind: ConnectionKind, reply: &HelloReply) -> Result<(), HandshakeError>
where
    S: AsyncWrite + Unpin,
{
    reply_secured(stream, kind, &mut None, reply).await
}

/// Answers a greeting within a session, if there is one.
///
/// # Errors
/// The connection's, or a timeout.
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

/// The answer yes.
pub fn welcomed(welcome: Welcome) -> HelloReply {
    HelloReply { reply: Some(Reply::Welcome(welcome)) }
}

/// The answer no.
pub fn refused(refusal: Refusal) -> HelloReply {
    HelloReply { reply: Some(Reply::Refusal(refusal)) }
}

/// Returns the accepting side's answer: preamble and message, or the sealed message alone within a
/// session, where the preamble has been sent.
///
/// # Errors
/// The cipher's.
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

/// Everything that one side sends in a handshake: preamble, length, message.
pub fn opening(kind: ConnectionKind, message: &impl Encoding) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(PREAMBLE_LENGTH + 4 + message.encoded_len());
    bytes.extend_from_slice(&preamble(kind));
    message.encode_framed(&mut bytes);
    bytes
}

/// The preamble before an agreement on keys.
pub(crate) fn protected(kind: ConnectionKind) -> [u8; PREAMBLE_LENGTH] {
    protected_preamble(kind, Spoken::Noise)
}

/// Reads the preamble, and stops at its first byte that is not ours: a foreign protocol may wait
/// for us to speak.
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
