//! [`BuilderDatagrams`]: the builder's end of all its lanes over datagrams, by one socket.

use std::{io, net::SocketAddr, task::Context};

use bytes::BytesMut;
use evb_core::{
    builder::{BuilderCore, Segments},
    grant::GrantPolicy,
    id::SourceId,
    index::LaneIndex,
    lane::DatagramFault,
    time::Instant,
    wire::{
        control::DatagramReport,
        datagram::{DATAGRAM_HEADER, DatagramError, DatagramHeader, DatagramKind},
    },
};
use tokio::net::TcpStream;

use super::{Unbelieved, poll_end, split};
use crate::{
    handshake::{Channel, RefusalLog},
    lane::{LaneEnd, Progress, write_sampler::WriteSampler},
    security::{DatagramTags, Session, TAG_LENGTH},
    udp::{DatagramSocket, Run},
};

/// Maximum number of datagrams that are processed before timers and other tasks have their turn:
/// grants for buffer space that became free must not wait for the whole backlog of a full port.
const TURN: usize = 16;

/// Maximum number of replies to probes in one turn; a source that gets no reply repeats its probe.
const REPLIES: usize = 64;

/// Builder's end of all its lanes over datagrams: receives data and announcements, and sends grants
/// and commits.
#[derive(Debug)]
pub struct BuilderDatagrams {
    socket: DatagramSocket,
    entry: AdmittedSource,
    datagram: BytesMut,
}

/// The sources that are admitted to send datagrams, and the state of their lanes.
#[derive(Debug)]
struct AdmittedSource {
    /// Source of each lane, ascending.
    sources: Vec<SourceId>,
    links: Vec<Option<DatagramLane>>,
    /// True if datagrams carry tags.
    is_protected: bool,
    replies: Vec<(SocketAddr, LaneIndex, [u8; DATAGRAM_HEADER])>,
    strangers: Strangers,
}

#[derive(Debug)]
struct DatagramLane {
    /// TCP connection of the handshake, whose end is the end of the association.
    stream: TcpStream,
    /// Address from which the source sends its datagrams.
    peer: Option<SocketAddr>,
    tags: Option<Box<DatagramTags>>,
    writes: WriteSampler,
}

/// Counts, and logs at a limited rate, rejected datagrams and datagrams that belong to no lane.
#[derive(Debug)]
struct Strangers {
    counts: DatagramReport,
    log: RefusalLog,
}

impl BuilderDatagrams {
    /// Creates the builder's end on a bound socket. The sources are in ascending order, and a
    /// source's position in `sources` is the index of its lane.
    pub fn new(mut socket: DatagramSocket, sources: Vec<SourceId>) -> Self {
        socket.sample_waits();
        let links = sources.iter().map(|_| None).collect();
        let strangers = Strangers { counts: DatagramReport::default(), log: RefusalLog::new("the builder") };
        let entry = AdmittedSource { sources, links, is_protected: false, replies: Vec::new(), strangers };
        Self { socket, entry, datagram: BytesMut::new() }
    }

    /// Begins the association of a lane, whose handshake is complete.
    pub fn open(&mut self, lane: LaneIndex, channel: impl Into<Channel>) {
        let (stream, session) = channel.into().into_parts();
        let tags = session.as_ref().map(Session::keys).map(|keys| Box::new(DatagramTags::new(keys)));
        self.entry.is_protected |= tags.is_some();
        self.entry.links[lane] = Some(DatagramLane { stream, peer: None, tags, writes: WriteSampler::new() });
    }

    /// Ends the association of a lane.
    pub fn close(&mut self, lane: LaneIndex) {
        self.entry.links[lane] = None;
    }

    /// Returns true if a lane is open.
    pub fn is_open(&self, lane: LaneIndex) -> bool {
        self.entry.links[lane].is_some()
    }

    /// Receives datagrams and passes them to `core`; calls `ended` for each lane that has ended.
    ///
    /// # Errors
    /// An I/O error, after which the socket is unusable.
    pub fn poll_recv<P: GrantPolicy>(
        &mut self,
        cx: &mut Context<'_>,
        core: &mut BuilderCore<P>,
        now: Instant,
        mut ended: impl FnMut(LaneIndex, LaneEnd),
    ) -> io::Result<Progress> {
        let Self { socket, entry, .. } = self;
        let progress =
            socket.poll_recv(cx, TURN, |from, run| entry.take(from, run, core, now, &mut ended))?;
        self.reply();
        for (lane, link) in self.entry.links.iter_mut().enumerate() {
            if let Some(Err(end)) = link.as_mut().map(|link| poll_end(&mut link.stream, cx)) {
                ended(LaneIndex::new(lane), end);
            }
        }
        Ok(progress)
    }

    /// Receives every datagram that has arrived by now, even if the task has not been woken: used
    /// before data is declared lost.
    ///
    /// # Errors
    /// An I/O error, after which the socket is unusable.
    pub fn recv<P: GrantPolicy>(
        &mut self,
        core: &mut BuilderCore<P>,
        now: Instant,
        mut ended: impl FnMut(LaneIndex, LaneEnd),
    ) -> io::Result<Progress> {
        let Self { socket, entry, .. } = self;
        let progress = socket.recv(TURN, |from, run| entry.take(from, run, core, now, &mut ended))?;
        self.reply();
        Ok(progress)
    }

    /// Sends the records that are due to a lane's source. If their datagram cannot be sent, it
    /// counts as lost in the network, and the records are repeated later.
    pub fn send<P: GrantPolicy>(&mut self, core: &mut BuilderCore<P>, lane: LaneIndex, now: Instant) {
        self.datagram.clear();
        core.write_datagram(lane, now, &mut self.datagram);
        let Some(link) = &mut self.entry.links[lane] else { return };
        let Some(peer) = link.peer.filter(|_| !self.datagram.is_empty()) else { return };
        if let Some(tags) = &mut link.tags {
            tags.append(&mut self.datagram);
        }
        link.writes.note(core.granted(lane), now);
        let sent = self.socket.send_to(peer, &self.datagram);
        link.writes.end();
        link.writes.take().into_iter().for_each(|took| core.record_grant_write(took));
        if let Err(error) = sent
            && let Some(unsaid) = self.entry.strangers.log.next_line()
        {
            tracing::warn!(%peer, %error, unsaid, "this builder cannot send a UDP packet to the source at {peer}: {error}; check the network and the firewall of this host");
        }
    }

    /// Returns the counts of datagrams that belong to no lane, and of datagrams that the kernel
    /// dropped.
    pub fn report(&mut self) -> DatagramReport {
        let receive_drops = self.socket.receive_drops().unwrap_or_default();
        DatagramReport { receive_drops, ..self.entry.strangers.counts }
    }

    fn reply(&mut self) {
        for (peer, lane, reply) in self.entry.replies.drain(..) {
            self.datagram.clear();
            self.datagram.extend_from_slice(&reply);
            if let Some(tags) = self.entry.links[lane].as_mut().and_then(|link| link.tags.as_mut()) {
                tags.append(&mut self.datagram);
            }
            // A failure is ignored, because a source that gets no reply repeats its probe.
            let _ = self.socket.send_to(peer, &self.datagram);
        }
    }
}

impl AdmittedSource {
    /// Processes one datagram, or several that the kernel has merged. Datagrams with consecutive
    /// lane bytes are passed to the lane's state machine together.
    fn take<P: GrantPolicy>(
        &mut self,
        from: SocketAddr,
        run: Run<'_>,
        core: &mut BuilderCore<P>,
        now: Instant,
        ended: &mut impl FnMut(LaneIndex, LaneEnd),
    ) {
        run.waited().into_iter().for_each(|waited| core.record_data_wake(waited));
        let mut together: Option<Segments<'_>> = None;
        for datagram in run.datagrams() {
            let (header, body) = match self.open(datagram, core) {
                Ok(opened) => opened,
                Err(fault) => {
                    self.strangers.note(from, fault);
                    continue;
                }
            };
            if together.as_mut().is_some_and(|segments| segments.join(&header, body)) {
                continue;
            }
            if let Some(segments) = together.replace(Segments::one(header, body)) {
                self.deliver(from, &segments, core, now, ended);
            }
        }
        if let Some(segments) = together {
            self.deliver(from, &segments, core, now, ended);
        }
    }

    /// Splits a datagram into header and body. If datagrams carry tags, accepts only a datagram
    /// whose tag is valid for the source of its lane and that has not arrived before.
    fn open<'a, P: GrantPolicy>(
        &mut self,
        datagram: &'a [u8],
        core: &BuilderCore<P>,
    ) -> Result<(DatagramHeader, &'a [u8]), Unbelieved> {
        if !self.is_protected {
            return Ok(DatagramHeader::open(datagram)?);
        }
        let (datagram, tag) = split(datagram)?;
        let opened = DatagramHeader::decode(datagram)?;
        let association = opened.0.association;
        let known = self.sources.binary_search(&association.source).ok();
        let known = known.filter(|lane| core.association(LaneIndex::new(*lane)) == Some(association));
        let link = known.and_then(|lane| self.links[lane].as_mut());
        let tags = link.and_then(|link| link.tags.as_mut()).ok_or(Unbelieved::Stale)?;
        tags.check(&opened.0, datagram, tag)?;
        Ok(opened)
    }

    fn deliver<P: GrantPolicy>(
        &mut self,
        from: SocketAddr,
        segments: &Segments<'_>,
        core: &mut BuilderCore<P>,
        now: Instant,
        ended: &mut impl FnMut(LaneIndex, LaneEnd),
    ) {
        let Self { sources, links, replies, strangers, .. } = self;
        let header = segments.header();
        let known = sources.binary_search(&header.association.source).ok().map(LaneIndex::new);
        let known = known.filter(|lane| core.association(*lane) == Some(header.association));
        let Some((lane, link)) = known.and_then(|lane| Some((lane, links[lane].as_mut()?))) else {
            return strangers.note_stale(from, segments.count());
        };
        // Only a probe changes the recorded address of a source, so that an old datagram replayed
        // by an attacker cannot change it.
        if link.peer.is_none() || header.kind == DatagramKind::Probe {
            link.peer = Some(from);
        }
        if header.kind == DatagramKind::Probe && replies.len() < REPLIES {
            let tag = if link.tags.is_some() { TAG_LENGTH } else { 0 };
            let length = (DATAGRAM_HEADER + tag) as u64 + segments.length();
            // Tags are computed from sequence numbers, so a reply with a tag takes the number of
            // its probe, and no two replies may have the same number.
            let sequence = if link.tags.is_some() { header.sequence } else { 0 };
            replies.push((from, lane, reply(header, sequence, length)));
        }
        match core.handle_datagrams(lane, segments, now) {
            Ok(()) => {}
            Err(DatagramFault::Stale) => strangers.note_stale(from, segments.count()),
            Err(fault) => ended(lane, fault.into()),
        }
    }
}

impl Strangers {
    fn note(&mut self, from: SocketAddr, fault: Unbelieved) {
        match fault {
            Unbelieved::Datagram(DatagramError::Checksum) => self.counts.damaged += 1,
            Unbelieved::Datagram(DatagramError::Foreign { .. } | DatagramError::Version(_)) => {
                self.counts.foreign += 1;
            }
            Unbelieved::Forged => self.counts.forged += 1,
            Unbelieved::Replayed => self.counts.replayed += 1,
            Unbelieved::Stale => return self.note_stale(from, 1),
        }
        if let Some(unsaid) = self.log.next_line_of(from) {
            tracing::warn!(%from, error = %fault, unsaid, "this builder ignored a UDP packet from {from}: {fault}");
        }
    }

    fn note_stale(&mut self, from: SocketAddr, datagrams: u32) {
        self.counts.stale += u64::from(datagrams);
        if let Some(unsaid) = self.log.next_line_of(from) {
            tracing::debug!(%from, unsaid, "ignored a datagram from {from}, which belongs to no lane");
        }
    }
}

/// Builds the reply to a probe, which contains the probe's length.
fn reply(probe: &DatagramHeader, sequence: u32, length: u64) -> [u8; DATAGRAM_HEADER] {
    let header =
        DatagramHeader { kind: DatagramKind::ProbeReply, sequence, heard: 0, offset: length, ..*probe };
    header.seal([])
}
