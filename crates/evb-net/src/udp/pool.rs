//! [`Pool`]: where messages are received, and how runs are split into datagrams.

use std::{io, net::SocketAddr, os::fd::BorrowedFd, time::Duration};

use super::UdpCounts;
use crate::{
    stamps::Sampler,
    sys_udp::{self, Arrival, MAX_BATCH},
};

/// Longest message: runs are merged up to the size of an IP packet.
const ROOM: usize = 64 << 10;

/// Messages that are taken at once. Measured on the loopback, 4 to 32 cost the same (trains: 175 ns
/// a datagram of 1472 B; single ones: 2.2 µs), and one by one 5 % more. So a batch is sized to stay
/// in a core's second-level cache.
const BATCH: usize = 8;

const _: () = assert!(BATCH <= MAX_BATCH);

/// Room for one batch. Memory that no message has reached yet is not taken from the system.
#[derive(Debug)]
pub(super) struct Pool {
    rooms: Box<[u8]>,
    arrivals: Box<[Arrival]>,
    /// Choice of the batches that are samples, where the kernel reports receive times.
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

    /// The socket has receive times from now on.
    pub(super) fn take_samples(&mut self) {
        self.sampler = Some(Sampler::new());
    }

    /// Takes waiting messages, and returns their number. The socket has no more if they are fewer
    /// than [`BATCH`](Self::is_whole).
    pub(super) fn receive(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        sys_udp::receive_batch(socket, &mut self.rooms, ROOM, &mut self.arrivals)
    }

    /// Returns true if that many are a whole batch, after which there may be more.
    pub(super) fn is_whole(&self, messages: usize) -> bool {
        messages == self.arrivals.len()
    }

    /// Hands on the first messages, in order; how many datagrams there were, empty ones included.
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

/// Datagrams of one sender that the kernel merged: all as long as the first, the last perhaps
/// shorter.
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

    /// Returns how long the first waited in the kernel, if it is a sample.
    pub fn waited(&self) -> Option<Duration> {
        self.waited
    }

    /// Returns the number of datagrams. An empty one counts, too.
    #[expect(clippy::len_without_is_empty, reason = "there is always one")]
    pub fn len(&self) -> usize {
        self.bytes.len().div_ceil(self.stride).max(1)
    }

    /// The datagrams, in order.
    pub fn datagrams(self) -> impl Iterator<Item = &'a [u8]> {
        let empty = self.bytes.is_empty().then_some(self.bytes);
        self.bytes.chunks(self.stride).chain(empty)
    }
}
