//! The congestion window: slow start, congestion avoidance, NewReno.

/// Segments that may be under way before the first acknowledgement (RFC 6928).
const INITIAL_WINDOW: u64 = 10;

/// Duplicate acknowledgements that stand for a loss (RFC 5681 §3.2).
const DUPLICATES: u32 = 3;

#[derive(Debug)]
pub(super) struct Congestion {
    segment: u64,
    window: u64,
    threshold: u64,
    duplicates: u32,
    /// In fast recovery until this offset is acknowledged.
    recovery: Option<u64>,
    /// No second reduction for losses below this offset (RFC 6582 §3.2).
    recover: u64,
}

impl Congestion {
    pub(super) fn new(segment: u64) -> Self {
        Self {
            segment,
            window: INITIAL_WINDOW * segment,
            threshold: u64::MAX,
            duplicates: 0,
            recovery: None,
            recover: 0,
        }
    }

    /// Bytes that may be under way.
    pub(super) fn window(&self) -> u64 {
        self.window
    }

    /// New bytes up to `upto` were acknowledged. Returns whether the next hole is to be filled at once.
    pub(super) fn acknowledged(&mut self, upto: u64, bytes: u64, was_limited: bool) -> bool {
        self.duplicates = 0;
        match self.recovery {
            Some(end) if upto >= end => {
                self.recovery = None;
                self.window = self.threshold;
                false
            }
            Some(_) => {
                // A partial acknowledgement: another segment is missing (RFC 6582 §3.2, step 3).
                self.window = self.window.saturating_sub(bytes).max(self.segment) + self.segment;
                true
            }
            None => {
                if was_limited && self.window < self.threshold {
                    self.window += bytes.min(self.segment);
                } else if was_limited {
                    self.window += (self.segment * self.segment / self.window).max(1);
                }
                false
            }
        }
    }

    /// An acknowledgement said nothing new. Returns whether the first hole is to be filled.
    pub(super) fn duplicate(&mut self, acknowledged: u64, in_flight: u64, next: u64) -> bool {
        if self.recovery.is_some() {
            self.window += self.segment;
            return false;
        }
        self.duplicates += 1;
        if self.duplicates != DUPLICATES || acknowledged < self.recover {
            return false;
        }
        self.threshold = self.reduced(in_flight);
        self.window = self.threshold + u64::from(DUPLICATES) * self.segment;
        self.recovery = Some(next);
        self.recover = next;
        true
    }

    /// The retransmission timer fired (RFC 5681 §3.1, equation 4).
    pub(super) fn timed_out(&mut self, in_flight: u64, highest: u64) {
        self.threshold = self.reduced(in_flight);
        self.window = self.segment;
        self.duplicates = 0;
        self.recovery = None;
        self.recover = highest;
    }

    /// Nothing was sent for so long that the window says nothing any more.
    pub(super) fn restart(&mut self) {
        self.window = self.window.min(INITIAL_WINDOW * self.segment);
    }

    fn reduced(&self, in_flight: u64) -> u64 {
        (in_flight / 2).max(2 * self.segment)
    }
}
