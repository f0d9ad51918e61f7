//! [`BuilderDatagrams`]: the builder's end of all its lanes over datagrams, by one socket.

use std::{io, net::SocketAddr, task::Context};

use bytes::BytesMut;
use evb_core::{
    builder::BuilderCore,
    grant::GrantPolicy,
    id::SourceId,
    lane::DatagramFault,
    time::Instant,
    wire::{
        control::DatagramReport,
        datagram::{DATAGRAM_HEADER, DatagramError, DatagramHeader, DatagramKind},
    },
};
use tokio::net::TcpStream;

use super::poll_end;
use crate::{
    handshake::RefusalLog,
    lane::{LaneEnd, Progress},
    udp::{Buffers, DatagramSocket},
};

/// How many datagrams are taken in one turn, before timers and others have theirs.
const TURN: usize = 1024;

/// How many replies to probes one turn sends; who gets none asks again.
const REPLIES: usize = 64;

/// Takes data and announcements of all lanes in, and sends grants and commits.
#[derive(Debug)]
pub struct BuilderDatagrams {
    socket: DatagramSocket,
    door: Door,
    datagram: BytesMut,
}

/// Who may come in.
#[derive(Debug)]
struct Door {
    /// By lane, ascending.
    sources: Vec<SourceId>,
    links: Vec<Option<Link>>,
    replies: Vec<(SocketAddr, [u8; DATAGRAM_HEADER])>,
    strangers: Strangers,
}

#[derive(Debug)]
struct Link {
    /// The connection of the handshake: its end is the association's.
    stream: TcpStream,
    /// Where its datagrams come from.
    peer: Option<SocketAddr>,
}

/// Datagrams that are nobody's: counted, and said at a limited rate.
#[derive(Debug)]
struct Strangers {
    counts: DatagramReport,
    log: RefusalLog,
}

impl BuilderDatagrams {
    /// For a bound socket and the run's sources, ascending: a source's position is its lane.
    pub fn new(socket: DatagramSocket, sources: Vec<SourceId>) -> Self {
        let links = sources.iter().map(|_| None).collect();
        let strangers = Strangers { counts: DatagramReport::default(), log: RefusalLog::new("datagrams") };
        let door = Door { sources, links, replies: Vec::new(), strangers };
        Self { socket, door, datagram: BytesMut::new() }
    }

    /// A lane's handshake is over, and its association begins.
    pub fn open(&mut self, lane: usize, stream: TcpStream) {
        self.door.links[lane] = Some(Link { stream, peer: None });
    }

    /// A lane is over.
    pub fn close(&mut self, lane: usize) {
        self.door.links[lane] = None;
    }

    /// Whether a lane is open.
    pub fn is_open(&self, lane: usize) -> bool {
        self.door.links[lane].is_some()
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
        mut ended: impl FnMut(usize, LaneEnd),
    ) -> io::Result<Progress> {
        let Self { socket, door, .. } = self;
        let progress =
            socket.poll_recv(cx, TURN, |from, bytes| door.take(from, bytes, core, now, &mut ended))?;
        self.reply();
        for (lane, link) in self.door.links.iter_mut().enumerate() {
            if let Some(Err(end)) = link.as_mut().map(|link| poll_end(&mut link.stream, cx)) {
                ended(lane, end);
            }
        }
        Ok(progress)
    }

    /// The same, of all that has come by now, whether the task has been told or not: before something is declared lost.
    ///
    /// # Errors
    /// The socket is broken.
    pub fn recv<P: GrantPolicy>(
        &mut self,
        core: &mut BuilderCore<P>,
        now: Instant,
        mut ended: impl FnMut(usize, LaneEnd),
    ) -> io::Result<Progress> {
        let Self { socket, door, .. } = self;
        let progress = socket.recv(TURN, |from, bytes| door.take(from, bytes, core, now, &mut ended))?;
        self.reply();
        Ok(progress)
    }

    /// Sends a lane's source what it is to know. What cannot be sent is lost like any datagram, and will be said again.
    pub fn send<P: GrantPolicy>(&mut self, core: &mut BuilderCore<P>, lane: usize, now: Instant) {
        self.datagram.clear();
        core.write_datagram(lane, now, &mut self.datagram);
        let peer = self.door.links[lane].as_ref().and_then(|link| link.peer);
        if let Some(peer) = peer.filter(|_| !self.datagram.is_empty())
            && let Err(error) = self.socket.send_to(peer, &self.datagram)
            && let Some(unsaid) = self.door.strangers.log.next_line()
        {
            tracing::warn!(%peer, %error, unsaid, "a datagram to a source cannot be sent");
        }
    }

    /// What came that was nobody's, and what the kernel dropped.
    pub fn report(&mut self) -> DatagramReport {
        let receive_drops = self.socket.receive_drops().unwrap_or_default();
        DatagramReport { receive_drops, ..self.door.strangers.counts }
    }

    /// What the socket's buffers hold.
    pub fn buffers(&self) -> Buffers {
        self.socket.buffers()
    }

    fn reply(&mut self) {
        for (peer, reply) in self.door.replies.drain(..) {
            // Who gets none asks again.
            let _ = self.socket.send_to(peer, &reply);
        }
    }
}

impl Door {
    /// A datagram came.
    fn take<P: GrantPolicy>(
        &mut self,
        from: SocketAddr,
        bytes: &[u8],
        core: &mut BuilderCore<P>,
        now: Instant,
        ended: &mut impl FnMut(usize, LaneEnd),
    ) {
        let Self { sources, links, replies, strangers } = self;
        let (header, body) = match DatagramHeader::open(bytes) {
            Ok(opened) => opened,
            Err(error) => return strangers.note(from, &error),
        };
        let known = sources.binary_search(&header.association.source).ok();
        let known = known.filter(|lane| core.association(*lane) == Some(header.association));
        let Some((lane, link)) = known.and_then(|lane| Some((lane, links[lane].as_mut()?))) else {
            return strangers.note_stale(from);
        };
        // Only who looks for a path moves: an old datagram that somebody replays does not.
        if link.peer.is_none() || header.kind == DatagramKind::Probe {
            link.peer = Some(from);
        }
        if header.kind == DatagramKind::Probe && replies.len() < REPLIES {
            replies.push((from, reply(&header, bytes.len())));
        }
        match core.handle_datagram(lane, &header, body, now) {
            Ok(()) => {}
            Err(DatagramFault::Stale) => strangers.note_stale(from),
            Err(fault) => ended(lane, fault.into()),
        }
    }
}

impl Strangers {
    fn note(&mut self, from: SocketAddr, error: &DatagramError) {
        match error {
            DatagramError::Checksum => self.counts.damaged += 1,
            DatagramError::Foreign { .. } | DatagramError::Version(_) => self.counts.foreign += 1,
        }
        if let Some(unsaid) = self.log.next_line() {
            tracing::warn!(%from, %error, unsaid, "datagrams are dropped");
        }
    }

    fn note_stale(&mut self, from: SocketAddr) {
        self.counts.stale += 1;
        if let Some(unsaid) = self.log.next_line() {
            tracing::debug!(%from, unsaid, "datagrams of no lane of ours are dropped");
        }
    }
}

/// Says how long a probe was.
fn reply(probe: &DatagramHeader, length: usize) -> [u8; DATAGRAM_HEADER] {
    let header = DatagramHeader {
        kind: DatagramKind::ProbeReply,
        sequence: 0,
        heard: 0,
        offset: length as u64,
        ..*probe
    };
    header.seal([])
}
