//! Encoding and decoding of greetings. In each direction, a greeting is a preamble, the length of
//! one message, and the message.

use bytes::{Buf as _, BytesMut};
use evb_core::wire::encoding::Encoding;
use evb_core::wire::{
    control::{HelloReply, Refusal, Reply, Welcome},
    preamble::{PREAMBLE_LENGTH, check_preamble, preamble},
};

use super::network::ConnectionKind;

impl ConnectionKind {
    const fn on_the_wire(self) -> evb_core::wire::preamble::ConnectionKind {
        match self {
            Self::Control => evb_core::wire::preamble::ConnectionKind::Control,
            Self::Lane => evb_core::wire::preamble::ConnectionKind::Lane,
        }
    }
}

/// Appends the bytes of a greeting.
pub(crate) fn write_greeting(kind: ConnectionKind, message: &impl Encoding, into: &mut BytesMut) {
    into.extend_from_slice(&preamble(kind.on_the_wire()));
    message.encode_framed(into);
}

/// Removes a greeting from the received bytes and returns its message, once the greeting is
/// complete.
///
/// # Errors
/// Returns a description of the error in the bytes.
pub(crate) fn read_greeting<M: Encoding>(
    kind: ConnectionKind,
    from: &mut BytesMut,
) -> Result<Option<M>, String> {
    let Some((head, rest)) = from.split_first_chunk::<PREAMBLE_LENGTH>() else { return Ok(None) };
    check_preamble(*head, kind.on_the_wire()).map_err(|error| error.to_string())?;
    let Some((length, rest)) = rest.split_first_chunk() else { return Ok(None) };
    let length = u32::from_le_bytes(*length) as usize;
    let Some(body) = rest.get(..length) else { return Ok(None) };
    let message = M::decode(body).map_err(|error| error.to_string())?;
    from.advance(PREAMBLE_LENGTH + 4 + length);
    Ok(Some(message))
}

/// Returns an answer that accepts a peer.
pub(crate) fn welcomed(welcome: Welcome) -> HelloReply {
    HelloReply { reply: Some(Reply::Welcome(welcome)) }
}

/// Returns an answer that refuses a peer.
pub(crate) fn refused(refusal: Refusal) -> HelloReply {
    HelloReply { reply: Some(Reply::Refusal(refusal)) }
}
