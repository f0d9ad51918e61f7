//! The first exchange on every connection, control or lane: preamble and `Hello` from the side that connects, preamble and
//! `HelloReply` back (docs/protocol.md CONN-5). Either side is limited in time and length, whoever the other one is.

mod refusals;
#[cfg(test)]
mod tests;

use std::{io, time::Duration};

use evb_core::wire::{
    control::{Hello, HelloReply, MAX_HELLO, Refusal, Welcome, hello_reply, refusal},
    preamble::{ConnectionKind, MAGIC, PREAMBLE_LENGTH, PreambleError, check_preamble, preamble},
};
use prost::Message;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

pub use refusals::RefusalLog;

/// How long either side waits for the other in a handshake (docs/protocol.md CONN-6).
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// Why two sides did not come together.
#[derive(Debug, thiserror::Error)]
pub enum HandshakeError {
    /// Nothing, or too little, came in time.
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

/// A refusal in words (docs/protocol.md CONN-16).
pub fn words(refusal: &Refusal) -> String {
    let detail: String = refusal.detail.chars().filter(|c| !c.is_control()).take(400).collect();
    if detail.is_empty() { format!("{:?}", refusal.reason()) } else { detail }
}

/// The connecting side: greets, and waits for the answer.
///
/// # Errors
/// [`HandshakeError`]; after any of them the connection is of no use.
pub async fn connect_handshake<S>(
    stream: &mut S,
    kind: ConnectionKind,
    hello: &Hello,
) -> Result<Welcome, HandshakeError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let exchange = async {
        stream.write_all(&opening(kind, hello)).await?;
        check_preamble(read_preamble(stream).await?, kind)?;
        match read_message::<HelloReply, _>(stream).await?.reply {
            Some(hello_reply::Reply::Welcome(welcome)) => Ok(welcome),
            Some(hello_reply::Reply::Refusal(refusal)) => Err(HandshakeError::Refused(refusal)),
            None => Err(HandshakeError::Malformed("neither welcome nor refusal".to_owned())),
        }
    };
    tokio::time::timeout(HANDSHAKE_TIMEOUT, exchange).await.map_err(|_| HandshakeError::Timeout)?
}

/// The accepting side: reads who knocks. A peer of our protocol that gets it wrong is told so before the error returns;
/// a foreign one is not answered at all.
///
/// # Errors
/// [`HandshakeError`]; close the connection, and tell the [`RefusalLog`].
pub async fn accept_handshake<S>(stream: &mut S, kind: ConnectionKind) -> Result<Hello, HandshakeError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let greeting = async {
        check_preamble(read_preamble(stream).await?, kind)?;
        read_message::<Hello, _>(stream).await
    };
    let result = tokio::time::timeout(HANDSHAKE_TIMEOUT, greeting).await;
    let result = result.unwrap_or(Err(HandshakeError::Timeout));
    let reason = match &result {
        Err(HandshakeError::Preamble(PreambleError::Version { .. })) => refusal::Reason::ProtocolVersion,
        Err(HandshakeError::Preamble(PreambleError::Kind { .. })) => refusal::Reason::WrongRole,
        Err(HandshakeError::TooLong { .. } | HandshakeError::Malformed(_)) => refusal::Reason::Malformed,
        _ => return result,
    };
    if let Err(error) = &result {
        // The error that is returned is the one worth reading; the peer may be gone already.
        let _ = reply(stream, kind, &refused(Refusal::because(reason, error.to_string()))).await;
    }
    result
}

/// The accepting side's answer. Sends it and does not close.
///
/// # Errors
/// The connection's, or a timeout.
pub async fn reply<S>(stream: &mut S, kind: ConnectionKind, reply: &HelloReply) -> Result<(), HandshakeError>
where
    S: AsyncWrite + Unpin,
{
    let bytes = opening(kind, reply);
    match tokio::time::timeout(HANDSHAKE_TIMEOUT, stream.write_all(&bytes)).await {
        Ok(written) => Ok(written?),
        Err(_) => Err(HandshakeError::Timeout),
    }
}

/// The answer yes.
pub fn welcomed(welcome: Welcome) -> HelloReply {
    HelloReply { reply: Some(hello_reply::Reply::Welcome(welcome)) }
}

/// The answer no.
pub fn refused(refusal: Refusal) -> HelloReply {
    HelloReply { reply: Some(hello_reply::Reply::Refusal(refusal)) }
}

/// Everything that one side sends in a handshake: preamble, length, message.
pub fn opening(kind: ConnectionKind, message: &impl Message) -> Vec<u8> {
    let length = message.encoded_len();
    let mut bytes = Vec::with_capacity(PREAMBLE_LENGTH + 4 + length);
    bytes.extend_from_slice(&preamble(kind));
    bytes.extend_from_slice(&(length as u32).to_le_bytes());
    message.encode_raw(&mut bytes);
    bytes
}

/// Reads the preamble, and stops at the first byte of it that is not ours: a foreign protocol may wait for us to speak.
async fn read_preamble(
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

async fn read_message<M, S>(stream: &mut S) -> Result<M, HandshakeError>
where
    M: Message + Default,
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
    M::decode(&*bytes).map_err(|error| HandshakeError::Malformed(error.to_string()))
}
