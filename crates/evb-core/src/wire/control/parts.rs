//! A limit on the parts of a message, checked before it is read: a part of two bytes becomes a
//! structure of up to 150.

use bytes::Buf as _;
use prost::{
    DecodeError,
    encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field},
};

use super::{Control, MAX_BUILDERS, MAX_EXCEPTIONS, MalformedMessage};
use crate::{set::MAX_SOURCES, wire::encoding::Encoding as _};

/// The fields of a `Control` that repeat messages: their tags in `proto/control.proto` from the
/// outermost in, their limits, and the messages' names.
const LIMITS: [(&[u32], usize, &str); 4] = [
    (&[1, 4], MAX_BUILDERS, "Roster"),
    (&[4, 2], MAX_EXCEPTIONS, "Completions"),
    (&[8, 2, 7], MAX_SOURCES, "Report"),
    // One more holds the events that no builder has.
    (&[14, 2], MAX_BUILDERS + 1, "Holdings"),
];

/// The reason why a control message was not read: the peer's fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnreadableMessage {
    /// The bytes are not a control message (docs/reference/protocol.md CTRL-3).
    #[error("the peer sent bytes that are not a control message: {0}")]
    Form(#[from] DecodeError),
    /// The message would take too much memory (docs/reference/protocol.md CTRL-10).
    #[error(transparent)]
    Parts(#[from] MalformedMessage),
}

impl Control {
    /// Reads a message without its length. Its memory is bounded by its own bytes: at most 8 times
    /// as much for numbers, and a bounded number of parts.
    ///
    /// # Errors
    /// [`UnreadableMessage`].
    pub fn read(bytes: &[u8]) -> Result<Self, UnreadableMessage> {
        for (path, most, message) in LIMITS {
            if count(bytes, path)? > most {
                return Err(
                    MalformedMessage { message, problem: "it has more parts than any run needs" }.into()
                );
            }
        }
        Ok(Self::decode(bytes)?)
    }
}

/// Counts the field at the end of that path. Repeated fields are merged, so all of them count.
fn count(mut bytes: &[u8], path: &[u32]) -> Result<usize, DecodeError> {
    let Some((field, below)) = path.split_first() else { return Ok(1) };
    let mut found = 0;
    while bytes.has_remaining() {
        let (tag, wire) = decode_key(&mut bytes)?;
        if tag != *field || wire != WireType::LengthDelimited {
            skip_field(wire, tag, &mut bytes, DecodeContext::default())?;
            continue;
        }
        let length = decode_varint(&mut bytes)?;
        // A truncated field is for the decoder to refuse.
        let part = bytes.split_at_checked(length.try_into().unwrap_or(usize::MAX));
        let Some((part, rest)) = part else { return Ok(found) };
        found += count(part, below)?;
        bytes = rest;
    }
    Ok(found)
}

#[cfg(test)]
mod tests;
