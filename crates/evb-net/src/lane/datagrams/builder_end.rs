//! [`BuilderDatagrams`]: the builder's end of all its lanes over datagrams, by one socket.

use std::{io, net::SocketAddr, task::Context};

use bytes::BytesMut;
use evb_core::{
    builder::{BuilderCore, DatagramEnds, Noted},
    grant::GrantPolicy,
    id::SourceId,
    index::LaneIndex,
    lane::Unbelieved,
    time::Instant,
    wire::control::DatagramReport,
};
use tokio::net::TcpStream;

use super::poll_end;
use crate::{
    handshake::{Channel, RefusalLog},
    lane::{LaneEnd, Progress, write_sampler::WriteSampler},
    security::DatagramTags,
    udp::{DatagramSocket, Run},
};

/// Maximum number of datagrams that are processed before timers and other tasks have their turn:
/// grants for buffer space that became free must not wait for the whole backlog of a full port.
const TURN: usize = 16;

/// Builder's end of all its lanes over datagrams: receives data and announcements, and sends grants
/// and commits.
#[derive(Debug)]
pub struct BuilderDatagrams {
    socket: DatagramSocket,
    lanes: DatagramEnds<SocketAddr>,
    /// For each open lane, the TCP connection of the handshake, whose end is the end of the
    /// association.
    streams: Vec<Option<(TcpStream, WriteSampler)>>,
    /// Log of ignored datagrams.
    log: RefusalLog,
    datagram: BytesMut,
}

impl BuilderDatagrams {
    /// Creates the builder's end on a bound socket. The sources are in ascending order, and a
    /// source's position in `sources` is the index of its lane.
    pub fn new(mut socket: DatagramSocket, sources: Vec<SourceId>) -> Self {
        socket.sample_waits();
        let streams = sources.iter().map(|_| None).collect();
        let (lanes, log) = (DatagramEnds::new(sources), RefusalLog::new("the builder"));
        Self { socket, lanes, streams, log, datagram: BytesMut::new() }
    }

    /// Begins the association of a lane, whose handshake is complete.
    pub fn open(&mut self, lane: LaneIndex, channel: impl Into<Channel>) {
        let (stream, session) = channel.into().into_parts();
        self.lanes.open(lane, DatagramTags::of(session));
        self.streams[lane] = Some((stream, WriteSampler::new()));
    }

    /// Ends the association of a lane.
    pub fn close(&mut self, lane: LaneIndex) {
        self.lanes.close(lane);
        self.streams[lane] = None;
    }

    /// Returns true if a lane is open.
    pub fn is_open(&self, lane: LaneIndex) -> bool {
        self.streams[lane].is_some()
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
        let Self { socket, lanes, log, .. } = self;
        let progress =
            socket.poll_recv(cx, TURN, |from, run| take(lanes, log, from, run, core, now, &mut ended))?;
        self.reply();
        for (lane, link) in self.streams.iter_mut().enumerate() {
            if let Some(Err(end)) = link.as_mut().map(|(stream, _)| poll_end(stream, cx)) {
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
        let Self { socket, lanes, log, .. } = self;
        let progress = socket.recv(TURN, |from, run| take(lanes, log, from, run, core, now, &mut ended))?;
        self.reply();
        Ok(progress)
    }

    /// Sends the records that are due to a lane's source.
    pub fn send<P: GrantPolicy>(&mut self, core: &mut BuilderCore<P>, lane: LaneIndex, now: Instant) {
        let Some(peer) = self.lanes.write(core, lane, now, &mut self.datagram) else { return };
        let Some((_, writes)) = &mut self.streams[lane] else { return };
        writes.note(core.granted(lane), now);
        let sent = self.socket.send_to(peer, &self.datagram);
        writes.end();
        writes.take().into_iter().for_each(|took| core.record_grant_write(took));
        if let Err(error) = sent
            && let Some(unsaid) = self.log.next_line()
        {
            tracing::warn!(%peer, %error, unsaid, "this builder could not send a UDP packet to the source at {peer}, and sends its content again: {error}; if this goes on, check the network and the firewall of this host");
        }
    }

    /// Returns the counts of datagrams that were ignored, and of datagrams that the kernel dropped.
    pub fn report(&mut self) -> DatagramReport {
        let receive_drops = self.socket.receive_drops().unwrap_or_default();
        DatagramReport { receive_drops, ..self.lanes.counts() }
    }

    fn reply(&mut self) {
        for (peer, reply) in self.lanes.take_replies() {
            // A failure is ignored, because a source that gets no reply repeats its probe.
            let _ = self.socket.send_to(peer, &reply);
        }
    }
}

/// Processes one datagram, or several that the kernel has merged.
fn take<P: GrantPolicy>(
    lanes: &mut DatagramEnds<SocketAddr>,
    log: &mut RefusalLog,
    from: SocketAddr,
    run: Run<'_>,
    core: &mut BuilderCore<P>,
    now: Instant,
    ended: &mut impl FnMut(LaneIndex, LaneEnd),
) {
    run.waited().into_iter().for_each(|waited| core.record_data_wake(waited));
    lanes.receive(core, from, run.datagrams(), now, |noted| match noted {
        Noted::Ended(lane, fault) => ended(lane, fault.into()),
        Noted::Ignored(fault) => {
            let Some(unsaid) = log.next_line_of(from) else { return };
            if fault == Unbelieved::Stale {
                tracing::debug!(%from, unsaid, "ignored a datagram from {from}, which belongs to no lane");
            } else {
                tracing::warn!(%from, error = %fault, unsaid, "this builder ignored a UDP packet from {from}: {fault}");
            }
        }
    });
}
