//! [`DatagramTags`]: the tags of one association's datagrams, in both directions
//! (docs/reference/protocol.md SEC-10 to SEC-12).

#[cfg(test)]
mod tests;

use bytes::BytesMut;
use evb_core::wire::datagram::{DATAGRAM_HEADER, DatagramHeader, DatagramKind};

use super::{
    Keys, Nonce, TAG_LENGTH, TagKey, is_equal,
    replay::{ReplayWindow, extend},
};

/// Computes and checks the tags of a lane's datagrams, and remembers the numbers of received
/// datagrams to detect replays.
#[derive(Debug)]
pub struct DatagramTags {
    ours: TagKey,
    theirs: TagKey,
    /// Approximately the highest number that was sent.
    sent: u64,
    came: ReplayWindow,
    /// Highest number of a received probe.
    probed: u32,
}

/// Reason why a received datagram is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TagFault {
    /// The datagram's tag is not the tag of a peer with the key.
    Forged,
    /// The datagram was received before, or is too old for the replay window.
    Replayed,
}

/// Class of the datagrams that share the lane's sequence of numbers, unlike probes and their
/// replies.
const COUNTED: u32 = 0;
const PROBES: u32 = 1;

impl DatagramTags {
    /// Creates the tags from the keys of a connection, for the side that the keys belong to.
    pub fn new(keys: &Keys) -> Self {
        let (ours, theirs) = (TagKey::new(&keys.datagrams_out), TagKey::new(&keys.datagrams_in));
        Self { ours, theirs, sent: 0, came: ReplayWindow::default(), probed: 0 }
    }

    /// Returns the tag of a datagram that is about to be sent.
    pub fn tag<'a>(
        &mut self,
        header: &[u8; DATAGRAM_HEADER],
        body: impl IntoIterator<Item = &'a [u8]>,
    ) -> [u8; TAG_LENGTH] {
        let (is_probe, sequence) = DatagramHeader::number(header);
        let number = if is_probe { sequence.into() } else { extend(sequence, self.sent) };
        if !is_probe {
            self.sent = self.sent.max(number);
        }
        let mut tagging = self.ours.begin(nonce(number, is_probe));
        tagging.update(header);
        body.into_iter().for_each(|piece| tagging.update(piece));
        tagging.finish()
    }

    /// Sets the checksum in `datagram` to zero, and appends the datagram's tag.
    pub fn append(&mut self, datagram: &mut BytesMut) {
        DatagramHeader::blank_checksum(datagram);
        if let Some((header, body)) = datagram.split_first_chunk() {
            let tag = self.tag(header, [body]);
            datagram.extend_from_slice(&tag);
        }
    }

    /// Checks a received datagram, and remembers its number.
    ///
    /// # Errors
    /// Returns a [`TagFault`]; the datagram must be dropped.
    pub fn check(
        &mut self,
        header: &DatagramHeader,
        datagram: &[u8],
        tag: &[u8; TAG_LENGTH],
    ) -> Result<(), TagFault> {
        let is_probe = matches!(header.kind, DatagramKind::Probe | DatagramKind::ProbeReply);
        let number =
            if is_probe { header.sequence.into() } else { extend(header.sequence, self.came.highest()) };
        if !is_equal(&self.theirs.tag(nonce(number, is_probe), [datagram]), tag) {
            return Err(TagFault::Forged);
        }
        match header.kind {
            // A reply to a probe may arrive twice, because the copies have the same content.
            DatagramKind::ProbeReply => Ok(()),
            DatagramKind::Probe if header.sequence <= self.probed => Err(TagFault::Replayed),
            DatagramKind::Probe => {
                self.probed = header.sequence;
                Ok(())
            }
            _ if !self.came.is_new(number) => Err(TagFault::Replayed),
            _ => {
                self.came.insert(number);
                Ok(())
            }
        }
    }
}

fn nonce(number: u64, is_probe: bool) -> Nonce {
    Nonce { number, class: if is_probe { PROBES } else { COUNTED } }
}
