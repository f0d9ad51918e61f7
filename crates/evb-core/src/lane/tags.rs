//! [`TagDatagrams`]: the protection of a lane's datagrams. Where the peers share a key, a tag
//! follows each datagram; otherwise, the datagram's header has a checksum.

use core::fmt;

use bytes::BytesMut;

use crate::wire::{
    datagram::{DATAGRAM_HEADER, DatagramError, DatagramHeader},
    tag::TAG_LENGTH,
};

/// Computes and checks the authentication tags of one connection's datagrams.
pub trait TagDatagrams: fmt::Debug + Send {
    /// Returns the tag of a datagram that is about to be sent.
    fn tag(&mut self, header: &[u8; DATAGRAM_HEADER], body: &[&[u8]]) -> [u8; TAG_LENGTH];

    /// Checks a received datagram, and remembers its number.
    ///
    /// # Errors
    /// Returns [`Unbelieved::Forged`], or [`Unbelieved::Replayed`] if the datagram was received
    /// before or is too old to tell; the datagram must be dropped.
    fn check(
        &mut self,
        header: &DatagramHeader,
        datagram: &[u8],
        tag: &[u8; TAG_LENGTH],
    ) -> Result<(), Unbelieved>;
}

/// The tags of a connection's datagrams; `None` if its peers share no key.
pub type Tags = Option<Box<dyn TagDatagrams>>;

/// Reason why a received datagram is ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unbelieved {
    /// The bytes are not an undamaged datagram.
    #[error(transparent)]
    Datagram(#[from] DatagramError),
    /// The datagram lacks the tag of a peer with the key.
    #[error(
        "it was not made with this system's key, or was damaged on the way, and the run goes on without it; find the program at that address that sends such packets"
    )]
    Forged,
    /// The datagram belongs to no open connection.
    #[error(
        "it belongs to no open connection, as is usual after one broke; nothing needs to be done, unless this goes on: then find the program at that address that sends it"
    )]
    Stale,
    /// The datagram arrived before.
    #[error(
        "the same packet arrived before, because the network or an attacker repeated it; this costs no data, and nothing needs to be done unless it is frequent: then look at switches on the way"
    )]
    Replayed,
}

/// The bytes around a datagram's body: its header, and its tag if the peers share a key.
#[derive(Clone, Copy, Debug)]
pub struct Envelope {
    /// Header in front of the body.
    pub header: [u8; DATAGRAM_HEADER],
    /// Tag behind the body.
    pub tag: Option<[u8; TAG_LENGTH]>,
}

impl Envelope {
    /// Returns the bytes around `body`, whose pieces follow one another.
    #[inline]
    pub fn of(header: &DatagramHeader, body: &[&[u8]], tags: &mut Tags) -> Self {
        let Some(tags) = tags else {
            return Self { header: header.seal(body.iter().copied()), tag: None };
        };
        let header = header.encode();
        let tag = tags.tag(&header, body);
        Self { header, tag: Some(tag) }
    }

    /// Replaces the checksum of a whole datagram by a tag, if the peers share a key.
    pub fn close(datagram: &mut BytesMut, tags: &mut Tags) {
        let Some(tags) = tags else { return };
        DatagramHeader::blank_checksum(datagram);
        if let Some((header, body)) = datagram.split_first_chunk() {
            let tag = tags.tag(header, &[body]);
            datagram.extend_from_slice(&tag);
        }
    }

    /// Splits a datagram into header and body. If the peers share a key, accepts only a datagram
    /// that has the right tag and has not arrived before.
    ///
    /// # Errors
    /// Returns the reason for which the datagram must be dropped.
    pub fn open<'a>(datagram: &'a [u8], tags: &mut Tags) -> Result<(DatagramHeader, &'a [u8]), Unbelieved> {
        let Some(tags) = tags else { return Ok(DatagramHeader::open(datagram)?) };
        Self::open_tagged(datagram, |_| Some(&mut **tags))
    }

    /// Does the same for a datagram with a tag; `tags_of` returns the tags of the connection to
    /// which the datagram claims to belong.
    pub(crate) fn open_tagged<'a, 't>(
        datagram: &'a [u8],
        tags_of: impl FnOnce(&DatagramHeader) -> Option<&'t mut (dyn TagDatagrams + 'static)>,
    ) -> Result<(DatagramHeader, &'a [u8]), Unbelieved> {
        let foreign = DatagramError::Foreign { length: datagram.len() };
        let (datagram, tag) = datagram.split_last_chunk().ok_or(foreign)?;
        let opened = DatagramHeader::decode(datagram)?;
        tags_of(&opened.0).ok_or(Unbelieved::Stale)?.check(&opened.0, datagram, tag)?;
        Ok(opened)
    }
}
