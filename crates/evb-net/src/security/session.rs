//! [`Session`]: the keys and ciphers of two peers after their agreement on keys.

#[cfg(test)]
mod tests;

use std::fmt;

use blake2::{Blake2sMac256, digest::Mac as _};
use bytes::{Buf as _, BytesMut};
use evb_core::wire::encoding::Encoding;
use snow::{HandshakeState, TransportState};
use zeroize::Zeroizing;

use super::{CipherError, Forged, Keys, LaneKey, TAG_LENGTH, parcel::MAX_CONTENT};

/// Label from which the keys of a lane's stream are derived (docs/reference/protocol.md SEC-8).
const STREAM: &[u8] = b"evb 3 lane stream";
const DATAGRAMS: &[u8] = b"evb 3 lane datagrams";

/// State of a connection after the agreement on keys: encrypts and decrypts the messages of a
/// control connection, and holds the keys of a lane.
pub struct Session {
    transport: TransportState,
    keys: Keys,
}

impl Session {
    /// Creates the session after the last message of the handshake.
    pub(crate) fn after(mut noise: HandshakeState) -> Result<Self, CipherError> {
        let (first, second) = noise.dangerously_get_raw_split();
        let (first, second) = (Zeroizing::new(first), Zeroizing::new(second));
        let (ours, theirs) = if noise.is_initiator() { (&first, &second) } else { (&second, &first) };
        let keys = Keys {
            stream_out: derive(ours, STREAM),
            stream_in: derive(theirs, STREAM),
            datagrams_out: derive(ours, DATAGRAMS),
            datagrams_in: derive(theirs, DATAGRAMS),
        };
        let transport = noise.into_transport_mode()?;
        Ok(Self { transport, keys })
    }

    /// Returns the keys of the connection's lane.
    pub fn keys(&self) -> &Keys {
        &self.keys
    }

    /// Encrypts the length of a message and the message, as one parcel.
    ///
    /// # Errors
    /// Fails if the encryption fails.
    pub(crate) fn message(&mut self, message: &impl Encoding) -> Result<Vec<u8>, CipherError> {
        let mut content = BytesMut::new();
        message.encode_framed(&mut content);
        let mut sealed = BytesMut::new();
        self.seal(&mut content, &mut sealed)?;
        Ok(sealed.into())
    }

    /// Removes up to [`MAX_CONTENT`] bytes from the front of `content`, encrypts them, and appends
    /// them to `into` as one parcel (docs/reference/protocol.md SEC-6).
    ///
    /// # Errors
    /// Fails if the cipher's numbers are used up, after 2⁶⁴ parcels.
    pub fn seal(&mut self, content: &mut BytesMut, into: &mut BytesMut) -> Result<(), CipherError> {
        let part = &content[..content.len().min(MAX_CONTENT)];
        let (start, length) = (into.len(), part.len() + TAG_LENGTH);
        into.extend_from_slice(&(length as u16).to_le_bytes());
        into.resize(start + 2 + length, 0);
        let written = self.transport.write_message(part, &mut into[start + 2..])?;
        debug_assert_eq!(written, length);
        let taken = part.len();
        content.advance(taken);
        Ok(())
    }

    /// Removes one parcel from the front of `sealed`, and appends its decrypted content to `into`;
    /// returns false if the end of the parcel has not arrived yet.
    ///
    /// # Errors
    /// [`Forged`] if the parcel fails authentication; no later parcel can be decrypted.
    pub fn open(&mut self, sealed: &mut BytesMut, into: &mut BytesMut) -> Result<bool, Forged> {
        let Some((prefix, rest)) = sealed.split_first_chunk::<2>() else { return Ok(false) };
        let length = usize::from(u16::from_le_bytes(*prefix));
        let room = length.checked_sub(TAG_LENGTH).filter(|room| *room > 0).ok_or(Forged)?;
        let Some(parcel) = rest.get(..length) else { return Ok(false) };
        let start = into.len();
        into.resize(start + room, 0);
        let opened = self.transport.read_message(parcel, &mut into[start..]);
        if opened.ok() != Some(room) {
            into.truncate(start);
            return Err(Forged);
        }
        sealed.advance(2 + length);
        Ok(true)
    }
}

/// Derives a key for one use: keyed BLAKE2s (RFC 7693 §2.9) of the label `usage`.
fn derive(key: &[u8; 32], usage: &[u8]) -> LaneKey {
    let mut hash = Blake2sMac256::new(key.into());
    hash.update(usage);
    Zeroizing::new(hash.finalize().into_bytes().into())
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Session(…)")
    }
}
