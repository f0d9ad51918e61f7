//! [`SourceDatagrams`]: the source's end of a lane over datagrams.

use std::{
    collections::VecDeque,
    io::IoSlice,
    ops::Range,
    task::{Context, Poll},
    time::Duration,
};

use bytes::BytesMut;
use evb_core::{
    index::LaneIndex,
    lane::{DatagramFault, MAX_RESENDS, Request},
    source::SourceCore,
    time::Instant,
    units::Bytes,
    wire::{
        control::TrainReport,
        datagram::{DATAGRAM_HEADER, DatagramHeader},
    },
};
use tokio::net::TcpStream;

use super::{
    Path, Unbelieved, open, poll_end,
    train::{Cut, Envelope},
};
use crate::{
    clock,
    handshake::RefusalLog,
    lane::{LaneEnd, Progress},
    pacing::{MAX_DATAGRAMS, MAX_TRAIN, SendError},
    security::{DatagramTags, TAG_LENGTH},
    udp::DatagramSocket,
};

/// Maximum number of pieces of fragments in one send, which also has a header for each segment; the
/// total is below the kernel's limit `UIO_MAXIOV`.
const PIECES: usize = 800;

/// Time to wait before the next attempt if a socket that has just reported room is full.
const FULL_AGAIN: Duration = Duration::from_micros(200);

/// Maximum number of datagrams of the builder that are processed in one turn.
const TURN: usize = 256;

/// Source's end of a lane over datagrams. Sends announcements and granted data, one train of
/// segments at a time, directly from the memory into which readout wrote the data.
#[derive(Debug)]
pub struct SourceDatagrams {
    /// TCP connection of the handshake, whose end is the end of this lane.
    stream: TcpStream,
    socket: DatagramSocket,
    path: Path,
    /// Maximum number of datagrams in one train.
    pub(super) most: usize,
    /// Trains that wait for their departure.
    queue: VecDeque<Departing>,
    /// A datagram of records that is not sent yet; empty if there is none.
    pub records: BytesMut,
    tags: Option<DatagramTags>,
    /// Log of datagrams that other senders forged, or that arrived before.
    unbelieved: RefusalLog,
    headers: Vec<Envelope>,
    /// Time of the next attempt to send, if the kernel currently takes no more trains.
    until: Option<Instant>,
    /// Departure time of the last train.
    last_at: Option<Instant>,
    /// The grant that is being measured: its first lane byte, and the time at which it was read.
    follows: Option<(u64, Instant)>,
}

#[derive(Debug)]
struct Departing {
    range: Range<u64>,
    request: Request,
    at: Instant,
}

impl SourceDatagrams {
    /// Creates the source's end after the handshake, on a socket that has reached the builder by
    /// `path`.
    pub fn new(stream: TcpStream, mut socket: DatagramSocket, path: Path) -> Self {
        socket.sample_waits();
        let most = (MAX_TRAIN / path.datagram).clamp(1, MAX_DATAGRAMS);
        Self {
            stream,
            socket,
            path,
            most,
            queue: VecDeque::new(),
            records: BytesMut::new(),
            tags: None,
            unbelieved: RefusalLog::new("the source"),
            headers: Vec::with_capacity(MAX_DATAGRAMS),
            until: None,
            last_at: None,
            follows: None,
        }
    }

    /// Makes datagrams carry tags, if given; `tags` is the state that the probes of the path used.
    pub fn tagged(self, tags: Option<DatagramTags>) -> Self {
        Self { tags, ..self }
    }

    /// Limits trains to the given number of bytes, but at least one datagram.
    pub fn in_trains_of(self, bytes: Option<Bytes>) -> Self {
        let most = bytes.map_or(self.most, |bytes| bytes.as_usize() / self.path.datagram);
        Self { most: most.clamp(1, self.most), ..self }
    }

    /// Returns the length of a datagram's tag; 0 if datagrams carry no tags.
    fn tag_length(&self) -> usize {
        if self.tags.is_some() { TAG_LENGTH } else { 0 }
    }

    /// Returns the maximum length of a datagram in bytes, without its tag.
    pub fn datagram(&self) -> usize {
        self.path.datagram - self.tag_length()
    }

    /// Receives the builder's datagrams and passes them to `core`. [`Progress::More`] means that
    /// more may be waiting.
    ///
    /// # Errors
    /// Returns a [`LaneEnd`], after which the connection must be dropped.
    pub fn poll_recv(
        &mut self,
        cx: &mut Context<'_>,
        core: &mut SourceCore,
        lane: LaneIndex,
        now: Instant,
    ) -> Result<Progress, LaneEnd> {
        poll_end(&mut self.stream, cx)?;
        if core.is_silent(lane, now) {
            return Err(LaneEnd::Silent);
        }
        let mut outcome = Ok(());
        let Self { socket, tags, unbelieved, follows, .. } = self;
        let progress = socket.poll_recv(cx, TURN, |from, run| {
            let granted = core.granted(lane);
            for datagram in run.datagrams() {
                let (header, body) = match open(datagram, tags.as_mut()) {
                    Ok(opened) => opened,
                    // Damaged datagrams are ignored, because the builder repeats them like lost
                    // ones. The socket is connected, so that other senders can reach it only with a
                    // forged source address.
                    Err(Unbelieved::Datagram(_)) => continue,
                    Err(fault) => {
                        unbelieved.record(format_args!("ignored a UDP packet from {from}"), &fault);
                        continue;
                    }
                };
                match core.handle_datagram(lane, &header, body, now) {
                    Ok(()) | Err(DatagramFault::Stale) => {}
                    Err(fault) => outcome = Err(fault),
                }
            }
            if let Some(waited) = run.waited().filter(|_| core.granted(lane) > granted) {
                core.record_grant_wake(waited);
                follows.get_or_insert((granted, now));
            }
        })?;
        outcome?;
        Ok(progress)
    }

    /// Queues lane bytes that depart at `at`. Retransmissions go before first transmissions, and
    /// replace queued retransmissions of the same bytes (docs/reference/protocol.md UDP-12).
    pub fn send(&mut self, range: Range<u64>, request: Request, at: Instant) {
        if request == 0 {
            self.queue.push_back(Departing { range, request, at });
            return;
        }
        self.queue.retain_mut(|waiting| {
            let overlaps = waiting.range.start < range.end && range.start < waiting.range.end;
            if waiting.request != 0 && overlaps {
                // An older retransmission that overlaps keeps only its bytes before the new one.
                // The builder misses the older retransmission's remaining bytes and requests them
                // again.
                waiting.range.end = waiting.range.end.min(range.start);
            }
            !waiting.range.is_empty()
        });
        let first = self.queue.partition_point(|waiting| waiting.request != 0);
        if first < MAX_RESENDS {
            self.queue.insert(first, Departing { range, request, at });
        }
    }

    /// Returns true if retransmissions that the builder requested wait to be sent.
    pub fn is_answering(&self) -> bool {
        self.queue.front().is_some_and(|front| front.request != 0)
    }

    /// Sends queued records and data, as far as the socket takes them.
    ///
    /// # Errors
    /// Returns a [`LaneEnd`], after which the connection must be dropped.
    pub fn poll_flush(
        &mut self,
        cx: &mut Context<'_>,
        core: &mut SourceCore,
        lane: LaneIndex,
    ) -> Poll<Result<(), LaneEnd>> {
        self.until = None;
        let mut was_full = false;
        loop {
            // Records acknowledge the builder's requests, so they are sent after the data that
            // answers these requests.
            let answers = self.is_answering();
            let sent = match (self.records.is_empty(), self.queue.is_empty()) {
                (true, true) => return Poll::Ready(Ok(())),
                (false, _) if !answers => self.send_records(),
                _ => self.send_train(core, lane),
            };
            match sent {
                Ok(()) => {}
                // An error that ICMP reports makes a socket look writable forever, so readiness is
                // trusted for one try only.
                Err(SendError::Full) if std::mem::replace(&mut was_full, true) => {
                    self.until = Some(clock::now() + FULL_AGAIN);
                    return Poll::Pending;
                }
                Err(SendError::Full) => match self.socket.poll_writable(cx)? {
                    Poll::Ready(()) => {}
                    Poll::Pending => return Poll::Pending,
                },
                Err(SendError::TooFarAhead { until }) => {
                    self.until = Some(until);
                    return Poll::Pending;
                }
                Err(SendError::TooLarge) => return Poll::Ready(Err(LaneEnd::PathShrank(self.path.mtu))),
                Err(SendError::Io(error)) => return Poll::Ready(Err(error.into())),
            }
        }
    }

    /// Returns the time at which to flush again, if the kernel currently takes no more trains.
    pub fn next_timeout(&self) -> Option<Instant> {
        self.until
    }

    /// Returns counts of the trains that were handed to the kernel.
    pub fn trains(&mut self) -> TrainReport {
        // The counts of an unusable socket cannot be read, and are reported as zero.
        let counts = self.socket.counts().unwrap_or_default().trains;
        TrainReport {
            send_drops: counts.dropped_here + counts.missed + counts.invalid,
            segmentation_refused: counts.gso_refused,
            uncut: counts.uncut,
        }
    }

    /// Returns the path that this lane's datagrams take to the builder.
    pub fn path(&self) -> Path {
        self.path
    }

    fn send_records(&mut self) -> Result<(), SendError> {
        if self.tags.is_some() {
            DatagramHeader::blank_checksum(&mut self.records);
        }
        let tag = match (&mut self.tags, self.records.split_first_chunk()) {
            (Some(tags), Some((header, body))) => Some(tags.tag(header, [body])),
            _ => None,
        };
        let length = self.records.len() + tag.map_or(0, |tag| tag.len());
        let length = u16::try_from(length).unwrap_or(u16::MAX);
        let slices = [&self.records[..], tag.as_ref().map_or(&[], |tag| &tag[..])].map(IoSlice::new);
        // The records must not depart before the trains sent earlier, which may answer the request
        // that the records acknowledge.
        self.socket.send_train(&slices[..1 + usize::from(tag.is_some())], length, self.last_at)?;
        self.records.clear();
        Ok(())
    }

    /// Sends the next queued segments as one train, as many as fit.
    fn send_train(&mut self, core: &mut SourceCore, lane: LaneIndex) -> Result<(), SendError> {
        let others_answer = self.queue.get(1).is_some_and(|next| next.request != 0);
        let frame = DATAGRAM_HEADER + self.tag_length();
        let Some(departing) = self.queue.front_mut() else { return Ok(()) };
        let segment = self.path.datagram - frame;
        let end = departing.range.end.min(departing.range.start + (self.most * segment) as u64);
        let range = departing.range.start..end;
        let is_part = departing.request != 0 && end < departing.range.end;
        core.set_answering(lane, is_part || others_answer);
        let Some(sealing) = core.sealing(lane, departing.request) else {
            self.queue.clear();
            return Ok(());
        };
        let mut cut = Cut::into_segments(segment);
        let covered = core.pieces(lane, range.clone(), PIECES, |piece| cut.push(piece));
        if covered == 0 {
            // These bytes were committed after the builder requested them again, so the builder has
            // them.
            departing.range.start = end.min(range.start + segment as u64);
        } else {
            let length = cut.finish(covered < end - range.start);
            let count = cut.count();
            cut.seal(sealing, range.start, &mut self.headers, &mut self.tags);
            let slices = cut.slices(&self.headers);
            let datagram = segment + frame;
            let sent = self.socket.send_train(&slices, datagram as u16, Some(departing.at))?;
            // If the kernel does not segment the train, only some of its datagrams may have been
            // sent.
            let whole = sent >= length + count as usize * frame;
            let (count, length) =
                if whole { (count, length) } else { ((sent / datagram) as u32, sent / datagram * segment) };
            departing.range.start += length as u64;
            let sent = departing.range.start;
            if let Some((_, at)) = self.follows.take_if(|(from, _)| departing.request == 0 && *from < sent) {
                core.record_grant_answer(clock::now().since(at));
            }
            self.last_at = Some(departing.at);
            core.handle_sent(lane, count);
        }
        if departing.range.is_empty() {
            self.queue.pop_front();
        }
        Ok(())
    }
}
