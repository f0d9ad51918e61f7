//! [`DatagramEnds`]: the builder's ends of all its lanes over datagrams.

#[cfg(test)]
mod tests;

use bytes::BytesMut;

use super::{BuilderCore, Segments};
use crate::{
    grant::GrantPolicy,
    id::SourceId,
    index::LaneIndex,
    lane::{DatagramFault, Envelope, Tags, Unbelieved},
    time::Instant,
    wire::{
        control::DatagramReport,
        datagram::{Association, DATAGRAM_HEADER, DatagramError, DatagramHeader, DatagramKind},
        tag::TAG_LENGTH,
    },
};

/// Maximum number of replies to probes that wait to be sent; a source that gets no reply repeats
/// its probe.
const REPLIES: usize = 64;

/// Builder's ends of all its lanes over datagrams, which arrive at one socket. `A` is the type of
/// the addresses from which datagrams come.
#[derive(Debug)]
pub struct DatagramEnds<A> {
    /// Source of each lane, ascending.
    sources: Vec<SourceId>,
    lanes: Vec<Option<DatagramLane<A>>>,
    /// True if datagrams carry tags.
    is_protected: bool,
    replies: Vec<(A, BytesMut)>,
    counts: DatagramReport,
}

/// An open lane.
#[derive(Debug)]
struct DatagramLane<A> {
    /// Address from which the source sends its datagrams.
    peer: Option<A>,
    tags: Tags,
}

/// News for the driver about a received datagram.
#[derive(Clone, Copy, Debug)]
pub enum Noted {
    /// A datagram was ignored, or several that arrived together.
    Ignored(Unbelieved),
    /// A lane must be closed, because its source broke the protocol.
    Ended(LaneIndex, DatagramFault),
}

impl<A: Copy> DatagramEnds<A> {
    /// Creates the ends of lanes that are not open. The sources are in ascending order, and a
    /// source's position in `sources` is the index of its lane.
    pub fn new(sources: Vec<SourceId>) -> Self {
        Self {
            lanes: sources.iter().map(|_| None).collect(),
            sources,
            is_protected: false,
            replies: Vec::new(),
            counts: DatagramReport::default(),
        }
    }

    /// Opens a lane, whose handshake is complete.
    pub fn open(&mut self, lane: LaneIndex, tags: Tags) {
        self.is_protected |= tags.is_some();
        self.lanes[lane] = Some(DatagramLane { peer: None, tags });
    }

    /// Closes a lane.
    pub fn close(&mut self, lane: LaneIndex) {
        self.lanes[lane] = None;
    }

    /// Returns the counts of datagrams that were ignored.
    pub fn counts(&self) -> DatagramReport {
        self.counts
    }

    /// Passes datagrams that arrived together to `core`. Datagrams with consecutive lane bytes are
    /// passed on in one call.
    pub fn receive<'a, P: GrantPolicy>(
        &mut self,
        core: &mut BuilderCore<P>,
        from: A,
        datagrams: impl IntoIterator<Item = &'a [u8]>,
        now: Instant,
        mut note: impl FnMut(Noted),
    ) {
        let mut together: Option<Segments<'a>> = None;
        for datagram in datagrams {
            let (header, body) = match self.open_datagram(core, datagram) {
                Ok(opened) => opened,
                Err(fault) => {
                    self.ignore(fault, 1, &mut note);
                    continue;
                }
            };
            if together.as_mut().is_some_and(|segments| segments.join(&header, body)) {
                continue;
            }
            if let Some(segments) = together.replace(Segments::one(header, body)) {
                self.deliver(core, from, &segments, now, &mut note);
            }
        }
        if let Some(segments) = together {
            self.deliver(core, from, &segments, now, &mut note);
        }
    }

    /// Replaces `datagram` by the records that are due to a lane's source, and returns the source's
    /// address; `None` if there is nothing to send. If the datagram cannot be sent, it counts as
    /// lost in the network, and the records are repeated later.
    pub fn write<P: GrantPolicy>(
        &mut self,
        core: &mut BuilderCore<P>,
        lane: LaneIndex,
        now: Instant,
        datagram: &mut BytesMut,
    ) -> Option<A> {
        datagram.clear();
        core.write_datagram(lane, now, datagram);
        let DatagramLane { peer, tags } = self.lanes[lane].as_mut()?;
        let peer = peer.filter(|_| !datagram.is_empty())?;
        Envelope::close(datagram, tags);
        Some(peer)
    }

    /// Removes and returns the replies to probes, each with the address to which it goes. A reply
    /// that cannot be sent counts as lost in the network.
    pub fn take_replies(&mut self) -> impl Iterator<Item = (A, BytesMut)> {
        self.replies.drain(..)
    }

    /// Splits a datagram into header and body. If datagrams carry tags, accepts only a datagram
    /// whose tag is valid for the source of its lane and that has not arrived before.
    fn open_datagram<'a, P: GrantPolicy>(
        &mut self,
        core: &BuilderCore<P>,
        datagram: &'a [u8],
    ) -> Result<(DatagramHeader, &'a [u8]), Unbelieved> {
        if !self.is_protected {
            return Ok(DatagramHeader::open(datagram)?);
        }
        Envelope::open_tagged(datagram, |header| {
            let lane = self.lane_of(core, header.association)?;
            self.lanes[lane].as_mut()?.tags.as_deref_mut()
        })
    }

    /// Hands datagrams of one sender to the lane that their association names. Datagrams for no
    /// open lane are ignored; a probe is answered.
    fn deliver<P: GrantPolicy>(
        &mut self,
        core: &mut BuilderCore<P>,
        from: A,
        segments: &Segments<'_>,
        now: Instant,
        note: &mut impl FnMut(Noted),
    ) {
        let header = segments.header();
        let lane = self.lane_of(core, header.association);
        let Some((lane, open)) = lane.and_then(|lane| Some((lane, self.lanes[lane].as_mut()?))) else {
            return self.ignore(Unbelieved::Stale, segments.count(), note);
        };
        let is_probe = header.kind == DatagramKind::Probe;
        // Only a probe changes the recorded address of a source, so that an old datagram replayed
        // by an attacker cannot change it.
        if open.peer.is_none() || is_probe {
            open.peer = Some(from);
        }
        if is_probe && self.replies.len() < REPLIES {
            self.replies.push((from, reply(segments, &mut open.tags)));
        }
        match core.handle_datagrams(lane, segments, now) {
            Ok(()) => {}
            Err(DatagramFault::Stale) => self.ignore(Unbelieved::Stale, segments.count(), note),
            Err(fault) => note(Noted::Ended(lane, fault)),
        }
    }

    fn lane_of<P: GrantPolicy>(&self, core: &BuilderCore<P>, association: Association) -> Option<LaneIndex> {
        let lane = LaneIndex::new(self.sources.binary_search(&association.source).ok()?);
        (core.association(lane) == Some(association)).then_some(lane)
    }

    /// Counts datagrams that are ignored by their fault, and notes the fault for the log.
    fn ignore(&mut self, fault: Unbelieved, datagrams: u32, note: &mut impl FnMut(Noted)) {
        let count = match fault {
            Unbelieved::Datagram(DatagramError::Checksum) => &mut self.counts.damaged,
            Unbelieved::Datagram(_) => &mut self.counts.foreign,
            Unbelieved::Forged => &mut self.counts.forged,
            Unbelieved::Replayed => &mut self.counts.replayed,
            Unbelieved::Stale => &mut self.counts.stale,
        };
        *count += u64::from(datagrams);
        note(Noted::Ignored(fault));
    }
}

/// Returns the reply to a probe, which contains the probe's length.
fn reply(probe: &Segments<'_>, tags: &mut Tags) -> BytesMut {
    let tag = if tags.is_some() { TAG_LENGTH } else { 0 };
    let offset = (DATAGRAM_HEADER + tag) as u64 + probe.length();
    // Tags are computed from sequence numbers, so a reply with a tag takes the number of its probe,
    // and no two replies may have the same number.
    let sequence = if tags.is_some() { probe.header().sequence } else { 0 };
    let header =
        DatagramHeader { kind: DatagramKind::ProbeReply, sequence, heard: 0, offset, ..*probe.header() };
    let mut reply = BytesMut::from(&header.seal([])[..]);
    Envelope::close(&mut reply, tags);
    reply
}
