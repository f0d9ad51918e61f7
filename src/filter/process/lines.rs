//! [`WorkerLines`]: the output of a worker, which goes into the log line by line.

use std::{
    io::{self, PipeReader, Read as _},
    time::{Duration, Instant},
};

use evb_core::{quantities::counted, wire::control::plain};

/// Number of characters of a line that the log shows.
const LINE: usize = 1000;

/// Number of lines that the log shows of a worker in each [`PERIOD`]; the others are counted.
pub(super) const LINES: u64 = 100;

/// Time for which lines are counted together.
const PERIOD: Duration = Duration::from_secs(60);

/// Number of characters of a worker's last line that a reason contains.
const LAST: usize = 200;

/// Bytes that are read before evb turns to something else.
const AT_ONCE: usize = 1 << 18;

/// The output of a worker and of those that had its number before.
#[derive(Debug)]
pub(super) struct WorkerLines {
    worker: u16,
    /// The last line, as far as the log shows it; it goes on if `is_open`.
    last: Vec<u8>,
    is_open: bool,
    count: u64,
    since: Instant,
}

impl WorkerLines {
    pub(super) fn new(worker: u16, now: Instant) -> Self {
        Self { worker, last: Vec::new(), is_open: false, count: 0, since: now }
    }

    /// Takes what a worker has written. Returns false at the end.
    pub(super) fn read(&mut self, from: &mut PipeReader, now: Instant) -> bool {
        if now.duration_since(self.since) >= PERIOD {
            self.count_rest();
            self.since = now;
        }
        let mut bytes = [0; 1 << 14];
        let mut taken = 0;
        while taken < AT_ONCE {
            match from.read(&mut bytes) {
                Ok(0) => return false,
                Ok(count) => self.take(&bytes[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return true,
            }
            taken += bytes.len();
        }
        true
    }

    /// Takes what a worker has written, and ends a line at each line break. Of a long line, only
    /// the beginning is kept.
    fn take(&mut self, bytes: &[u8]) {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            let ends = part.ends_with(b"\n");
            let text = &part[..part.len() - usize::from(ends)];
            if !text.is_empty() && !std::mem::replace(&mut self.is_open, true) {
                self.last.clear();
            }
            // A character has at most four bytes.
            let room = (4 * LINE).saturating_sub(self.last.len());
            self.last.extend_from_slice(&text[..text.len().min(room)]);
            if ends {
                self.end_line();
            }
        }
    }

    /// Logs the line that has ended; after [`LINES`] of them, lines are only counted.
    fn end_line(&mut self) {
        if std::mem::take(&mut self.is_open) {
            self.count += 1;
            if self.count <= LINES {
                let line = plain(&String::from_utf8_lossy(&self.last), LINE);
                tracing::info!("filter worker {}: {line}", self.worker);
            }
        }
    }

    /// Notes how many lines are not in the log.
    fn count_rest(&mut self) {
        if let Some(more) = std::mem::take(&mut self.count).checked_sub(LINES).filter(|more| *more > 0) {
            let lines = counted(more, "line");
            tracing::info!(
                more,
                "filter worker {}: {lines} more, which the log does not show; nothing needs to be done",
                self.worker
            );
        }
    }

    /// Ends the output of a process. Returns its last line, as the end of a sentence.
    pub(super) fn finish(&mut self) -> String {
        self.end_line();
        let last = plain(&String::from_utf8_lossy(&self.last), LAST);
        self.last.clear();
        // A semicolon would begin the remedy.
        let last = last.trim().replace(';', ",");
        if last.is_empty() { last } else { format!(": its last line is `{last}`") }
    }
}
