//! The receiving half of a TCP connection, which restores the order of segments and acknowledges
//! them.

use core::time::Duration;
use std::collections::BTreeMap;

use bytes::{Bytes, BytesMut};
use evb_core::time::Instant;

use super::TcpSegment;

/// Delay of an acknowledgement (TCP_DELACK_MIN of Linux); RFC 5681 §4.2 allows up to 500 ms.
const DELAY: Duration = Duration::from_millis(40);

#[derive(Debug, Default)]
pub(super) struct Receiver {
    ready: BytesMut,
    next: u64,
    /// Segments that arrived after a gap in the stream, by their offset.
    beyond: BTreeMap<u64, Bytes>,
    /// Time by which an acknowledgement must be sent; it may be sent earlier together with data.
    due: Option<Instant>,
    echo: Option<Instant>,
    /// The last segment beyond a gap since the last acknowledgement.
    beyond_gap: Option<(u64, u64)>,
}

impl Receiver {
    pub(super) fn ready(&mut self) -> &mut BytesMut {
        &mut self.ready
    }

    pub(super) fn release(&mut self) {
        if self.ready.is_empty() {
            self.ready = BytesMut::new();
        }
    }

    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Returns the cumulative acknowledgement, the timestamp to echo, and the report of a segment
    /// beyond a gap.
    pub(super) fn acknowledge(&mut self) -> (u64, Option<Instant>, Option<(u64, u64)>) {
        self.due = None;
        (self.next, self.echo.take(), self.beyond_gap.take())
    }

    pub(super) fn handle_data(&mut self, segment: &TcpSegment, now: Instant) -> usize {
        if segment.payload.is_empty() {
            return 0;
        }
        // The time stamp to echo is that of the earliest segment not yet acknowledged (RFC 7323
        // §4.3).
        self.echo = self.echo.or(Some(segment.sent_at));
        let in_order = segment.offset == self.next && self.beyond.is_empty();
        // The acknowledgement is sent immediately for every second segment in order, and for every
        // segment out of order.
        self.due = Some(if in_order && self.due.is_none() { now + DELAY } else { now });
        if segment.offset > self.next {
            self.beyond_gap = Some((segment.offset, segment.offset + segment.payload.len() as u64));
            self.beyond.entry(segment.offset).or_insert_with(|| segment.payload.clone());
            return 0;
        }
        let before = self.next;
        self.take(segment.offset, &segment.payload);
        while let Some(entry) = self.beyond.first_entry().filter(|entry| *entry.key() <= self.next) {
            let (offset, payload) = entry.remove_entry();
            self.take(offset, &payload);
        }
        (self.next - before) as usize
    }

    /// Appends the new bytes of a segment that begins at or below `next` to the stream.
    fn take(&mut self, offset: u64, payload: &[u8]) {
        let known = usize::try_from(self.next - offset).unwrap_or(usize::MAX);
        if let Some(news) = payload.get(known..) {
            self.ready.extend_from_slice(news);
            self.next += news.len() as u64;
        }
    }
}
