//! [`Frames`]: the frames that arrive on the connection of a board, as its decoder finds them.

use std::{fmt, sync::Arc, time::Duration};

use bytes::BytesMut;
use evb_core::{
    fragment::Fragment,
    id::SourceId,
    quantities::counted,
    source::{BeforeStart, FRONT_END_READ},
};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    sync::SemaphorePermit,
    time::timeout,
};

use super::{
    assembly::{Assembly, PATIENCE, Stopped},
    board_log::BoardLog,
};
use crate::{
    input::{
        decode::{Decode, Decoded, Follows},
        taker::Taker,
    },
    source::{FrontEnds, PushError},
};

/// Time without bytes that confirms a frame which only the next bytes could confirm otherwise. It
/// adds to the latency of a frame that no other follows.
const PAUSE: Duration = Duration::from_millis(2);

/// Reason for which the connection of a board is closed.
#[derive(Debug, thiserror::Error)]
pub(in crate::input) enum FramesError {
    #[error(
        "its bytes are no frames, and none was found in {0} B behind the last one: compare what the board sends with `frame` (`evbd frames` decodes a capture)"
    )]
    Lost(u64),
    #[error(transparent)]
    Stopped(#[from] Stopped),
    #[error(transparent)]
    Push(#[from] PushError),
}

/// The frames that arrive on the connection of a board.
pub(super) struct Frames<S> {
    stream: S,
    decoder: Box<dyn Decode>,
    bytes: BytesMut,
    assembly: Arc<Assembly>,
    front_ends: FrontEnds,
    /// Number of starts of the run when bytes arrived last.
    starts: u64,
    /// Number of bytes at the front that arrived before the latest start of the run.
    earlier: usize,
    /// Number of fragments that arrived.
    count: u64,
    log: BoardLog,
}

impl<S: AsyncRead + Unpin + Send> Frames<S> {
    /// Creates the reader of a board's frames.
    pub(super) fn new(
        stream: S,
        decoder: Box<dyn Decode>,
        assembly: Arc<Assembly>,
        front_ends: &FrontEnds,
        source: SourceId,
    ) -> Self {
        Self {
            stream,
            decoder,
            bytes: BytesMut::with_capacity(FRONT_END_READ),
            assembly,
            front_ends: front_ends.clone(),
            starts: front_ends.starts(),
            earlier: 0,
            count: 0,
            log: BoardLog::new(source, front_ends.clone()),
        }
    }

    /// Returns the number of fragments that arrived.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Passes all frames on, until the board closes its connection.
    pub(super) async fn pass_on(&mut self, taker: &impl Taker) -> Result<(), FramesError> {
        let assembly = Arc::clone(&self.assembly);
        let mut room = None;
        let mut follows = Follows::Bytes;
        loop {
            let before = self.bytes.len();
            match self.decoder.decode(&mut self.bytes, follows) {
                Decoded::Fragment(fragment) => {
                    let length = before - self.bytes.len();
                    self.pass_on_one(fragment, length, taker).await?;
                    if follows == Follows::Pause {
                        follows = Follows::Bytes;
                    }
                    self.shrink(&mut room);
                }
                Decoded::Skipped => {
                    self.earlier = self.earlier.saturating_sub(before - self.bytes.len());
                    self.log.note(self.decoder.losses(), false);
                }
                Decoded::Lost => {
                    let losses = self.log.note(self.decoder.losses(), true);
                    return Err(FramesError::Lost(losses));
                }
                Decoded::Needs(_) | Decoded::Holds(_) if follows == Follows::End => {
                    self.log.note(self.decoder.losses(), true);
                    return Ok(());
                }
                Decoded::Needs(least) => follows = self.read(least, &assembly, &mut room, taker).await?,
                Decoded::Holds(least) => {
                    let read = self.read(least, &assembly, &mut room, taker);
                    follows = timeout(PAUSE, read).await.unwrap_or(Ok(Follows::Pause))?;
                }
            }
        }
    }

    /// Reads until `least` bytes are there. Returns what follows them.
    ///
    /// Cancel safety: what has arrived stays.
    async fn read<'a>(
        &mut self,
        least: usize,
        assembly: &'a Assembly,
        room: &mut Option<SemaphorePermit<'a>>,
        taker: &impl Taker,
    ) -> Result<Follows, FramesError> {
        let size = least.max(FRONT_END_READ);
        if size > FRONT_END_READ && room.is_none() {
            // Room for any frame, so that no connection waits for more while it holds some.
            let largest = u32::try_from(self.decoder.largest()).unwrap_or(u32::MAX);
            *room = Some(assembly.room(largest).await);
        }
        let mut is_stalled = false;
        while self.bytes.len() < least {
            let before = self.bytes.len();
            self.bytes.reserve(size - before);
            let missing = (size - before) as u64;
            let read = if room.is_some() {
                assembly.read(&mut self.stream, &mut self.bytes, missing).await?
            } else {
                let mut arriving = (&mut self.stream).take(missing);
                match timeout(PATIENCE, arriving.read_buf(&mut self.bytes)).await {
                    // A connection that is reset ends like one that is closed.
                    Ok(read) => read.unwrap_or(0),
                    Err(_) => {
                        if before > 0 && !std::mem::replace(&mut is_stalled, true) {
                            let source = taker.source().number();
                            tracing::warn!(
                                source,
                                "the board of this source has stalled: it sent {before} B of a frame of at least {least} B, and then nothing for {PATIENCE:?}, so this source waits for the rest; look at the board, and at `length` of its `frame`"
                            );
                        }
                        continue;
                    }
                }
            };
            if read == 0 {
                return Ok(Follows::End);
            }
            // Bytes that were here when a run started are from before it.
            let starts = self.front_ends.starts();
            if starts != self.starts {
                (self.starts, self.earlier) = (starts, before);
            }
        }
        Ok(Follows::Bytes)
    }

    /// Gives the memory of a large frame back.
    fn shrink(&mut self, room: &mut Option<SemaphorePermit<'_>>) {
        if room.is_some() && self.bytes.len() <= FRONT_END_READ {
            let mut bytes = BytesMut::with_capacity(FRONT_END_READ);
            bytes.extend_from_slice(&self.bytes);
            (self.bytes, *room) = (bytes, None);
        }
    }

    /// Passes a fragment on if it is of the run. It took `length` bytes of the stream.
    async fn pass_on_one(
        &mut self,
        fragment: Fragment,
        length: usize,
        taker: &impl Taker,
    ) -> Result<(), FramesError> {
        self.count += 1;
        let front_ends = &self.front_ends;
        if front_ends.starts() != self.starts {
            (self.starts, self.earlier) = (front_ends.starts(), self.bytes.len() + length);
        }
        let began_earlier = self.earlier > 0;
        let was_whole = length <= self.earlier;
        self.earlier = self.earlier.saturating_sub(length);
        // What was whole at the start is treated like all other fragments from before the start.
        if began_earlier && (!was_whole || front_ends.before_start() == BeforeStart::Discard) {
            front_ends.count_discarded();
            return Ok(());
        }
        match taker.take(fragment).await {
            // The connection stays: a board would lose more while it is closed.
            Err(PushError::Refused(refused)) => self.log.note_refused(&refused),
            taken => taken?,
        }
        Ok(())
    }
}

/// Serves a connection of a board until its end, or until the source's part in the run is over.
/// Returns the number of fragments that arrived.
pub(super) async fn serve_frames(
    mut frames: Frames<impl AsyncRead + Unpin + Send>,
    board: impl fmt::Display,
    taker: &impl Taker,
    front_ends: &FrontEnds,
) -> u64 {
    let source = taker.source().number();
    let mut run = front_ends.run();
    tracing::info!(source, %board, "the board {board} is connected to this source, which now takes its frames");
    let ended = tokio::select! {
        ended = frames.pass_on(taker) => ended,
        _ = run.wait_for(|run| run.is_over) => Err(PushError::Ended.into()),
    };
    let fragments = frames.count();
    let after = counted(fragments, "frame");
    match ended {
        Ok(()) => {
            tracing::warn!(source, %board, "the board {board} has closed its connection to this source, after {after}, and evb takes its frames again when the connection is back; if this was not intended, look at the board")
        }
        Err(FramesError::Push(PushError::Ended)) => {}
        Err(reason) => {
            tracing::warn!(source, %board, %reason, "this source closed the connection of the board {board}, after {after}, and takes its frames again when the connection is back: {reason}");
        }
    }
    fragments
}

/// Passes all frames of a stream on to `taker`, and returns their number.
#[cfg(any(test, feature = "fuzzing"))]
pub(in crate::input) async fn receive_frames(
    stream: impl AsyncRead + Unpin + Send,
    decoder: Box<dyn Decode>,
    taker: &impl Taker,
    front_ends: &FrontEnds,
) -> Result<u64, FramesError> {
    let largest = evb_core::units::Bytes::new(decoder.largest() as u64);
    let assembly = Arc::new(Assembly::new(largest, front_ends.expected()));
    let mut frames = Frames::new(stream, decoder, assembly, front_ends, taker.source());
    frames.pass_on(taker).await?;
    Ok(frames.count())
}
