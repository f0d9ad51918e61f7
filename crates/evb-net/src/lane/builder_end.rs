//! The builder's end of a lane's connection.

#[cfg(test)]
mod tests;

use std::{
    os::fd::AsFd as _,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::{Buf as _, BufMut as _, BytesMut};
use evb_core::{
    builder::{BuilderCore, ReadTarget, StreamReader},
    grant::GrantPolicy,
    index::LaneIndex,
    time::Instant,
};
use socket2::SockRef;
use tokio::{io::AsyncWrite as _, net::TcpStream};
use tokio_util::io::poll_read_buf;

use super::{LaneEnd, read_buffers::ReadBuffers, write_sampler::WriteSampler};
use crate::{
    handshake::Channel,
    progress::Progress,
    security::{Opener, Sealer},
    stamps::ReadSampler,
    sys_read,
};

/// Bytes of buffer that one read may fill with parcels.
const READ_SIZE: usize = 128 << 10;

/// Bytes that one lane may deliver before the other lanes have their turn.
const TURN: usize = 1 << 20;

/// Limit of the bytes of records queued for a source that reads slowly; the connection is closed
/// beyond this limit (docs/reference/protocol.md LANE-19).
pub(super) const OUTGOING_LIMIT: usize = 1 << 20;

/// Builder's end of a lane over TCP: receives announcements and data, and sends grants and commits.
#[derive(Debug)]
pub struct BuilderEnd {
    stream: TcpStream,
    reader: StreamReader,
    /// Records that wait to be sent to the source.
    pub outgoing: BytesMut,
    protected: Option<Box<BuilderParcels>>,
    reads: ReadSampler,
    writes: WriteSampler,
}

/// State that seals and opens the parcels (authenticated frames) of a protected lane.
#[derive(Debug)]
struct BuilderParcels {
    opener: Opener,
    sealer: Sealer,
    /// The parcel that is being written.
    leaving: BytesMut,
}

impl BuilderEnd {
    /// Creates the builder's end of a lane on a connection after its handshake.
    pub fn new(channel: impl Into<Channel>) -> Self {
        let (stream, session) = channel.into().into_parts();
        let protected = session.map(|session| {
            let keys = session.keys();
            let (opener, sealer) = (Opener::new(&keys.stream_in), Sealer::new(&keys.stream_out));
            Box::new(BuilderParcels { opener, sealer, leaving: BytesMut::new() })
        });
        let (reader, outgoing) = (StreamReader::default(), BytesMut::new());
        let (reads, writes) = (ReadSampler::of(stream.as_fd()), WriteSampler::new());
        Self { stream, reader, outgoing, protected, reads, writes }
    }

    /// Queues the records that `core` has for the lane's source, with grants made at `now`.
    pub fn write_records<P: GrantPolicy>(
        &mut self,
        core: &mut BuilderCore<P>,
        lane: LaneIndex,
        now: Instant,
    ) {
        core.write_records(lane, &mut self.outgoing);
        self.writes.note(core.granted(lane), now);
    }

    /// Returns the time from a grant to the end of its write, if a grant was measured since the
    /// last call.
    pub fn take_write_sample(&mut self) -> Option<Duration> {
        self.writes.take()
    }

    /// Reads the bytes that have arrived, up to the limit of a turn, and passes them to lane `lane`
    /// of `core`. Until then the lane has a read buffer from `buffers`.
    ///
    /// # Errors
    /// Returns a [`LaneEnd`], after which the connection must be dropped.
    pub fn poll_read<P: GrantPolicy>(
        &mut self,
        cx: &mut Context<'_>,
        core: &mut BuilderCore<P>,
        lane: LaneIndex,
        buffers: &mut ReadBuffers,
        now: Instant,
    ) -> Result<Progress, LaneEnd> {
        buffers.lend(self.read_buffer());
        let progress = self.poll_read_turn(cx, core, lane, now);
        buffers.take_back(self.read_buffer());
        progress
    }

    /// Returns the buffer into which the socket is read.
    fn read_buffer(&mut self) -> &mut BytesMut {
        match &mut self.protected {
            None => &mut self.reader.buffer,
            Some(protected) => &mut protected.opener.sealed,
        }
    }

    /// Reads from the stream until it has no more bytes, or until the turn has read [`TURN`] bytes.
    fn poll_read_turn<P: GrantPolicy>(
        &mut self,
        cx: &mut Context<'_>,
        core: &mut BuilderCore<P>,
        lane: LaneIndex,
        now: Instant,
    ) -> Result<Progress, LaneEnd> {
        let mut turn = 0;
        while turn < TURN {
            match self.poll_read_once(cx, core, lane, now) {
                Poll::Pending if turn == 0 => return Ok(Progress::Idle),
                Poll::Pending => return Ok(Progress::Drained),
                Poll::Ready(Ok(0)) => return Err(LaneEnd::Closed),
                Poll::Ready(Ok(read)) => turn += read,
                Poll::Ready(Err(error)) => return Err(error),
            }
        }
        Ok(Progress::More)
    }

    /// Closes the connection at once: the source's next write fails, and no more of its data
    /// arrives (RFC 9293 §3.10.5).
    pub fn abort(self) {
        // If the linger option cannot be set, the connection is closed without a reset.
        let _ = SockRef::from(&self.stream).set_linger(Some(Duration::ZERO));
    }

    /// Writes the records that wait for the source, as far as the socket takes them.
    ///
    /// # Errors
    /// Returns a [`LaneEnd`], after which the connection must be dropped.
    pub fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LaneEnd>> {
        loop {
            let leaving = match &mut self.protected {
                None => &mut self.outgoing,
                Some(protected) => {
                    if protected.leaving.is_empty() && !self.outgoing.is_empty() {
                        protected.sealer.seal(&mut self.outgoing, &mut protected.leaving);
                    }
                    &mut protected.leaving
                }
            };
            if leaving.is_empty() {
                self.writes.end();
                return Poll::Ready(Ok(()));
            }
            match Pin::new(&mut self.stream).poll_write(cx, leaving)? {
                Poll::Ready(written) => leaving.advance(written),
                Poll::Pending if self.outgoing.len() > OUTGOING_LIMIT => {
                    return Poll::Ready(Err(LaneEnd::Overflow));
                }
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// Reads once from the stream, and measures now and then how long the bytes waited for this
    /// thread.
    fn poll_read_once<P: GrantPolicy>(
        &mut self,
        cx: &mut Context<'_>,
        core: &mut BuilderCore<P>,
        lane: LaneIndex,
        now: Instant,
    ) -> Poll<Result<usize, LaneEnd>> {
        // Only the first read of a record is measured, because the reads that follow happen without
        // a wake-up.
        let is_first = self.reader.is_between_records();
        if is_first && self.reads.sampler.is_due() && self.stream.poll_read_ready(cx).is_ready() {
            let waited = self.reads.waited(self.stream.as_fd());
            waited.into_iter().for_each(|waited| core.record_data_wake(waited));
        }
        let read = match &self.protected {
            Some(_) => ready!(self.poll_read_parcels(cx, core, lane, now)),
            None => ready!(self.poll_read_records(cx, core, lane, now)),
        };
        if is_first {
            self.reads.sampler.count();
        }
        Poll::Ready(read)
    }

    /// Reads records, and reads the bytes of large fragments directly into the fragments' memory.
    fn poll_read_records<P: GrantPolicy>(
        &mut self,
        cx: &mut Context<'_>,
        core: &mut BuilderCore<P>,
        lane: LaneIndex,
        now: Instant,
    ) -> Poll<Result<usize, LaneEnd>> {
        let (filled, read) = match self.reader.read_target(core, lane) {
            ReadTarget::Fragment { memory, limit, buffer } => {
                // The same system call also reads the bytes that follow this fragment or record.
                let read = sys_read::poll_read_both(&self.stream, cx, memory, limit, buffer);
                let (filled, behind) = ready!(read)?;
                (filled, filled + behind)
            }
            ReadTarget::Buffer { buffer, limit } => {
                let mut memory = buffer.limit(limit);
                (0, ready!(poll_read_buf(Pin::new(&mut self.stream), cx, &mut memory))?)
            }
        };
        self.reader.filled(core, lane, filled, now)?;
        Poll::Ready(Ok(read))
    }

    /// Reads parcels. The content of a parcel is passed on only after its tag has been verified.
    fn poll_read_parcels<P: GrantPolicy>(
        &mut self,
        cx: &mut Context<'_>,
        core: &mut BuilderCore<P>,
        lane: LaneIndex,
        now: Instant,
    ) -> Poll<Result<usize, LaneEnd>> {
        let Some(protected) = &mut self.protected else { return Poll::Ready(Ok(0)) };
        let sealed = &mut protected.opener.sealed;
        sealed.reserve(READ_SIZE);
        let mut memory = sealed.limit(READ_SIZE);
        let read = ready!(poll_read_buf(Pin::new(&mut self.stream), cx, &mut memory))?;
        while protected.opener.open(&mut self.reader.buffer)? {
            self.reader.filled(core, lane, 0, now)?;
        }
        Poll::Ready(Ok(read))
    }
}
