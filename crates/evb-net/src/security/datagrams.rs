//! [`DatagramTags`]: the tags of one association's datagrams, in both directions
//! (docs/reference/protocol.md SEC-10 to SEC-12).

#[cfg(test)]
mod tests;

use evb_core::{
    lane::{TagDatagrams, Tags, Unbelieved},
    wire::datagram::{DATAGRAM_HEADER, DatagramHeader, DatagramKind},
};

use super::{
    Keys, Nonce, Session, TAG_LENGTH, TagKey, is_equal,
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

    /// Creates the tags of a lane's connection; `session` is what its handshake agreed on.
    pub fn of(session: Option<Session>) -> Tags {
        Some(Box::new(Self::new(session?.keys())))
    }
}

impl TagDatagrams for DatagramTags {
    /// Computes the tag of a datagram to send. Datagrams other than probes must have increasing
    /// sequence numbers.
    fn tag(&mut self, header: &[u8; DATAGRAM_HEADER], body: &[&[u8]]) -> [u8; TAG_LENGTH] {
        let (is_probe, sequence) = DatagramHeader::number(header);
        let number = if is_probe { sequence.into() } else { extend(sequence, self.sent) };
        if !is_probe {
            self.sent = self.sent.max(number);
        }
        let mut tagging = self.ours.begin(nonce(number, is_probe));
        tagging.update(header);
        body.iter().for_each(|piece| tagging.update(piece));
        tagging.finish()
    }

    /// Refuses a datagram whose tag is wrong, or whose number came before.
    fn check(
        &mut self,
        header: &DatagramHeader,
        datagram: &[u8],
        tag: &[u8; TAG_LENGTH],
    ) -> Result<(), Unbelieved> {
        let is_probe = matches!(header.kind, DatagramKind::Probe | DatagramKind::ProbeReply);
        let number =
            if is_probe { header.sequence.into() } else { extend(header.sequence, self.came.highest()) };
        if !is_equal(&self.theirs.tag(nonce(number, is_probe), [datagram]), tag) {
            return Err(Unbelieved::Forged);
        }
        match header.kind {
            // A reply to a probe may arrive twice, because the copies have the same content.
            DatagramKind::ProbeReply => Ok(()),
            DatagramKind::Probe if header.sequence <= self.probed => Err(Unbelieved::Replayed),
            DatagramKind::Probe => {
                self.probed = header.sequence;
                Ok(())
            }
            _ if !self.came.is_new(number) => Err(Unbelieved::Replayed),
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
