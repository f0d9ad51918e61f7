//! A reliable byte stream between two hosts: a model of TCP that is as simple as possible but still
//! shows its throughput collapse under incast.
//!
//! | property | value | source |
//! |---|---|---|
//! | headers of a segment | 66 bytes: Ethernet 14, IPv4 20, TCP 32 | RFC 894, 791, 7323 |
//! | maximum segment | MTU − 52 bytes | RFC 9293 §3.7.1, RFC 7323 §1.3 |
//! | sending | immediately, whatever the size (no Nagle) | as `TCP_NODELAY` does |
//! | acknowledgements | cumulative; on every second segment | RFC 5681 §4.2 |
//! | … delayed | with the next data, or after 40 ms | Linux |
//! | initial window | 10 segments | RFC 6928 |
//! | slow start | one segment per acknowledgement, if window-limited | RFC 5681 §3.1, RFC 7661 |
//! | congestion avoidance | one segment per round trip, if window-limited | the same |
//! | fast retransmit | on the third duplicate acknowledgement | RFC 5681 §3.2 |
//! | fast recovery | NewReno, partial acknowledgements | RFC 6582 |
//! | restart after idle | initial window after one retransmission timeout | RFC 5681 §4.1 |
//! | retransmission timeout | smoothed round trip + 4 deviations, doubling up to 60 s | RFC 6298 |
//! | … at least | 200 ms | Linux; RFC 6298 §2.4 has 1 s |
//!
//! [`Endpoint::with_reports`] replaces parts of this, for flows over long fat paths:
//!
//! | property | value | source |
//! |---|---|---|
//! | slow start | up to two segments per acknowledgement | RFC 3465 with L = 2 |
//! | fast recovery | selective acknowledgements: all gaps in one recovery | RFC 2018, 6675 |
//! | receive window | as given | RFC 9293 §3.8 |
//! | full transmit queue | half the window, at most once a round trip | Linux: `tcp_enter_cwr` |
//!
//! Not modelled: connection set-up, a receive window otherwise (hosts read at once), segmentation
//! offload.

mod scoreboard;
mod sent;
mod congestion;
mod receiver;
mod sender;
#[cfg(test)]
mod tests;

use bytes::BytesMut;
use evb_core::{
    time::{Instant, earlier},
    units::Bytes,
};
use evb_shaper::cost::TCP_FRAME_HEADERS;

use receiver::Receiver;
use sender::Sender;

/// A TCP segment, with data of one direction and the acknowledgement for the opposite direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TcpSegment {
    /// Stream offset of the first byte.
    pub(crate) offset: u64,
    /// The data bytes; empty for a bare acknowledgement.
    pub(crate) payload: bytes::Bytes,
    /// Acknowledgement: the stream offset below which all bytes of the opposite direction have
    /// arrived.
    pub(crate) acknowledged: u64,
    /// Time at which this segment was sent (RFC 7323 TSval).
    pub(crate) sent_at: Instant,
    /// Time at which the acknowledged segment was sent (RFC 7323 TSecr).
    pub(crate) echo: Option<Instant>,
    /// Begin and end of the segment beyond a gap that caused this acknowledgement (the first block
    /// of RFC 2018). Each such segment causes an acknowledgement, so that one block suffices.
    pub(crate) beyond_gap: Option<(u64, u64)>,
}

/// One end of a connection, which sends and receives a stream.
///
/// The caller must call `poll` until it returns `None` after all inputs with the same `now`.
#[derive(Debug)]
pub(crate) struct Endpoint {
    sender: Sender,
    receiver: Receiver,
}

impl TcpSegment {
    /// Returns the L2 bytes of the segment's frame, which it takes in a port's queue.
    pub(crate) fn frame(&self) -> Bytes {
        Bytes::new(TCP_FRAME_HEADERS + self.payload.len() as u64)
    }
}

impl Endpoint {
    /// Creates an end of an established connection on links of the given MTU.
    pub(crate) fn new(mtu: u32) -> Self {
        Self { sender: Sender::new(mtu), receiver: Receiver::default() }
    }

    /// Sets the receive window of the opposite end, and uses its reports of segments beyond a gap.
    pub(crate) fn with_reports(self, receive_window: u64) -> Self {
        Self { sender: self.sender.with_reports(receive_window), ..self }
    }

    /// Sets the congestion window from which the connection starts.
    pub(crate) fn starting_at(self, window: u64) -> Self {
        Self { sender: self.sender.starting_at(window), ..self }
    }

    /// Returns the number of segments that the congestion window holds.
    pub(crate) fn window_segments(&self) -> u64 {
        self.sender.congestion().window() / self.sender.segment()
    }

    /// Returns true until the first reduction of the congestion window.
    pub(crate) fn is_first_start(&self) -> bool {
        self.sender.congestion().is_first_start()
    }

    /// Returns true if [`Self::poll`] returns a segment with data now.
    pub(crate) fn is_ready(&self) -> bool {
        self.sender.is_ready()
    }

    /// Reduces the congestion window, because the transmit queue of the host is full.
    pub(crate) fn handle_full_queue(&mut self) {
        self.sender.handle_full_queue();
    }

    /// Returns the buffer to which bytes to be sent are appended.
    pub(crate) fn outgoing(&mut self) -> &mut BytesMut {
        self.sender.queue()
    }

    /// Returns the bytes that have arrived in order; the caller removes those that it has read.
    pub(crate) fn incoming(&mut self) -> &mut BytesMut {
        self.receiver.ready()
    }

    /// Frees the memory of the bytes that arrived if all have been read.
    pub(crate) fn release(&mut self) {
        self.receiver.release();
    }

    /// Returns the end offset of the bytes that were appended for sending.
    pub(crate) fn queued_up_to(&self) -> u64 {
        self.sender.queued_up_to()
    }

    /// Processes an incoming segment. Returns the number of new bytes to read.
    pub(crate) fn handle_segment(&mut self, segment: &TcpSegment, now: Instant) -> usize {
        self.sender.handle_acknowledgement(segment, now);
        self.receiver.handle_data(segment, now)
    }

    /// Returns the next segment to send now.
    pub(crate) fn poll(&mut self, now: Instant) -> Option<TcpSegment> {
        let data = self.sender.poll(now);
        if data.is_none() && self.receiver.due().is_none_or(|due| due > now) {
            return None;
        }
        let (offset, payload) = data.unwrap_or_else(|| (self.sender.next_offset(), bytes::Bytes::new()));
        let (acknowledged, echo, beyond_gap) = self.receiver.acknowledge();
        Some(TcpSegment { offset, payload, acknowledged, sent_at: now, echo, beyond_gap })
    }

    /// Returns the time at which the retransmission timer or the timer of a delayed acknowledgement
    /// fires.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        earlier(self.sender.next_timeout(), self.receiver.due())
    }

    /// Handles the timers that are due.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        self.sender.handle_timeout(now);
    }

    /// Returns the number of retransmitted segments.
    pub(crate) fn retransmits(&self) -> u64 {
        self.sender.retransmits()
    }

    /// Returns the number of retransmission timeouts.
    pub(crate) fn timeouts(&self) -> u64 {
        self.sender.timeouts()
    }
}
