//! Types without values in the place of those that need the feature `udp`: the roles compile
//! without it, and refuse to use datagrams before a lane begins.

use std::{
    convert::Infallible,
    io,
    net::SocketAddr,
    ops::Range,
    task::{Context, Poll},
    time::Duration,
};

use bytes::BytesMut;
use evb_core::{
    builder::BuilderCore,
    grant::GrantPolicy,
    id::SourceId,
    index::LaneIndex,
    lane::Request,
    source::SourceCore,
    time::Instant,
    units::Bytes,
    wire::{
        control::{DatagramReport, TrainReport},
        datagram::Association,
    },
};
use tokio::net::TcpStream;

use super::{LaneEnd, Progress};
use crate::{handshake::Channel, security::DatagramTags, udp::DatagramSocket};

/// Reason why datagrams cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {}

/// Properties of a path.
#[derive(Clone, Copy, Debug)]
pub struct Path {
    /// Size of the largest packet.
    pub mtu: u32,
    /// Size of the largest datagram.
    pub datagram: usize,
    /// Round-trip time.
    pub round_trip: Duration,
    never: Infallible,
}

/// Finds the largest packets that reach the builder.
///
/// # Errors
/// None, as there is no socket.
#[expect(clippy::unused_async, reason = "the same as with the feature")]
pub async fn probe_tagged(
    socket: &mut DatagramSocket,
    _peer: SocketAddr,
    _association: Association,
    _mtu: u32,
    _estimate: Duration,
    _tags: &mut Option<DatagramTags>,
) -> Result<Path, PathError> {
    match *socket {}
}

/// Returns 0, the number of no connection.
pub fn draw_connection() -> u32 {
    0
}

/// Returns `None`: no datagram needs an estimate.
pub fn round_trip(_stream: &TcpStream) -> Option<Duration> {
    None
}

/// A source's end of a lane over datagrams.
#[derive(Debug)]
pub struct SourceDatagrams {
    /// Records that wait to be sent.
    pub records: BytesMut,
    never: Infallible,
}

impl SourceDatagrams {
    /// Creates the end of a path.
    pub fn new(_stream: TcpStream, _socket: DatagramSocket, path: Path) -> Self {
        match path.never {}
    }

    /// Adds the tags of a protected lane.
    pub fn tagged(self, _tags: Option<DatagramTags>) -> Self {
        self
    }

    /// Limits the bytes that are handed to the kernel at once.
    pub fn in_trains_of(self, _bytes: Option<Bytes>) -> Self {
        self
    }

    /// Returns the size of a datagram.
    pub fn datagram(&self) -> usize {
        match self.never {}
    }

    /// Processes what the builder sends.
    ///
    /// # Errors
    /// None, as there is no lane.
    pub fn poll_recv(
        &mut self,
        _cx: &mut Context<'_>,
        _core: &mut SourceCore,
        _lane: LaneIndex,
        _now: Instant,
    ) -> Result<Progress, LaneEnd> {
        match self.never {}
    }

    /// Queues lane bytes.
    pub fn send(&mut self, _range: Range<u64>, _request: Request, _at: Instant) {
        match self.never {}
    }

    /// Returns true if the next datagram answers a request.
    pub fn is_answering(&self) -> bool {
        match self.never {}
    }

    /// Sends what is queued.
    ///
    /// # Errors
    /// None, as there is no lane.
    pub fn poll_flush(
        &mut self,
        _cx: &mut Context<'_>,
        _core: &mut SourceCore,
        _lane: LaneIndex,
    ) -> Poll<Result<(), LaneEnd>> {
        match self.never {}
    }

    /// Returns the time at which the lane needs to be polled again.
    pub fn next_timeout(&self) -> Option<Instant> {
        match self.never {}
    }

    /// Returns the counters of trains.
    pub fn trains(&mut self) -> TrainReport {
        match self.never {}
    }
}

/// A builder's ends of all lanes over datagrams.
#[derive(Debug)]
pub enum BuilderDatagrams {}

impl BuilderDatagrams {
    /// Creates the ends.
    pub fn new(socket: DatagramSocket, _sources: Vec<SourceId>) -> Self {
        match socket {}
    }

    /// Adds a lane.
    pub fn open(&mut self, _lane: LaneIndex, _channel: impl Into<Channel>) {
        match *self {}
    }

    /// Closes a lane.
    pub fn close(&mut self, _lane: LaneIndex) {
        match *self {}
    }

    /// Returns true if a lane is open.
    pub fn is_open(&self, _lane: LaneIndex) -> bool {
        match *self {}
    }

    /// Processes what the sources send, as far as it has been announced to the task.
    ///
    /// # Errors
    /// None, as there is no lane.
    pub fn poll_recv<P: GrantPolicy>(
        &mut self,
        _cx: &mut Context<'_>,
        _core: &mut BuilderCore<P>,
        _now: Instant,
        _ended: impl FnMut(LaneIndex, LaneEnd),
    ) -> io::Result<Progress> {
        match *self {}
    }

    /// Processes what has arrived.
    ///
    /// # Errors
    /// None, as there is no lane.
    pub fn recv<P: GrantPolicy>(
        &mut self,
        _core: &mut BuilderCore<P>,
        _now: Instant,
        _ended: impl FnMut(LaneIndex, LaneEnd),
    ) -> io::Result<Progress> {
        match *self {}
    }

    /// Sends a datagram of grants.
    pub fn send<P: GrantPolicy>(&mut self, _core: &mut BuilderCore<P>, _lane: LaneIndex, _now: Instant) {
        match *self {}
    }

    /// Returns the counters of the socket.
    pub fn report(&mut self) -> DatagramReport {
        match *self {}
    }
}
