//! Reading of what follows a protected preamble: the agreement on keys, and sealed messages.

use tokio::io::{AsyncRead, AsyncReadExt};
#[cfg(feature = "security")]
use {
    crate::security::Session,
    bytes::BytesMut,
    evb_core::wire::{control::MAX_HELLO, encoding::Encoding},
};

use super::HandshakeError;
use crate::security::TAG_LENGTH;

/// Length of each message of the agreement on keys: an ephemeral public key, and the tag of an
/// empty payload.
pub(super) const AGREEMENT: usize = 32 + TAG_LENGTH;

/// Reads the peer's message of the agreement on keys.
pub(super) async fn read_agreement(
    stream: &mut (impl AsyncRead + Unpin),
) -> Result<[u8; AGREEMENT], HandshakeError> {
    let mut length = [0; 2];
    stream.read_exact(&mut length).await?;
    if usize::from(u16::from_le_bytes(length)) != AGREEMENT {
        return Err(HandshakeError::Malformed(
            "the part for the agreement on keys has the wrong length".to_owned(),
        ));
    }
    let mut bytes = [0; AGREEMENT];
    stream.read_exact(&mut bytes).await?;
    Ok(bytes)
}

/// Reads and decrypts one parcel of the session; refuses a parcel that is longer than a handshake
/// message may be.
#[cfg(feature = "security")]
async fn read_parcel(
    stream: &mut (impl AsyncRead + Unpin),
    session: &mut Session,
) -> Result<BytesMut, HandshakeError> {
    let mut prefix = [0; 2];
    stream.read_exact(&mut prefix).await?;
    let length = u16::from_le_bytes(prefix);
    if usize::from(length) > 4 + MAX_HELLO + TAG_LENGTH {
        return Err(HandshakeError::TooLong { length: length.into() });
    }
    let mut sealed = BytesMut::zeroed(2 + usize::from(length));
    sealed[..2].copy_from_slice(&prefix);
    stream.read_exact(&mut sealed[2..]).await?;
    let mut content = BytesMut::new();
    session.open(&mut sealed, &mut content)?;
    Ok(content)
}

/// Reads one encrypted parcel, which contains the length of a message and the message.
#[cfg(feature = "security")]
pub(super) async fn read_message<M, S>(stream: &mut S, session: &mut Session) -> Result<M, HandshakeError>
where
    M: Encoding,
    S: AsyncRead + Unpin,
{
    let content = read_parcel(stream, session).await?;
    let malformed =
        || HandshakeError::Malformed("its encrypted part does not hold one whole message".to_owned());
    let (length, bytes) = content.split_first_chunk::<4>().ok_or_else(malformed)?;
    if u32::from_le_bytes(*length) as usize != bytes.len() {
        return Err(malformed());
    }
    M::decode(bytes).map_err(|error| HandshakeError::Malformed(error.to_string()))
}
