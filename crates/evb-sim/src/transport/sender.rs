//! The sending half of a TCP connection: the bytes under way, and the retransmission timer.

use core::time::Duration;

use bytes::{Bytes, BytesMut};
use evb_core::time::Instant;
use evb_shaper::cost::TCP_FRAME_HEADERS;

use super::{TcpSegment, congestion::Congestion, scoreboard::Scoreboard, sent::Sent};

/// Size of the headers that count towards the MTU: IPv4 and TCP, but not Ethernet.
const WITHIN_MTU: u64 = TCP_FRAME_HEADERS - 14;

/// Shortest time that a retransmission timeout adds to the smoothed round trip. Linux bounds the
/// deviation, not the sum, by `TCP_RTO_MIN` (`tcp_rtt_estimator` in `net/ipv4/tcp_input.c`), so a
/// long and steady round trip does not time out by itself.
const LEAST_MARGIN: Duration = Duration::from_millis(200);
/// Retransmission timeout before a round trip was measured (RFC 6298 §2.1).
const FIRST_TIMEOUT: Duration = Duration::from_secs(1);
/// Longest retransmission timeout (RFC 6298 §2.5).
const LONGEST_TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(super) struct Sender {
    /// Bytes of the stream from offset `acknowledged` on that were sent.
    sent: Sent,
    /// Bytes that were not sent yet.
    fresh: BytesMut,
    acknowledged: u64,
    next: u64,
    segment: u64,
    congestion: Congestion,
    /// The reports of the receiver; `None`: the sender does not use them. Boxed, because a large
    /// system has hundreds of thousands of senders, and only the long path uses reports.
    reports: Option<Box<Scoreboard>>,
    /// The receive window, in bytes.
    receive_window: u64,
    /// True if the first segment that is not acknowledged must be retransmitted before anything
    /// else.
    resend_first: bool,
    round_trip: Option<(Duration, Duration)>,
    timeout: Duration,
    timer: Option<Instant>,
    last_sent: Instant,
    retransmits: u64,
    timeouts: u64,
}

impl Sender {
    pub(super) fn new(mtu: u32) -> Self {
        let segment = u64::from(mtu.max(576)) - WITHIN_MTU;
        Self {
            sent: Sent::default(),
            fresh: BytesMut::new(),
            acknowledged: 0,
            next: 0,
            segment,
            congestion: Congestion::new(segment),
            reports: None,
            receive_window: u64::MAX,
            resend_first: false,
            round_trip: None,
            timeout: FIRST_TIMEOUT,
            timer: None,
            last_sent: Instant::ZERO,
            retransmits: 0,
            timeouts: 0,
        }
    }

    /// Sets the receive window, and uses the reports of the receiver.
    pub(super) fn with_reports(self, receive_window: u64) -> Self {
        let congestion = self.congestion.with_reports();
        Self { congestion, reports: Some(Box::default()), receive_window, ..self }
    }

    /// Sets the congestion window from which the connection starts.
    pub(super) fn starting_at(self, window: u64) -> Self {
        Self { congestion: self.congestion.starting_at(window), ..self }
    }

    pub(super) fn congestion(&self) -> &Congestion {
        &self.congestion
    }

    pub(super) fn segment(&self) -> u64 {
        self.segment
    }

    pub(super) fn queue(&mut self) -> &mut BytesMut {
        &mut self.fresh
    }

    pub(super) fn queued_up_to(&self) -> u64 {
        self.highest() + self.fresh.len() as u64
    }

    pub(super) fn next_offset(&self) -> u64 {
        self.next
    }

    pub(super) fn retransmits(&self) -> u64 {
        self.retransmits
    }

    pub(super) fn timeouts(&self) -> u64 {
        self.timeouts
    }

    pub(super) fn next_timeout(&self) -> Option<Instant> {
        self.timer
    }

    pub(super) fn handle_acknowledgement(&mut self, segment: &TcpSegment, now: Instant) {
        let (upto, highest) = (segment.acknowledged, self.highest());
        if let Some(reports) = &mut self.reports {
            reports.acknowledged(upto.max(self.acknowledged).min(highest));
            if let Some((begin, end)) =
                segment.beyond_gap.filter(|(begin, end)| *begin > upto && *end <= highest)
            {
                reports.add(begin, end);
            }
        }
        if upto > self.acknowledged && upto <= highest {
            let news = upto - self.acknowledged;
            let was_limited = self.is_limited();
            self.sent.acknowledged(news as usize);
            self.acknowledged = upto;
            self.next = self.next.max(upto);
            if let Some(echo) = segment.echo {
                self.measure(now.since(echo));
            }
            self.resend_first |= self.congestion.acknowledged(upto, news, was_limited);
            self.timer = (self.next > upto).then(|| now + self.timeout);
        } else if upto == self.acknowledged && segment.payload.is_empty() && self.in_flight() > 0 {
            self.resend_first |= self.congestion.duplicate(upto, self.in_flight(), self.next);
        }
    }

    pub(super) fn poll(&mut self, now: Instant) -> Option<(u64, Bytes)> {
        if core::mem::take(&mut self.resend_first) && self.in_flight() > 0 {
            let length = self.segment.min(self.in_flight());
            if let Some(reports) = &mut self.reports {
                reports.handle_filled(self.acknowledged + length);
            }
            return Some(self.emit(self.acknowledged, length, now));
        }
        if let Some((offset, length)) = self.gap() {
            if let Some(reports) = &mut self.reports {
                reports.handle_filled(offset + length);
            }
            return Some(self.emit(offset, length, now));
        }
        let waiting = self.waiting();
        if waiting == 0 {
            return None;
        }
        if self.in_flight() == 0 && self.last_sent + self.timeout < now {
            self.congestion.restart();
        }
        let length = self.segment.min(waiting);
        if !self.fits(length) {
            return None;
        }
        let offset = self.next;
        self.next += length;
        Some(self.emit(offset, length, now))
    }

    /// Returns true if [`Self::poll`] returns a segment now.
    pub(super) fn is_ready(&self) -> bool {
        let waiting = self.waiting();
        (self.resend_first && self.in_flight() > 0)
            || self.gap().is_some()
            || (waiting > 0 && self.fits(self.segment.min(waiting)))
    }

    /// Reduces the window because the transmit queue of the host is full.
    pub(super) fn handle_full_queue(&mut self) {
        self.congestion.queue_was_full(self.acknowledged, self.in_flight(), self.next);
    }

    /// Returns true if the congestion window limits the flow. With reports, half of the window is
    /// enough in slow start, as in Linux (`tcp_is_cwnd_limited`), so that a paced flow is limited
    /// too.
    fn is_limited(&self) -> bool {
        let (window, in_flight) = (self.congestion.window(), self.in_flight());
        let is_half = self.reports.is_some() && self.congestion.is_in_slow_start() && window < 2 * in_flight;
        in_flight + self.segment > window || is_half
    }

    /// Returns the gap in the receiver's reports that may be filled now.
    fn gap(&self) -> Option<(u64, u64)> {
        let reports = self.reports.as_ref().filter(|_| self.congestion.is_recovering())?;
        let (offset, length) = reports.next_gap(self.acknowledged, self.segment)?;
        (self.under_way() + length <= self.congestion.window()).then_some((offset, length))
    }

    /// Returns true if a new segment fits into both windows.
    fn fits(&self, length: u64) -> bool {
        self.under_way() + length <= self.congestion.window()
            && self.in_flight() + length <= self.receive_window
    }

    /// Returns the bytes that the congestion window counts.
    fn under_way(&self) -> u64 {
        match &self.reports {
            Some(reports) if self.congestion.is_recovering() => {
                reports.under_way(self.acknowledged, self.next)
            }
            _ => self.in_flight(),
        }
    }

    /// If the retransmission timer is due, reduces the window and continues sending from the first
    /// byte that is not acknowledged.
    pub(super) fn handle_timeout(&mut self, now: Instant) {
        if self.timer.is_none_or(|at| at > now) {
            return;
        }
        self.timeouts += 1;
        self.congestion.timed_out(self.in_flight(), self.highest());
        self.next = self.acknowledged;
        if let Some(reports) = &mut self.reports {
            reports.clear();
        }
        self.resend_first = false;
        self.timeout = (self.timeout * 2).min(LONGEST_TIMEOUT);
        self.timer = None;
    }

    fn emit(&mut self, offset: u64, length: u64, now: Instant) -> (u64, Bytes) {
        let highest = self.highest();
        self.retransmits += u64::from(offset < highest);
        let news = (offset + length).saturating_sub(highest);
        if news > 0 {
            self.sent.append(self.fresh.split_to(news as usize).freeze());
        }
        if self.fresh.is_empty() {
            // An idle stream occupies no memory.
            self.fresh = BytesMut::new();
        }
        let payload = self.sent.copy((offset - self.acknowledged) as usize, length as usize);
        self.last_sent = now;
        self.timer = self.timer.or_else(|| Some(now + self.timeout));
        (offset, payload)
    }

    fn in_flight(&self) -> u64 {
        self.next - self.acknowledged
    }

    /// Returns the end offset of the bytes that were sent.
    fn highest(&self) -> u64 {
        self.acknowledged + self.sent.len() as u64
    }

    /// Returns the number of bytes from `next` on.
    fn waiting(&self) -> u64 {
        self.queued_up_to() - self.next
    }

    /// Updates the timeout by RFC 6298 §2, with Linux's least margin; with timestamps on every
    /// segment, no sample is ambiguous.
    fn measure(&mut self, sample: Duration) {
        let (smoothed, deviation) = match self.round_trip {
            None => (sample, sample / 2),
            Some((smoothed, deviation)) => {
                let error = smoothed.abs_diff(sample);
                ((smoothed * 7 + sample) / 8, (deviation * 3 + error) / 4)
            }
        };
        self.round_trip = Some((smoothed, deviation));
        self.timeout = (smoothed + (deviation * 4).max(LEAST_MARGIN)).min(LONGEST_TIMEOUT);
    }
}
