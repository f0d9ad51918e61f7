//! [`Fragments`]: the fragments that arrive on a front end's connection.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use bytes::{Buf, BytesMut};
use evb_core::{
    fragment::{Fragment, Timestamp},
    id::{EventId, RunId},
    source::FRONT_END_READ,
    units::Bytes,
};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt, BufReader};

use super::assembly::{Assembly, Stopped};
use crate::{
    input::taker::Taker,
    source::{FrontEnds, PushError},
};

/// Length of a fragment's header (length, event id, timestamp), and of the fixed part of the other
/// messages.
pub(super) const HEAD: usize = 20;
/// First bytes of the preamble and of the statement of a run: a length that no fragment can have.
const MARK: [u8; 4] = [0xff; 4];
/// Version of the protocol with a preamble.
const VERSION: u8 = 2;
/// Flag in the preamble: the front end wants to know during the run how many of its fragments are
/// accepted.
const WANTS_COUNTS: u8 = 1;
/// Largest length of a front end's name, in bytes.
const MAX_NAME: u8 = 64;

/// Reason for which a front-end's connection was closed.
#[derive(Debug, thiserror::Error)]
pub(in crate::input) enum FrontEndError {
    #[error("it announced a fragment of {length} B, more than max_fragment ({} B){}", limit.count(), cure(*length, *limit))]
    Length { length: u32, limit: Bytes },
    #[error(
        "the connection ended in the middle of a fragment, so the front end crashed, or stated a wrong length: look at its log"
    )]
    CutShort,
    #[error(transparent)]
    Stopped(#[from] Stopped),
    #[error(
        "it speaks version {0} of the front-end protocol, but this evb knows only versions 1 and 2: install a newer evb, or let it speak version 2"
    )]
    Version(u8),
    #[error("it stated a name that is not printable text of at most {MAX_NAME} bytes: correct its name")]
    Name,
    #[error(transparent)]
    Push(#[from] PushError),
    #[error("the connection broke: {0}; look at its host and at the network")]
    Io(#[from] io::Error),
}

/// Factor by which a plausible fragment may exceed `max_fragment`. A front end that counts wrongly,
/// or a program that is none, states any length.
const PLAUSIBLE: u64 = 16;

/// Returns what to do about an announced length above `max_fragment`.
fn cure(length: u32, limit: Bytes) -> &'static str {
    if u64::from(length) <= limit.count().saturating_mul(PLAUSIBLE) {
        ": raise max_fragment of this source"
    } else {
        ", so it is no front end, or its stream is out of step: look at the program there"
    }
}

/// The fragments that arrive on a front end's connection.
pub(super) struct Fragments<S> {
    stream: BufReader<S>,
    limit: Bytes,
    assembly: Arc<Assembly>,
    front_ends: FrontEnds,
    /// Name of the front end, if it speaks protocol 2.
    name: Option<String>,
    /// True if the front end wants to know during the run how many of its fragments are accepted.
    wants_counts: bool,
    /// Run that the front end stated last; unknown before that.
    run: RunId,
    head: BytesMut,
    /// Number of starts of the run when the head began to arrive that [`Self::open`] has read.
    opened: Option<u64>,
    /// Number of fragments that arrived.
    count: u64,
    /// Number of fragments that the source took for its run.
    accepted: Arc<AtomicU64>,
}

impl<S: AsyncRead + Unpin + Send> Fragments<S> {
    /// Creates the reader of a front end's fragments, each of at most `limit` bytes.
    pub(super) fn new(stream: S, limit: Bytes, assembly: Arc<Assembly>, front_ends: &FrontEnds) -> Self {
        Self {
            stream: BufReader::with_capacity(FRONT_END_READ, stream),
            limit,
            assembly,
            front_ends: front_ends.clone(),
            name: None,
            wants_counts: false,
            run: RunId::UNKNOWN,
            head: BytesMut::with_capacity(HEAD),
            opened: None,
            count: 0,
            accepted: Arc::default(),
        }
    }

    /// Returns the name of the front end; `None` if it speaks protocol 1.
    pub(super) fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Returns true if the front end wants to know during the run how many of its fragments are
    /// accepted.
    pub(super) fn wants_counts(&self) -> bool {
        self.wants_counts
    }

    /// Returns the number of fragments that arrived.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Returns the number of fragments that the source took for its run.
    pub(super) fn accepted(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.accepted)
    }

    /// Reads the preamble, if the connection begins with one.
    pub(super) async fn open(&mut self) -> Result<(), FrontEndError> {
        self.opened = self.read_head().await?;
        // Without a preamble, these bytes are the head of the first fragment, and are kept for it.
        if self.opened.is_some() && self.head.starts_with(&MARK) {
            self.opened = None;
            let (version, length, flags) = (self.head[4], self.head[5], self.head[6]);
            if version != VERSION {
                return Err(FrontEndError::Version(version));
            }
            if length > MAX_NAME {
                return Err(FrontEndError::Name);
            }
            let mut name = BytesMut::new();
            read(&mut self.stream, &mut name, length.into()).await?;
            let name = String::from_utf8(name.into()).map_err(|_| FrontEndError::Name)?;
            if name.chars().any(char::is_control) {
                return Err(FrontEndError::Name);
            }
            (self.name, self.wants_counts) = (Some(name), flags & WANTS_COUNTS != 0);
        }
        Ok(())
    }

    /// Passes all fragments on, until the front end closes its connection.
    pub(super) async fn pass_on(&mut self, taker: &impl Taker) -> Result<(), FrontEndError> {
        loop {
            let read = match self.opened.take() {
                None => self.read_head().await?,
                opened => opened,
            };
            let Some(starts) = read else { return Ok(()) };
            match <[u8; HEAD]>::try_from(&self.head[..]) {
                Ok([0xff, 0xff, 0xff, 0xff, id @ ..]) if self.name.is_some() => {
                    self.run = RunId::from_bytes(id);
                }
                _ => self.pass_on_one(starts, taker).await?,
            }
        }
    }

    /// Discards all further bytes, until the front end closes its connection.
    pub(super) async fn discard(&mut self) -> io::Result<u64> {
        tokio::io::copy_buf(&mut self.stream, &mut tokio::io::sink()).await
    }

    /// Reads the head of the next message. Returns the number of starts of the run when it began to
    /// arrive; `None` at the end of the connection.
    async fn read_head(&mut self) -> Result<Option<u64>, FrontEndError> {
        if self.stream.fill_buf().await?.is_empty() {
            return Ok(None);
        }
        let starts = self.front_ends.starts();
        read(&mut self.stream, &mut self.head, HEAD).await?;
        Ok(Some(starts))
    }

    /// Reads the payload of the fragment whose head was read, and passes the fragment on if it is
    /// of the run. `starts` is the number of starts when the fragment began to arrive.
    async fn pass_on_one(&mut self, starts: u64, taker: &impl Taker) -> Result<(), FrontEndError> {
        let length = self.head.get_u32_le();
        let event = EventId::new(self.head.get_u64_le());
        let timestamp = Timestamp::new(self.head.get_u64_le());
        if u64::from(length) > self.limit.count() {
            return Err(FrontEndError::Length { length, limit: self.limit });
        }
        // The room is held until the source has room of its own for the fragment.
        let _room = self.assembly.room(length).await;
        let mut payload = BytesMut::with_capacity(length as usize);
        let buffered = self.stream.buffer();
        payload.extend_from_slice(&buffered[..buffered.len().min(length as usize)]);
        self.stream.consume(payload.len());
        while payload.len() < length as usize {
            let missing = u64::from(length) - payload.len() as u64;
            if self.assembly.read(&mut self.stream, &mut payload, missing).await? == 0 {
                return Err(FrontEndError::CutShort);
            }
        }
        self.count += 1;
        let front_ends = &self.front_ends;
        let is_discarding = front_ends.is_discarding();
        if front_ends.starts() != starts {
            front_ends.count_discarded();
        } else if self.run.is_known() && !front_ends.is_run(self.run) {
            if is_discarding {
                front_ends.count_discarded();
            } else {
                front_ends.count_of_other_run();
            }
        } else {
            match taker.take(Fragment::new(event, timestamp, payload)).await {
                // The ids of an earlier run may be far from those of the next one.
                Err(PushError::Refused(_)) if front_ends.is_discarding() => front_ends.count_discarded(),
                taken => taken?,
            }
            if !is_discarding {
                let protocol = if self.name.is_some() { VERSION } else { 1 };
                front_ends.count_taken(protocol.into(), self.run.is_known());
                self.accepted.fetch_add(1, Ordering::Relaxed);
            }
        }
        Ok(())
    }
}

/// Reads exactly `length` bytes into `into`.
async fn read(
    stream: &mut (impl AsyncRead + Unpin + Send),
    into: &mut BytesMut,
    length: usize,
) -> Result<(), FrontEndError> {
    into.clear();
    into.reserve(length);
    while into.len() < length {
        let missing = (length - into.len()) as u64;
        // A connection that is reset ends like one that is closed.
        if (&mut *stream).take(missing).read_buf(into).await.unwrap_or(0) == 0 {
            return Err(FrontEndError::CutShort);
        }
    }
    Ok(())
}
