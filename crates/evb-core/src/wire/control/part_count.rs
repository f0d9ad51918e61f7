//! A limit on the number of parts in a message, checked before the message is decoded: a part that
//! takes two bytes on the wire becomes a structure of up to 150 bytes in memory.

use bytes::Buf as _;
use prost::{
    DecodeError,
    encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field},
};

use super::{
    Control, MAX_BATCH, MAX_BUILDERS, MAX_CHANGES, MAX_EPISODES, MAX_EXCEPTIONS, MAX_FILES, MAX_PATHS,
    MalformedMessage,
};
use crate::{set::MAX_SOURCES, wire::encoding::Encoding as _};

/// The fields of a `Control` that repeat a message, each by its path of tags in
/// `proto/control.proto` from the outermost, with the limit of their number and the name of the
/// control message.
const LIMITS: [(&[u32], usize, &str); 15] = [
    (&[1, 4], MAX_BUILDERS, "Roster"),
    (&[4, 2], MAX_EXCEPTIONS, "Completions"),
    (&[4, 4], MAX_BATCH as usize, "Completions"),
    (&[8, 1, 23], MAX_PATHS, "Report"),
    (&[8, 2, 7], MAX_SOURCES, "Report"),
    (&[8, 2, 25, 2], MAX_FILES, "Report"),
    // One more entry contains the events that have no builder yet.
    (&[14, 2], MAX_BUILDERS + 1, "Holdings"),
    (&[15, 8], MAX_SOURCES, "Begin"),
    (&[15, 9], MAX_BUILDERS, "Begin"),
    (&[15, 10], MAX_SOURCES, "Begin"),
    (&[15, 13, 4], MAX_SOURCES, "Begin"),
    (&[19, 1], MAX_SOURCES, "AlignmentReport"),
    (&[19, 3, 4], MAX_SOURCES, "AlignmentReport"),
    (&[23, 1], MAX_EPISODES, "Episodes"),
    (&[24, 1], MAX_CHANGES, "Changes"),
];

/// Reason why a control message was not decoded. The peer is at fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnreadableMessage {
    /// The bytes are not a control message (docs/reference/protocol.md CTRL-3).
    #[error("it sent bytes that are not a control message of evb: {0}")]
    Form(#[from] DecodeError),
    /// The message would take too much memory (docs/reference/protocol.md CTRL-10).
    #[error(transparent)]
    Parts(#[from] MalformedMessage),
}

impl Control {
    /// Decodes a message that comes without its length. The memory of the result is limited:
    /// numbers take at most 8 times as much as on the wire, and the number of parts has a limit.
    ///
    /// # Errors
    /// Returns [`UnreadableMessage`] if the bytes are not a control message, or would take too much
    /// memory.
    pub fn read(bytes: &[u8]) -> Result<Self, UnreadableMessage> {
        for (path, most, message) in LIMITS {
            if count(bytes, path)? > most {
                return Err(MalformedMessage {
                    message,
                    problem: "it has more entries than any run needs, as the message of another release may",
                }
                .into());
            }
        }
        Ok(Self::decode(bytes)?)
    }
}

/// Counts the occurrences of the field at the end of that path. The decoder merges fields that are
/// repeated, so the occurrences in all of them are added.
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
        // The decoder refuses a truncated field later, so this function reports no error.
        let part = bytes.split_at_checked(length.try_into().unwrap_or(usize::MAX));
        let Some((part, rest)) = part else { return Ok(found) };
        found += count(part, below)?;
        bytes = rest;
    }
    Ok(found)
}

#[cfg(test)]
mod tests;
