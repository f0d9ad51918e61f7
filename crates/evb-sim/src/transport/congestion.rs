//! The congestion window of a TCP sender, with slow start, congestion avoidance and NewReno
//! recovery.

/// Number of segments that may be under way before the first acknowledgement (RFC 6928).
const INITIAL_WINDOW: u64 = 10;

/// Number of duplicate acknowledgements that indicate a loss (RFC 5681 §3.2).
const DUPLICATES: u32 = 3;

#[derive(Debug)]
pub(super) struct Congestion {
    segment: u64,
    window: u64,
    threshold: u64,
    duplicates: u32,
    /// Offset whose acknowledgement ends the fast recovery.
    recovery: Option<u64>,
    /// Offset below which losses cause no second reduction (RFC 6582 §3.2).
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

    /// Returns the congestion window, the number of bytes that may be under way.
    pub(super) fn window(&self) -> u64 {
        self.window
    }

    /// Processes an acknowledgement of new bytes up to `upto`. Returns true if the next missing
    /// segment must be retransmitted immediately.
    pub(super) fn acknowledged(&mut self, upto: u64, bytes: u64, was_limited: bool) -> bool {
        self.duplicates = 0;
        match self.recovery {
            Some(end) if upto >= end => {
                self.recovery = None;
                self.window = self.threshold;
                false
            }
            Some(_) => {
                // An acknowledgement below the end of the recovery means that another segment is
                // missing (RFC 6582 §3.2, step 3).
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

    /// Processes an acknowledgement of no new bytes. Returns true if the first missing segment must
    /// be retransmitted.
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

    /// Reduces the window after a retransmission timeout (RFC 5681 §3.1, equation 4).
    pub(super) fn timed_out(&mut self, in_flight: u64, highest: u64) {
        self.threshold = self.reduced(in_flight);
        self.window = self.segment;
        self.duplicates = 0;
        self.recovery = None;
        self.recover = highest;
    }

    /// Reduces the window to its initial size at most, after a long time without sending.
    pub(super) fn restart(&mut self) {
        self.window = self.window.min(INITIAL_WINDOW * self.segment);
    }

    fn reduced(&self, in_flight: u64) -> u64 {
        (in_flight / 2).max(2 * self.segment)
    }
}
