//! The parcels of a lane's stream: frames of length, bytes and tag. [`Sealer`] numbers and tags the
//! parcels that this side sends; [`Opener`] passes on only received parcels with the right tag in
//! the right order (docs/reference/protocol.md SEC-9).

#[cfg(test)]
mod tests;

use bytes::{Buf as _, BytesMut};

use super::{Forged, LaneKey, Nonce, TAG_LENGTH, TagKey, Tagging, is_equal};

/// Maximum number of content bytes in one parcel: 65 535 less the tag.
pub const MAX_CONTENT: usize = 65_535 - TAG_LENGTH;

/// Packs the bytes that this side sends into parcels.
#[derive(Debug)]
pub struct Sealer {
    key: TagKey,
    next: u64,
}

/// Unpacks and checks the parcels that the peer sends.
#[derive(Debug)]
pub struct Opener {
    key: TagKey,
    next: u64,
    /// Bytes that were read from the connection and not unpacked yet.
    pub sealed: BytesMut,
}

impl Sealer {
    /// Creates the state of one direction, whose first parcel has number 0.
    pub fn new(key: &LaneKey) -> Self {
        Self { key: TagKey::new(key), next: 0 }
    }

    /// Begins the tag of the next parcel.
    pub fn begin(&mut self) -> Tagging {
        let number = self.next;
        self.next += 1;
        self.key.begin(nonce(number))
    }

    /// Returns the prefix of a parcel with `content` bytes, at most [`MAX_CONTENT`].
    pub fn prefix(content: usize) -> [u8; 2] {
        ((content + TAG_LENGTH) as u16).to_le_bytes()
    }

    /// Removes up to [`MAX_CONTENT`] bytes from the front of `content`, and appends them to `into`
    /// as one parcel.
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
    /// Creates the state of one direction, whose first parcel has number 0.
    pub fn new(key: &LaneKey) -> Self {
        Self { key: TagKey::new(key), next: 0, sealed: BytesMut::new() }
    }

    /// Checks the next parcel and appends its bytes to `content`; returns false if the end of the
    /// parcel has not arrived yet.
    ///
    /// # Errors
    /// [`Forged`] if the tag is wrong; all following bytes of the connection must be rejected.
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
