//! The source's end of a lane's connection.

#[cfg(test)]
mod tests;

use std::{
    collections::VecDeque,
    io::{self, IoSlice},
    ops::Range,
    os::fd::AsFd as _,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::{Buf as _, BytesMut};
use evb_core::{
    index::LaneIndex,
    source::SourceCore,
    wire::record::{COMMIT_RANGE, MAX_DATA, RECORD_HEADER, RecordHeader, decode_range},
};
use tokio::{io::AsyncWrite as _, net::TcpStream};
use tokio_util::io::poll_read_buf;

use super::{
    LaneEnd,
    answer_sampler::AnswerSampler,
    read_buffers::ReadBuffers,
    sealed::{PIECES, Sealing},
};
use crate::{handshake::Channel, security::Opener, sys_tcp};

/// Maximum number of pieces of memory in one `writev`: half of Linux's `UIO_MAXIOV`, which suffices
/// for 256 small fragments.
const SLICES: usize = 512;

/// Bytes of buffer that one read may fill with the builder's records.
const READ_SIZE: usize = 16 << 10;

/// Record that a builder sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FromBuilder {
    /// Permission to send lane bytes up to an offset.
    Grant {
        /// Lane offset at which the permitted bytes end.
        end: u64,
    },
    /// Permission to forget all lane bytes below an offset, and the further ranges that were put
    /// into the caller's list.
    Commit {
        /// Lane offset below which all bytes are committed.
        offset: u64,
    },
}

/// Source's end of a lane over TCP. Sends announcements, and the data of each grant with one
/// `writev`, directly from the memory into which readout wrote the data.
#[derive(Debug)]
pub struct SourceEnd {
    stream: TcpStream,
    incoming: BytesMut,
    /// Announcement records that wait to be sent.
    pub announcements: BytesMut,
    /// Granted lane bytes that are not written yet; adjacent ranges are joined.
    queue: VecDeque<Range<u64>>,
    /// The data record that is being written.
    current: Option<DataRecord>,
    protected: Option<Box<SourceParcels>>,
    answers: AnswerSampler,
}

/// State that seals and opens the parcels (authenticated frames) of a protected lane.
#[derive(Debug)]
struct SourceParcels {
    sealing: Sealing,
    opener: Opener,
}

#[derive(Debug)]
struct DataRecord {
    header: [u8; RECORD_HEADER],
    header_written: usize,
    range: Range<u64>,
}

impl DataRecord {
    fn new(range: Range<u64>) -> Self {
        let length = u32::try_from(range.end - range.start).unwrap_or(MAX_DATA);
        let header = RecordHeader::Data { length, offset: range.start }.encode();
        Self { header, header_written: 0, range }
    }
}

impl SourceEnd {
    /// Creates the source's end of a lane on a connection after its handshake.
    pub fn new(channel: impl Into<Channel>) -> Self {
        let (stream, session) = channel.into().into_parts();
        let protected = session.map(|session| {
            let keys = session.keys();
            let (sealing, opener) = (Sealing::new(&keys.stream_out), Opener::new(&keys.stream_in));
            Box::new(SourceParcels { sealing, opener })
        });
        let answers = AnswerSampler::of(stream.as_fd());
        Self {
            stream,
            incoming: BytesMut::new(),
            announcements: BytesMut::new(),
            queue: VecDeque::new(),
            current: None,
            protected,
            answers,
        }
    }

    /// Queues lane bytes to be sent at once.
    pub fn send(&mut self, range: Range<u64>) {
        match self.queue.back_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => self.queue.push_back(range),
        }
    }

    /// Returns the number of TCP segments that were retransmitted so far.
    pub fn retransmits(&self) -> u64 {
        sys_tcp::retransmits(&self.stream).unwrap_or(0)
    }

    /// Returns true if the kernel has taken everything that was queued.
    pub fn is_flushed(&self) -> bool {
        let has_left = self.protected.as_ref().is_none_or(|protected| protected.sealing.is_idle());
        self.announcements.is_empty() && self.queue.is_empty() && self.current.is_none() && has_left
    }

    /// Gives this end a read buffer from `buffers`, unless it has kept one. Without this, the end
    /// allocates a buffer of its own.
    pub fn borrow_buffer(&mut self, buffers: &mut ReadBuffers) {
        buffers.lend(self.read_buffer());
    }

    /// Returns the read buffer to `buffers`, unless many bytes of a record remain in it.
    pub fn return_buffer(&mut self, buffers: &mut ReadBuffers) {
        buffers.take_back(self.read_buffer());
    }

    /// Returns the buffer into which the socket is read.
    fn read_buffer(&mut self) -> &mut BytesMut {
        match &mut self.protected {
            None => &mut self.incoming,
            Some(protected) => &mut protected.opener.sealed,
        }
    }

    /// Polls for the builder's next record; the ranges of a commit are put into `ranges`.
    ///
    /// # Errors
    /// Returns a [`LaneEnd`], after which the connection must be dropped.
    pub fn poll_recv(
        &mut self,
        cx: &mut Context<'_>,
        ranges: &mut Vec<Range<u64>>,
    ) -> Poll<Result<FromBuilder, LaneEnd>> {
        loop {
            if let Some(record) = self.decode(ranges)? {
                return Poll::Ready(Ok(record));
            }
            let into = match &mut self.protected {
                None => &mut self.incoming,
                Some(protected) => {
                    if protected.opener.open(&mut self.incoming)? {
                        continue;
                    }
                    &mut protected.opener.sealed
                }
            };
            into.reserve(READ_SIZE);
            self.answers.end_read();
            if self.answers.is_due() && self.stream.poll_read_ready(cx).is_ready() {
                self.answers.begin_read(self.stream.as_fd());
            }
            if ready!(poll_read_buf(Pin::new(&mut self.stream), cx, into))? == 0 {
                return Poll::Ready(Err(LaneEnd::Closed));
            }
            self.answers.count();
        }
    }

    /// Notes that the latest grant permits lane bytes from `from` on. Returns the time that the
    /// grant waited in the kernel, if this wait was measured.
    pub fn note_grant(&mut self, from: u64) -> Option<Duration> {
        self.answers.note_grant(from)
    }

    /// Returns the time from the read of a grant to the end of the write of its first data, if a
    /// grant was measured since the last call.
    pub fn take_answer_sample(&mut self) -> Option<Duration> {
        self.answers.take()
    }

    /// Writes queued announcements and data, as far as the socket takes them. `lane` is this lane's
    /// index in `core`.
    ///
    /// # Errors
    /// Returns a [`LaneEnd`], after which the connection must be dropped.
    pub fn poll_flush(
        &mut self,
        cx: &mut Context<'_>,
        core: &SourceCore,
        lane: LaneIndex,
    ) -> Poll<Result<(), LaneEnd>> {
        if self.protected.is_some() {
            return self.poll_flush_parcels(cx, core, lane);
        }
        loop {
            if self.current.is_none() {
                self.start_record();
            }
            let written = if self.current.is_some() {
                ready!(self.poll_write_record(cx, core, lane))?
            } else if !self.announcements.is_empty() {
                let written = ready!(Pin::new(&mut self.stream).poll_write(cx, &self.announcements))?;
                self.announcements.advance(written);
                written
            } else {
                return Poll::Ready(Ok(()));
            };
            if written == 0 {
                return Poll::Ready(Err(io::Error::from(io::ErrorKind::WriteZero).into()));
            }
        }
    }

    /// Writes the current record's header and lane bytes with one `writev`, directly from the
    /// fragments' memory. Waiting announcements go in front of a record that has not begun, so that
    /// they share its packets.
    fn poll_write_record(
        &mut self,
        cx: &mut Context<'_>,
        core: &SourceCore,
        lane: LaneIndex,
    ) -> Poll<io::Result<usize>> {
        let Some(record) = &mut self.current else { return Poll::Ready(Ok(0)) };
        let mut slices = Vec::with_capacity(SLICES);
        let announced = if record.header_written == 0 { self.announcements.len() } else { 0 };
        if announced > 0 {
            slices.push(IoSlice::new(&self.announcements));
        }
        if record.header_written < RECORD_HEADER {
            slices.push(IoSlice::new(&record.header[record.header_written..]));
        }
        core.gather(lane, record.range.clone(), &mut slices);
        let written = ready!(Pin::new(&mut self.stream).poll_write_vectored(cx, &slices))?;
        let of_announcements = written.min(announced);
        let of_record = written - of_announcements;
        let of_header = of_record.min(RECORD_HEADER - record.header_written);
        self.announcements.advance(of_announcements);
        record.header_written += of_header;
        record.range.start += (of_record - of_header) as u64;
        self.answers.note_written(record.range.start);
        if record.header_written == RECORD_HEADER && record.range.is_empty() {
            self.current = None;
        }
        Poll::Ready(Ok(written))
    }

    /// Writes queued announcements and data in parcels, each parcel with one `writev`.
    fn poll_flush_parcels(
        &mut self,
        cx: &mut Context<'_>,
        core: &SourceCore,
        lane: LaneIndex,
    ) -> Poll<Result<(), LaneEnd>> {
        let zero = || Poll::Ready(Err(io::Error::from(io::ErrorKind::WriteZero).into()));
        loop {
            if self.current.is_none() {
                self.start_record();
            }
            let Some(SourceParcels { sealing, .. }) = self.protected.as_deref_mut() else { return zero() };
            if sealing.is_idle() {
                // Records must not interleave: announcements wait for the end of a data record that
                // is being written, and a data record waits for the end of announcements that do
                // not fit into one parcel.
                let is_under_way = self.current.as_ref().is_some_and(|record| record.header_written > 0);
                let mut none = BytesMut::new();
                let announcements = if is_under_way { &mut none } else { &mut self.announcements };
                let record = self.current.as_mut().filter(|_| Sealing::fits(announcements.len()));
                if record.is_none() && announcements.is_empty() {
                    return Poll::Ready(Ok(()));
                }
                let (header, range) = match &record {
                    None => (&[][..], 0..0),
                    Some(record) => (&record.header[record.header_written..], record.range.clone()),
                };
                let room = Sealing::room(announcements.len(), header.len());
                let range = range.start..range.end.min(range.start + room);
                let waits = announcements.len() + header.len();
                let covered = sealing.begin(announcements, header, range, core, lane);
                if covered == 0 && waits == 0 {
                    return zero();
                }
                if let Some(record) = record {
                    record.header_written = RECORD_HEADER;
                    record.range.start += covered;
                }
                self.current.take_if(|record| record.range.is_empty());
            }
            let mut slices = Vec::with_capacity(PIECES + 2);
            sealing.slices(core, lane, &mut slices);
            match ready!(Pin::new(&mut self.stream).poll_write_vectored(cx, &slices))? {
                0 => return zero(),
                written => self.answers.note_written(sealing.advance(written)),
            }
        }
    }

    fn start_record(&mut self) {
        let Some(range) = self.queue.front_mut() else { return };
        let end = range.end.min(range.start + u64::from(MAX_DATA));
        self.current = Some(DataRecord::new(range.start..end));
        range.start = end;
        if range.start == range.end {
            self.queue.pop_front();
        }
    }

    fn decode(&mut self, ranges: &mut Vec<Range<u64>>) -> Result<Option<FromBuilder>, LaneEnd> {
        let Some((header, body)) = self.incoming.split_first_chunk::<RECORD_HEADER>() else {
            return Ok(None);
        };
        let header = RecordHeader::decode(*header)?;
        let Some(body) = body.get(..header.body()) else { return Ok(None) };
        let record = match header {
            RecordHeader::Grant { end } => FromBuilder::Grant { end },
            RecordHeader::Commit { offset, .. } => {
                ranges.clear();
                for item in body.as_chunks::<COMMIT_RANGE>().0 {
                    ranges.push(decode_range(item)?);
                }
                FromBuilder::Commit { offset }
            }
            // All other records are for the builder's end, or travel in datagrams only.
            _ => {
                return Err(LaneEnd::WrongDirection(header));
            }
        };
        self.incoming.advance(RECORD_HEADER + header.body());
        Ok(Some(record))
    }
}
