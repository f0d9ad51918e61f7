//! [`SourceDatagrams`]: the source's end of a lane over datagrams.

use std::{
    task::{Context, Poll},
    time::Duration,
};

use evb_core::{
    index::LaneIndex,
    lane::{Tags, Unbelieved},
    source::{DatagramEnd, SourceCore, Train},
    time::Instant,
    units::Bytes,
    wire::control::TrainReport,
};
use tokio::net::TcpStream;

use super::{Path, poll_end};
use crate::{
    clock,
    handshake::RefusalLog,
    lane::{LaneEnd, Progress},
    pacing::SendError,
    udp::DatagramSocket,
};

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
    /// The machine of this end.
    pub lane: DatagramEnd,
    /// Log of datagrams that other senders forged, or that arrived before.
    unbelieved: RefusalLog,
    /// Time of the next attempt to send, if the kernel currently takes no more trains.
    until: Option<Instant>,
    /// The grant that is being measured: its first lane byte, and the time at which it was read.
    follows: Option<(u64, Instant)>,
}

impl SourceDatagrams {
    /// Creates the source's end after the handshake, on a socket that has reached the builder by
    /// `path`. `tags` is the state that the probes of the path used.
    pub fn new(stream: TcpStream, mut socket: DatagramSocket, path: Path, tags: Tags) -> Self {
        socket.sample_waits();
        let (lane, unbelieved) = (DatagramEnd::new(path.datagram, tags), RefusalLog::new("the source"));
        Self { stream, socket, path, lane, unbelieved, until: None, follows: None }
    }

    /// Limits trains to the given number of bytes, but at least one datagram.
    pub fn in_trains_of(self, bytes: Option<Bytes>) -> Self {
        Self { lane: self.lane.in_trains_of(bytes), ..self }
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
        let Self { socket, lane: end, unbelieved, follows, .. } = self;
        let progress = socket.poll_recv(cx, TURN, |from, run| {
            let granted = core.granted(lane);
            for datagram in run.datagrams() {
                match end.receive(core, lane, datagram, now) {
                    // Damaged datagrams are ignored, because the builder repeats them like lost
                    // ones. The socket is connected, so that other senders can reach it only with a
                    // forged source address.
                    Ok(None | Some(Unbelieved::Datagram(_) | Unbelieved::Stale)) => {}
                    Ok(Some(fault)) => {
                        unbelieved.record(format_args!("ignored a UDP packet from {from}"), &fault);
                    }
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
            let transmit = |Train { slices, datagram, at }: Train<'_>| {
                self.socket.send_train(slices, u16::try_from(datagram).unwrap_or(u16::MAX), at)
            };
            match self.lane.send_train(core, lane, transmit) {
                Ok(None) => return Poll::Ready(Ok(())),
                Ok(Some(reached)) => {
                    if let Some((_, at)) = self.follows.take_if(|(from, _)| *from < reached) {
                        core.record_grant_answer(clock::now().since(at));
                    }
                }
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
}
