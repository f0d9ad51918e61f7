//! [`Pool`]: the buffers into which messages are received, and [`Run`]: the split of a message into
//! datagrams.

use std::{io, net::SocketAddr, os::fd::BorrowedFd, time::Duration};

use super::UdpCounts;
use crate::{
    stamps::Sampler,
    sys_udp::{self, Arrival, MAX_BATCH},
};

/// Length of the longest message: the kernel merges datagrams up to the size of an IP packet.
const ROOM: usize = 64 << 10;

/// Number of messages that are received at once. On the loopback, batches of 4 to 32 messages cost
/// the same per datagram of 1472 B (175 ns in trains, 2.2 µs for datagrams sent alone), and
/// messages received one by one cost 5 % more. So the batch size is chosen to stay in a core's
/// second-level cache.
const BATCH: usize = 8;

const _: () = assert!(BATCH <= MAX_BATCH);

/// Buffers for one batch of messages. The system provides memory only for those parts that messages
/// have already filled.
#[derive(Debug)]
pub(super) struct Pool {
    rooms: Box<[u8]>,
    arrivals: Box<[Arrival]>,
    /// Decides which batches are measured, if the kernel reports receive times.
    sampler: Option<Sampler>,
}

impl Pool {
    pub(super) fn new() -> Self {
        Self {
            rooms: vec![0; BATCH * ROOM].into_boxed_slice(),
            arrivals: (0..BATCH).map(|_| Arrival::new()).collect(),
            sampler: None,
        }
    }

    /// Starts to measure a sample of the batches, since the socket now has receive times.
    pub(super) fn take_samples(&mut self) {
        self.sampler = Some(Sampler::new());
    }

    /// Receives waiting messages, and returns their number. If this is not a [whole
    /// batch](Self::is_whole), the socket has no more messages.
    pub(super) fn receive(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        sys_udp::receive_batch(socket, &mut self.rooms, ROOM, &mut self.arrivals)
    }

    /// Returns true if `messages` messages are a whole batch, after which more messages may wait.
    pub(super) fn is_whole(&self, messages: usize) -> bool {
        messages == self.arrivals.len()
    }

    /// Passes the first `messages` messages to `each`, in order. Returns the number of datagrams in
    /// these messages, including empty and unusable ones.
    pub(super) fn hand_on(
        &mut self,
        messages: usize,
        counts: &mut UdpCounts,
        each: &mut impl FnMut(SocketAddr, Run<'_>),
    ) -> usize {
        let mut datagrams = 0;
        let mut is_sample = false;
        if let Some(sampler) = self.sampler.as_mut().filter(|_| messages > 0) {
            is_sample = sampler.is_due();
            sampler.count();
        }
        for (arrival, room) in self.arrivals.iter().zip(self.rooms.chunks_exact(ROOM)).take(messages) {
            counts.runs += 1;
            let Some(from) = arrival.from().filter(|_| !arrival.truncated) else {
                counts.unusable += 1;
                datagrams += 1;
                continue;
            };
            let mut run = Run::new(room.get(..arrival.length).unwrap_or_default(), arrival.stride());
            if std::mem::take(&mut is_sample) {
                run.waited = arrival.waited();
            }
            datagrams += run.len();
            counts.received += run.len() as u64;
            each(from, run);
        }
        datagrams
    }
}

/// Datagrams of one sender that the kernel merged into one message: all have the same length,
/// except that the last may be shorter.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    bytes: &'a [u8],
    stride: usize,
    waited: Option<Duration>,
}

impl<'a> Run<'a> {
    pub(super) fn new(bytes: &'a [u8], stride: Option<usize>) -> Self {
        Self { bytes, stride: stride.unwrap_or(bytes.len()).max(1), waited: None }
    }

    /// Returns the time that the first datagram waited in the kernel, if this was measured.
    pub fn waited(&self) -> Option<Duration> {
        self.waited
    }

    /// Returns the number of datagrams; an empty datagram counts, too.
    #[expect(clippy::len_without_is_empty, reason = "a run has at least one datagram")]
    pub fn len(&self) -> usize {
        self.bytes.len().div_ceil(self.stride).max(1)
    }

    /// Returns the datagrams of this run, in order.
    pub fn datagrams(self) -> impl Iterator<Item = &'a [u8]> {
        let empty = self.bytes.is_empty().then_some(self.bytes);
        self.bytes.chunks(self.stride).chain(empty)
    }
}
