//! [`BoardLog`]: the lines of the log about what boards send and nothing can use.

use std::time::Duration;

use evb_core::{framing::Losses, id::SourceId, source::PushError as Refused};
use tokio::time::Instant;

use crate::source::FrontEnds;

/// Shortest time between two lines of the log about what is no frame.
const LINES: Duration = Duration::from_secs(10);

/// The lines of the log about what the boards of a source send and nothing can use, and its counts.
pub(super) struct BoardLog {
    source: SourceId,
    front_ends: FrontEnds,
    /// Losses that are counted, and those that the log has named.
    known: Losses,
    logged: Losses,
    next_line: Option<Instant>,
}

impl BoardLog {
    pub(super) fn new(source: SourceId, front_ends: FrontEnds) -> Self {
        Self { source, front_ends, known: Losses::default(), logged: Losses::default(), next_line: None }
    }

    /// Counts what the decoder has lost, and writes a line about it, unless there was one recently.
    /// Returns the number of bytes that belong to no frame.
    pub(super) fn note(&mut self, losses: Losses, is_last: bool) -> u64 {
        if losses != self.known {
            self.front_ends.count_losses(&losses.since(&self.known));
            self.known = losses;
        }
        let new = losses.since(&self.logged);
        if !new.is_none() && (self.is_time_for_line() || is_last) {
            self.logged = losses;
            tracing::warn!(
                source = self.source.number(),
                garbage_bytes = new.garbage_bytes,
                resyncs = new.resyncs,
                lost_packets = new.lost_packets,
                "this source cannot use all that its board sent, and what is lost is in no event: {new} since the last such line; compare what the board sends with `frame`, and look at the network"
            );
        }
        new.garbage_bytes
    }

    /// Counts a fragment that the source has refused, and names it in the log.
    pub(super) fn note_refused(&mut self, refused: &Refused) {
        // The ids of an earlier run may be far from those of the next one.
        if self.front_ends.is_discarding() {
            self.front_ends.count_discarded();
            return;
        }
        self.front_ends.count_malformed();
        if self.is_time_for_line() {
            let source = self.source.number();
            tracing::warn!(
                source,
                "this source does not use a frame of its board, which is in no event, and the run goes on: {refused}"
            );
        }
    }

    /// Returns true if there was no line of the log recently.
    fn is_time_for_line(&mut self) -> bool {
        let now = Instant::now();
        let is_time = self.next_line.is_none_or(|next| now >= next);
        if is_time {
            self.next_line = Some(now + LINES);
        }
        is_time
    }
}
