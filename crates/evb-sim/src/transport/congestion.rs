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
    /// Offset below which a full transmit queue causes no second reduction.
    held_back: u64,
    /// Largest number of bytes by which an acknowledgement opens the window in slow start.
    step: u64,
    /// True if the receiver reports the segments beyond a gap.
    is_selective: bool,
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
            held_back: 0,
            step: segment,
            is_selective: false,
        }
    }

    /// Counts the acknowledged bytes of up to two segments (RFC 3465 with L = 2), and leaves the
    /// choice of segments in a recovery to the reports of the receiver (RFC 6675).
    pub(super) fn with_reports(self) -> Self {
        Self { step: 2 * self.segment, is_selective: true, ..self }
    }

    /// Sets the window from which the connection starts.
    pub(super) fn starting_at(self, window: u64) -> Self {
        Self { window: window.max(self.segment), ..self }
    }

    /// Returns true between the detection of a loss and its repair.
    pub(super) fn is_recovering(&self) -> bool {
        self.recovery.is_some()
    }

    /// Returns true while the window is below the threshold of slow start.
    pub(super) fn is_in_slow_start(&self) -> bool {
        self.window < self.threshold
    }

    /// Returns true until the first reduction of the window.
    pub(super) fn is_first_start(&self) -> bool {
        self.threshold == u64::MAX
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
            Some(_) if self.is_selective => false,
            Some(_) => {
                // An acknowledgement below the end of the recovery means that another segment is
                // missing (RFC 6582 §3.2, step 3).
                self.window = self.window.saturating_sub(bytes).max(self.segment) + self.segment;
                true
            }
            None => {
                if was_limited && self.is_in_slow_start() {
                    self.window += bytes.min(self.step);
                } else if was_limited {
                    let counted = if self.is_selective { bytes.min(self.step) } else { self.segment };
                    self.window += (self.segment * counted / self.window).max(1);
                }
                false
            }
        }
    }

    /// Processes an acknowledgement of no new bytes. Returns true if the first missing segment must
    /// be retransmitted.
    pub(super) fn duplicate(&mut self, acknowledged: u64, in_flight: u64, next: u64) -> bool {
        if self.recovery.is_some() {
            if !self.is_selective {
                self.window += self.segment;
            }
            return false;
        }
        self.duplicates += 1;
        if self.duplicates != DUPLICATES || acknowledged < self.recover {
            return false;
        }
        self.threshold = self.reduced(in_flight);
        let arrived = if self.is_selective { 0 } else { u64::from(DUPLICATES) };
        self.window = self.threshold + arrived * self.segment;
        self.recovery = Some(next);
        self.recover = next;
        true
    }

    /// Reduces the window by half because the transmit queue of the host is full, at most once in a
    /// round trip. A loss that is being repaired has already reduced it.
    pub(super) fn queue_was_full(&mut self, acknowledged: u64, in_flight: u64, next: u64) {
        if self.is_recovering() || acknowledged < self.held_back {
            return;
        }
        self.threshold = self.reduced(in_flight);
        self.window = self.threshold;
        self.held_back = next;
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
