//! [`SourceDatagrams`]: the source's end of a lane over datagrams.

use std::{
    collections::VecDeque,
    io::IoSlice,
    ops::Range,
    task::{Context, Poll},
};

use bytes::BytesMut;
use evb_core::{
    lane::{DatagramFault, Request},
    source::SourceCore,
    time::Instant,
    wire::datagram::{DATAGRAM_HEADER, DatagramHeader},
};
use tokio::net::TcpStream;

use super::{Path, poll_end, train::Cut};
use crate::{
    lane::{LaneEnd, Progress},
    pacing::{MAX_DATAGRAMS, MAX_TRAIN, SendError},
    udp::DatagramSocket,
};

/// How many pieces of fragments one send takes, with a header in front of each segment: fewer than `UIO_MAXIOV`.
const PIECES: usize = 800;

/// How many of the builder's datagrams are taken in one turn.
const TURN: usize = 256;

/// Sends announcements and permitted data as datagrams, a train of segments at once, from the memory in which readout left it.
#[derive(Debug)]
pub struct SourceDatagrams {
    /// The connection of the handshake: its end is ours.
    stream: TcpStream,
    socket: DatagramSocket,
    path: Path,
    /// What departs, and is not sent yet.
    queue: VecDeque<Departing>,
    /// One datagram of records that is not sent yet.
    pub records: BytesMut,
    headers: Vec<[u8; DATAGRAM_HEADER]>,
    /// The kernel holds as many trains as it can until then.
    until: Option<Instant>,
}

#[derive(Debug)]
struct Departing {
    range: Range<u64>,
    request: Request,
    at: Instant,
}

impl SourceDatagrams {
    /// For a connection after its handshake, and a socket that has reached the builder by `path`.
    pub fn new(stream: TcpStream, socket: DatagramSocket, path: Path) -> Self {
        Self {
            stream,
            socket,
            path,
            queue: VecDeque::new(),
            records: BytesMut::new(),
            headers: Vec::with_capacity(MAX_DATAGRAMS),
            until: None,
        }
    }

    /// Takes in what the builder says. [`Progress::More`]: there may be more.
    ///
    /// # Errors
    /// [`LaneEnd`]; drop the connection.
    pub fn poll_recv(
        &mut self,
        cx: &mut Context<'_>,
        core: &mut SourceCore,
        lane: usize,
        now: Instant,
        recycle: &mut dyn FnMut(bytes::Bytes),
    ) -> Result<Progress, LaneEnd> {
        poll_end(&mut self.stream, cx)?;
        let mut outcome = Ok(());
        let progress = self.socket.poll_recv(cx, TURN, |_, bytes| {
            // Damaged ones are repeated like lost ones; the socket is connected, so that nobody else reaches it.
            let Ok((header, body)) = DatagramHeader::open(bytes) else { return };
            match core.handle_datagram(lane, &header, body, now, &mut *recycle) {
                Ok(()) | Err(DatagramFault::Stale) => {}
                Err(fault) => outcome = Err(fault),
            }
        })?;
        outcome?;
        Ok(progress)
    }

    /// Queues lane bytes that depart at `at`: what was asked for again goes in front of first transmissions
    /// (docs/protocol.md UDP-12).
    pub fn send(&mut self, range: Range<u64>, request: Request, at: Instant) {
        let departing = Departing { range, request, at };
        if request == 0 {
            self.queue.push_back(departing);
        } else {
            let first = self.queue.partition_point(|waiting| waiting.request != 0);
            self.queue.insert(first, departing);
        }
    }

    /// Sends what is queued, as far as the socket takes it.
    ///
    /// # Errors
    /// [`LaneEnd`]; drop the connection.
    pub fn poll_flush(
        &mut self,
        cx: &mut Context<'_>,
        core: &mut SourceCore,
        lane: usize,
    ) -> Poll<Result<(), LaneEnd>> {
        self.until = None;
        loop {
            // Records say that a request was heard: they follow what answers it.
            let answers = self.queue.front().is_some_and(|front| front.request != 0);
            let sent = match (self.records.is_empty(), self.queue.is_empty()) {
                (true, true) => return Poll::Ready(Ok(())),
                (false, _) if !answers => self.send_records(),
                _ => self.send_train(core, lane),
            };
            match sent {
                Ok(()) => {}
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

    /// When to flush again, where the kernel holds trains for their departure.
    pub fn next_timeout(&self) -> Option<Instant> {
        self.until
    }

    /// How this lane's datagrams get to the builder.
    pub fn path(&self) -> Path {
        self.path
    }

    fn send_records(&mut self) -> Result<(), SendError> {
        let length = u16::try_from(self.records.len()).unwrap_or(u16::MAX);
        self.socket.send_train(&[IoSlice::new(&self.records)], length, None)?;
        self.records.clear();
        Ok(())
    }

    /// Sends the next segments that are queued, as many as go at once.
    fn send_train(&mut self, core: &mut SourceCore, lane: usize) -> Result<(), SendError> {
        let Some(departing) = self.queue.front_mut() else { return Ok(()) };
        let segment = self.path.datagram - DATAGRAM_HEADER;
        let segments = (MAX_TRAIN / self.path.datagram).clamp(1, MAX_DATAGRAMS);
        let end = departing.range.end.min(departing.range.start + (segments * segment) as u64);
        let range = departing.range.start..end;
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
            cut.seal(sealing, range.start, &mut self.headers);
            let slices = cut.slices(&self.headers);
            let datagram = segment + DATAGRAM_HEADER;
            let sent = self.socket.send_train(&slices, datagram as u16, Some(departing.at))?;
            // Without segmentation, perhaps not all of them.
            let whole = sent >= length + count as usize * DATAGRAM_HEADER;
            let (count, length) =
                if whole { (count, length) } else { ((sent / datagram) as u32, sent / datagram * segment) };
            departing.range.start += length as u64;
            core.handle_sent(lane, count);
        }
        if departing.range.is_empty() {
            self.queue.pop_front();
        }
        Ok(())
    }
}
