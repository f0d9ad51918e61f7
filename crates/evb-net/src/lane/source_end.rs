//! The source's end of a lane's connection.

#[cfg(test)]
mod tests;

use std::{
    io,
    os::fd::AsFd as _,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::BytesMut;
use evb_core::{
    index::LaneIndex,
    source::{SourceCore, StreamReader, StreamWriter},
};
use tokio::{io::AsyncWrite as _, net::TcpStream};
use tokio_util::io::poll_read_buf;

use super::{LaneEnd, answer_sampler::AnswerSampler, read_buffers::ReadBuffers, sealed::Sealing};
use crate::{
    handshake::Channel,
    security::{MAX_CONTENT, Opener},
    sys_tcp,
};

/// Bytes of buffer that one read may fill with parcels.
const READ_SIZE: usize = 16 << 10;

/// Source's end of a lane over TCP. Sends announcements, and the data of each grant with one
/// `writev`, directly from the memory into which readout wrote the data.
#[derive(Debug)]
pub struct SourceEnd {
    stream: TcpStream,
    reader: StreamReader,
    /// Announcements and data that wait to be sent.
    pub writer: StreamWriter,
    protected: Option<Box<SourceParcels>>,
    answers: AnswerSampler,
}

/// State that seals and opens the parcels (authenticated frames) of a protected lane.
#[derive(Debug)]
struct SourceParcels {
    sealing: Sealing,
    opener: Opener,
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
        Self { stream, reader: StreamReader::default(), writer: StreamWriter::default(), protected, answers }
    }

    /// Returns the number of TCP segments that were retransmitted so far.
    pub fn retransmits(&self) -> u64 {
        sys_tcp::retransmits(&self.stream).unwrap_or(0)
    }

    /// Returns true if the kernel has taken everything that was queued.
    pub fn is_flushed(&self) -> bool {
        let has_left = self.protected.as_ref().is_none_or(|protected| protected.sealing.is_idle());
        self.writer.is_idle() && has_left
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
            None => &mut self.reader.buffer,
            Some(protected) => &mut protected.opener.sealed,
        }
    }

    /// Reads the builder's records, and passes them to `core`. `lane` is this lane's index in
    /// `core`.
    ///
    /// # Errors
    /// Returns a [`LaneEnd`], after which the connection must be dropped.
    pub fn poll_recv(
        &mut self,
        cx: &mut Context<'_>,
        core: &mut SourceCore,
        lane: LaneIndex,
    ) -> Result<(), LaneEnd> {
        loop {
            // Sealed bytes are opened first, and then read like others.
            let into = match &mut self.protected {
                None => self.reader.read_target(),
                Some(protected) => {
                    protected.opener.sealed.reserve(READ_SIZE);
                    &mut protected.opener.sealed
                }
            };
            // Of some reads it is measured how long they and the answers to them take.
            if self.answers.is_due() && self.stream.poll_read_ready(cx).is_ready() {
                self.answers.begin_read(self.stream.as_fd());
            }
            match poll_read_buf(Pin::new(&mut self.stream), cx, into)? {
                Poll::Pending => return Ok(()),
                Poll::Ready(0) => return Err(LaneEnd::Closed),
                Poll::Ready(_) => self.answers.count(),
            }
            let granted = core.granted(lane);
            match &mut self.protected {
                None => self.reader.filled(core, lane)?,
                Some(protected) => {
                    while protected.opener.open(&mut self.reader.buffer)? {
                        self.reader.filled(core, lane)?;
                    }
                }
            }
            // This read brought a grant, which counts as the end of a wait.
            if core.granted(lane) > granted {
                self.answers
                    .note_grant(granted)
                    .into_iter()
                    .for_each(|waited| core.record_grant_wake(waited));
            }
            self.answers.end_read();
        }
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
        while let Some(slices) = self.writer.gather(core, lane) {
            let written = ready!(Pin::new(&mut self.stream).poll_write_vectored(cx, &slices))?;
            if written == 0 {
                return no_progress();
            }
            if let Some(end) = self.writer.sent(written) {
                self.answers.note_written(end);
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Writes queued announcements and data in parcels, each parcel with one `writev`.
    fn poll_flush_parcels(
        &mut self,
        cx: &mut Context<'_>,
        core: &SourceCore,
        lane: LaneIndex,
    ) -> Poll<Result<(), LaneEnd>> {
        loop {
            let Some(SourceParcels { sealing, .. }) = self.protected.as_deref_mut() else {
                return no_progress();
            };
            if sealing.is_idle() {
                let Some(content) = self.writer.parcel_content(MAX_CONTENT) else {
                    return Poll::Ready(Ok(()));
                };
                let taken = sealing.begin(&content, core, lane);
                if taken == 0 {
                    return no_progress();
                }
                self.writer.sent(taken);
            }
            let slices = sealing.slices(core, lane);
            match ready!(Pin::new(&mut self.stream).poll_write_vectored(cx, &slices))? {
                0 => return no_progress(),
                written => self.answers.note_written(sealing.advance(written)),
            }
        }
    }
}

/// Returns the error of a write that can never end.
fn no_progress() -> Poll<Result<(), LaneEnd>> {
    Poll::Ready(Err(io::Error::from(io::ErrorKind::WriteZero).into()))
}
