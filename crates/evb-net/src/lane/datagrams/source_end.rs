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

/// Pieces of fragments that one send takes, with a header in front of each segment: fewer than
/// `UIO_MAXIOV`.
const PIECES: usize = 800;

/// Time to wait after the socket was full although it had just reported room.
const FULL_AGAIN: Duration = Duration::from_micros(200);

/// Datagrams of the builder taken in one turn.
const TURN: usize = 256;

/// Sends announcements and permitted data as datagrams, a train of segments at a time, from the
/// memory in which readout left it.
#[derive(Debug)]
pub struct SourceDatagrams {
    /// The connection of the handshake: its end is ours.
    stream: TcpStream,
    socket: DatagramSocket,
    path: Path,
    /// Most datagrams in one train.
    pub(super) most: usize,
    /// Trains that wait for their departure.
    queue: VecDeque<Departing>,
    /// One datagram of records that is not sent yet.
    pub records: BytesMut,
    tags: Option<DatagramTags>,
    /// Log of datagrams that come from elsewhere, or came before.
    unbelieved: RefusalLog,
    headers: Vec<Envelope>,
    /// The kernel holds as many trains as it can until then.
    until: Option<Instant>,
    /// Departure time of the last train.
    last_at: Option<Instant>,
    /// A grant that is followed: its first lane byte, and when it was read.
    follows: Option<(u64, Instant)>,
}

#[derive(Debug)]
struct Departing {
    range: Range<u64>,
    request: Request,
    at: Instant,
}

impl SourceDatagrams {
    /// Creates the end after the handshake, of a socket that has reached the builder by `path`.
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
            unbelieved: RefusalLog::new("source's datagrams"),
            headers: Vec::with_capacity(MAX_DATAGRAMS),
            until: None,
            last_at: None,
            follows: None,
        }
    }

    /// Has datagrams carry tags: those with which the path was found.
    pub fn tagged(self, tags: Option<DatagramTags>) -> Self {
        Self { tags, ..self }
    }

    /// Limits trains to that many bytes, but at least one datagram.
    pub fn in_trains_of(self, bytes: Option<Bytes>) -> Self {
        let most = bytes.map_or(self.most, |bytes| bytes.as_usize() / self.path.datagram);
        Self { most: most.clamp(1, self.most), ..self }
    }

    /// Returns the bytes that a datagram needs beside its header and body.
    fn tag_length(&self) -> usize {
        if self.tags.is_some() { TAG_LENGTH } else { 0 }
    }

    /// The most bytes of a datagram, its tag left out.
    pub fn datagram(&self) -> usize {
        self.path.datagram - self.tag_length()
    }

    /// Takes in what the builder says. [`Progress::More`]: there may be more.
    ///
    /// # Errors
    /// [`LaneEnd`]; drop the connection.
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
                    // Damaged datagrams are repeated like lost ones. The socket is connected, so
                    // that others can reach it only with a forged source address.
                    Err(Unbelieved::Datagram(_)) => continue,
                    Err(fault) => {
                        unbelieved.record(from, &fault);
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

    /// Queues lane bytes that depart at `at`. Repetitions go before first transmissions, and
    /// replace older answers with the same bytes (docs/reference/protocol.md UDP-12).
    pub fn send(&mut self, range: Range<u64>, request: Request, at: Instant) {
        if request == 0 {
            self.queue.push_back(Departing { range, request, at });
            return;
        }
        self.queue.retain_mut(|waiting| {
            let overlaps = waiting.range.start < range.end && range.start < waiting.range.end;
            if waiting.request != 0 && overlaps {
                // What is left beside the new one behind it is missed, and asked for once more.
                waiting.range.end = waiting.range.end.min(range.start);
            }
            !waiting.range.is_empty()
        });
        let first = self.queue.partition_point(|waiting| waiting.request != 0);
        if first < MAX_RESENDS {
            self.queue.insert(first, Departing { range, request, at });
        }
    }

    /// Returns true if answers to the builder's requests wait to be sent.
    pub fn is_answering(&self) -> bool {
        self.queue.front().is_some_and(|front| front.request != 0)
    }

    /// Sends what is queued, as far as the socket takes it.
    ///
    /// # Errors
    /// [`LaneEnd`]; drop the connection.
    pub fn poll_flush(
        &mut self,
        cx: &mut Context<'_>,
        core: &mut SourceCore,
        lane: LaneIndex,
    ) -> Poll<Result<(), LaneEnd>> {
        self.until = None;
        let mut was_full = false;
        loop {
            // Records say that a request was heard: they follow what answers it.
            let answers = self.is_answering();
            let sent = match (self.records.is_empty(), self.queue.is_empty()) {
                (true, true) => return Poll::Ready(Ok(())),
                (false, _) if !answers => self.send_records(),
                _ => self.send_train(core, lane),
            };
            match sent {
                Ok(()) => {}
                // An error that ICMP reports makes a socket look writable for ever, so readiness is
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

    /// Returns the time of the next flush, where the kernel holds trains for their departure.
    pub fn next_timeout(&self) -> Option<Instant> {
        self.until
    }

    /// Returns counts of the trains that were handed to the kernel.
    pub fn trains(&mut self) -> TrainReport {
        // On a socket that is broken, there is nothing to be read any more.
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
        // It must not depart before the trains queued earlier: they may be the answer to what it
        // acknowledges.
        self.socket.send_train(&slices[..1 + usize::from(tag.is_some())], length, self.last_at)?;
        self.records.clear();
        Ok(())
    }

    /// Sends the next segments that are queued, as many as go at once.
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
            // Committed since it was asked for again: the builder has it.
            departing.range.start = end.min(range.start + segment as u64);
        } else {
            let length = cut.finish(covered < end - range.start);
            let count = cut.count();
            cut.seal(sealing, range.start, &mut self.headers, &mut self.tags);
            let slices = cut.slices(&self.headers);
            let datagram = segment + frame;
            let sent = self.socket.send_train(&slices, datagram as u16, Some(departing.at))?;
            // Without segmentation, perhaps not all of them.
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
