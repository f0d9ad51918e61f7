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

/// Datagrams taken in one turn, before timers and others have theirs: grants for the room that they
/// free must not wait for everything that a full port held.
const TURN: usize = 16;

/// Replies to probes that one turn sends; a source that gets none asks again.
const REPLIES: usize = 64;

/// Takes data and announcements of all lanes in, and sends grants and commits.
#[derive(Debug)]
pub struct BuilderDatagrams {
    socket: DatagramSocket,
    entry: Entry,
    datagram: BytesMut,
}

/// The datagram sources that are admitted.
#[derive(Debug)]
struct Entry {
    /// Source of each lane, ascending.
    sources: Vec<SourceId>,
    links: Vec<Option<Link>>,
    /// True if datagrams carry tags.
    is_protected: bool,
    replies: Vec<(SocketAddr, LaneIndex, [u8; DATAGRAM_HEADER])>,
    strangers: Strangers,
}

#[derive(Debug)]
struct Link {
    /// The connection of the handshake: its end is the association's.
    stream: TcpStream,
    /// Address that its datagrams come from.
    peer: Option<SocketAddr>,
    tags: Option<Box<DatagramTags>>,
    writes: WriteSampler,
}

/// Datagrams that belong to no lane: counted, and logged at a limited rate.
#[derive(Debug)]
struct Strangers {
    counts: DatagramReport,
    log: RefusalLog,
}

impl BuilderDatagrams {
    /// Creates the end of a bound socket. A source's position in `sources`, ascending, is its lane.
    pub fn new(mut socket: DatagramSocket, sources: Vec<SourceId>) -> Self {
        socket.sample_waits();
        let links = sources.iter().map(|_| None).collect();
        let strangers = Strangers { counts: DatagramReport::default(), log: RefusalLog::new("datagrams") };
        let entry = Entry { sources, links, is_protected: false, replies: Vec::new(), strangers };
        Self { socket, entry, datagram: BytesMut::new() }
    }

    /// A lane's handshake is over, and its association begins.
    pub fn open(&mut self, lane: LaneIndex, channel: impl Into<Channel>) {
        let (stream, session) = channel.into().into_parts();
        let tags = session.as_ref().map(Session::keys).map(|keys| Box::new(DatagramTags::new(keys)));
        self.entry.is_protected |= tags.is_some();
        self.entry.links[lane] = Some(Link { stream, peer: None, tags, writes: WriteSampler::new() });
    }

    /// A lane is over.
    pub fn close(&mut self, lane: LaneIndex) {
        self.entry.links[lane] = None;
    }

    /// Returns true if a lane is open.
    pub fn is_open(&self, lane: LaneIndex) -> bool {
        self.entry.links[lane].is_some()
    }

    /// Feeds what has come to `core`; `ended` hears of lanes that are over.
    ///
    /// # Errors
    /// The socket is broken.
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
    /// before something is declared lost.
    ///
    /// # Errors
    /// The socket is broken.
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

    /// Sends a lane's source the records that are due. One that cannot be sent is lost like any
    /// datagram, and will be repeated.
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
            tracing::warn!(%peer, %error, unsaid, "cannot send a datagram to a source");
        }
    }

    /// Returns the counts of datagrams that belong to no lane, and of those that the kernel
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
            // Who gets none asks again.
            let _ = self.socket.send_to(peer, &self.datagram);
        }
    }
}

impl Entry {
    /// Takes one datagram, or several that the kernel has merged. Consecutive ones go to the
    /// machine together.
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

    /// Opens a datagram. Where datagrams carry tags, one is believed only after its tag has been
    /// verified as that of its lane's source, and as new.
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
        // Only a source that probes changes its address: an old datagram that an attacker replays
        // does not.
        if link.peer.is_none() || header.kind == DatagramKind::Probe {
            link.peer = Some(from);
        }
        if header.kind == DatagramKind::Probe && replies.len() < REPLIES {
            let tag = if link.tags.is_some() { TAG_LENGTH } else { 0 };
            let length = (DATAGRAM_HEADER + tag) as u64 + segments.length();
            // Where numbers make tags, a reply has the number of its probe, and no two may share
            // one.
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
            tracing::warn!(%from, error = %fault, unsaid, "dropped a datagram");
        }
    }

    fn note_stale(&mut self, from: SocketAddr, datagrams: u32) {
        self.counts.stale += u64::from(datagrams);
        if let Some(unsaid) = self.log.next_line_of(from) {
            tracing::debug!(%from, unsaid, "dropped a datagram that belongs to no lane");
        }
    }
}

/// Makes the reply, which tells the length of a probe.
fn reply(probe: &DatagramHeader, sequence: u32, length: u64) -> [u8; DATAGRAM_HEADER] {
    let header =
        DatagramHeader { kind: DatagramKind::ProbeReply, sequence, heard: 0, offset: length, ..*probe };
    header.seal([])
}
