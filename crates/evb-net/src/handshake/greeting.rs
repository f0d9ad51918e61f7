//! The agreement on keys, right behind the preamble: Noise NNpsk0, with one message each way
//! (docs/reference/protocol.md SEC-2 to SEC-5).
//!
//! The pattern is NNpsk0 because all peers of a system share one key and have none of their own.
//! The key is mixed in before anything else, so that a peer without it is refused after its first
//! message, at the cost of a few hashes. Ephemeral keys make recorded bytes useless to an attacker
//! who learns the key later. The first message can be replayed, so it carries nothing, and a peer
//! that connects is believed only when its `Hello` comes, sealed with what both sides contributed.

#[cfg(test)]
mod tests;

use evb_core::wire::{
    control::{HelloReply, Reply},
    preamble::{ConnectionKind, Spoken, check_preamble},
};
use snow::{Builder, HandshakeState};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};

use super::{
    HandshakeError, protected, read_message, read_preamble,
    sealed::{AGREEMENT, read_agreement},
};
use crate::security::{Forged, PresharedKey, Session};

const NOISE: &str = "Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s";

/// Creates the state of a key agreement, whose prologue binds it to the kind of the connection.
fn state(
    key: &PresharedKey,
    kind: ConnectionKind,
    is_initiator: bool,
) -> Result<HandshakeState, HandshakeError> {
    let preamble = protected(kind);
    let build = || {
        let builder = Builder::new(NOISE.parse()?).prologue(&preamble)?.psk(0, key.bytes())?;
        if is_initiator { builder.build_initiator() } else { builder.build_responder() }
    };
    build().map_err(HandshakeError::Cipher)
}

/// Agrees on keys as the connecting side.
pub(crate) async fn connect<S>(
    stream: &mut S,
    kind: ConnectionKind,
    key: &PresharedKey,
) -> Result<Session, HandshakeError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut noise = state(key, kind, true)?;
    let mut bytes = protected(kind).to_vec();
    say(&mut noise, &mut bytes)?;
    stream.write_all(&bytes).await?;
    if check_preamble(read_preamble(stream).await?, kind)? == Spoken::Clear {
        // An unencrypted answer comes from a peer that has not proved that it has the key, so only
        // a refusal is accepted from such a peer.
        return Err(match read_message::<HelloReply, _>(stream).await?.reply {
            Some(Reply::Refusal(refusal)) => HandshakeError::Unauthenticated(refusal),
            _ => HandshakeError::UnexpectedClear,
        });
    }
    hear(&mut noise, read_agreement(stream).await?).map_err(|Forged| HandshakeError::WrongKey)?;
    Ok(Session::after(noise)?)
}

/// Agrees on keys as the accepting side, which has read the peer's preamble.
pub(crate) async fn accept<S>(
    stream: &mut S,
    kind: ConnectionKind,
    key: &PresharedKey,
) -> Result<Session, HandshakeError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut noise = state(key, kind, false)?;
    hear(&mut noise, read_agreement(stream).await?).map_err(|Forged| HandshakeError::WrongKey)?;
    let mut bytes = protected(kind).to_vec();
    say(&mut noise, &mut bytes)?;
    stream.write_all(&bytes).await?;
    Ok(Session::after(noise)?)
}

/// Appends the next message of the key agreement, with its length before it.
fn say(noise: &mut HandshakeState, bytes: &mut Vec<u8>) -> Result<(), HandshakeError> {
    let mut message = [0; AGREEMENT];
    let length = noise.write_message(&[], &mut message).map_err(HandshakeError::Cipher)?;
    debug_assert_eq!(length, AGREEMENT);
    bytes.extend_from_slice(&(AGREEMENT as u16).to_le_bytes());
    bytes.extend_from_slice(&message);
    Ok(())
}

fn hear(noise: &mut HandshakeState, message: [u8; AGREEMENT]) -> Result<(), Forged> {
    let mut nothing = [0; AGREEMENT];
    match noise.read_message(&message, &mut nothing) {
        Ok(0) => Ok(()),
        Ok(_) | Err(_) => Err(Forged),
    }
}
