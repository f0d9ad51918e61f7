//! The parcels of a lane's stream: length, bytes, tag. [`Sealer`] numbers and tags those that
//! leave; [`Opener`] passes on only those that come with the right tag in the right place
//! (docs/reference/protocol.md SEC-9).

#[cfg(test)]
mod tests;

use bytes::{Buf as _, BytesMut};

use super::{Forged, LaneKey, Nonce, TAG_LENGTH, TagKey, Tagging, is_equal};

/// Length and tag: what a parcel takes beside its bytes.
pub const PARCEL_OVERHEAD: usize = 2 + TAG_LENGTH;

/// The most bytes in one parcel: with the tag, 65 535.
pub const MAX_CONTENT: usize = 65_535 - TAG_LENGTH;

/// Makes parcels of what this side sends.
#[derive(Debug)]
pub struct Sealer {
    key: TagKey,
    next: u64,
}

/// Takes parcels of what the peer sends.
#[derive(Debug)]
pub struct Opener {
    key: TagKey,
    next: u64,
    /// Bytes that were read.
    pub sealed: BytesMut,
}

impl Sealer {
    /// The first parcel is number 0.
    pub fn new(key: &LaneKey) -> Self {
        Self { key: TagKey::new(key), next: 0 }
    }

    /// Begins the next parcel's tag.
    pub fn begin(&mut self) -> Tagging {
        let number = self.next;
        self.next += 1;
        self.key.begin(nonce(number))
    }

    /// Returns the prefix of a parcel of that many bytes, at most [`MAX_CONTENT`].
    pub fn prefix(content: usize) -> [u8; 2] {
        ((content + TAG_LENGTH) as u16).to_le_bytes()
    }

    /// Appends the front of `content` as one parcel.
    pub fn seal(&mut self, content: &mut BytesMut, into: &mut BytesMut) {
        let part = &content[..content.len().min(MAX_CONTENT)];
        let mut tagging = self.begin();
        tagging.update(part);
        into.extend_from_slice(&Self::prefix(part.len()));
        into.extend_from_slice(part);
        into.extend_from_slice(&tagging.finish());
        let taken = part.len();
        content.advance(taken);
    }
}

impl Opener {
    /// The first parcel is number 0.
    pub fn new(key: &LaneKey) -> Self {
        Self { key: TagKey::new(key), next: 0, sealed: BytesMut::new() }
    }

    /// Moves what the next parcel brings behind `content`; false if its end is not here yet.
    ///
    /// # Errors
    /// [`Forged`]: nothing behind it is to be believed.
    pub fn open(&mut self, content: &mut BytesMut) -> Result<bool, Forged> {
        let Some((prefix, rest)) = self.sealed.split_first_chunk::<2>() else { return Ok(false) };
        let length = usize::from(u16::from_le_bytes(*prefix));
        let Some((bytes, tag)) = rest.get(..length).and_then(<[u8]>::split_last_chunk::<TAG_LENGTH>) else {
            return if length <= TAG_LENGTH { Err(Forged) } else { Ok(false) };
        };
        if bytes.is_empty() || !is_equal(&self.key.tag(nonce(self.next), [bytes]), tag) {
            return Err(Forged);
        }
        self.next += 1;
        let mut parcel = self.sealed.split_to(2 + length);
        parcel.advance(2);
        parcel.truncate(length - TAG_LENGTH);
        if content.is_empty() {
            *content = parcel;
        } else {
            content.extend_from_slice(&parcel);
        }
        Ok(true)
    }
}

fn nonce(number: u64) -> Nonce {
    Nonce { number, class: 0 }
}
