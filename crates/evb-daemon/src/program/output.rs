//! [`Output`]: one stream of a program's output, which goes into the log line by line.

use evb_core::{quantities::counted, wire::control::plain};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};

use super::Program;

/// Number of characters of a line that the log shows.
const LINE: usize = 1000;

/// Number of lines that the log shows of each stream; the others are counted.
pub(super) const LINES: u64 = 200;

/// Number of characters of a program's last line that a reason contains.
const LAST: usize = 200;

/// One stream of a program's output.
pub(super) struct Output<'a> {
    program: &'a Program<'a>,
    stream: &'static str,
    /// Number of lines.
    count: u64,
    /// The bytes of the latest line that has any.
    last: Vec<u8>,
}

impl<'a> Output<'a> {
    pub(super) fn new(program: &'a Program<'a>, stream: &'static str) -> Self {
        Self { program, stream, count: 0, last: Vec::new() }
    }

    /// Reads to the end of the stream, or until the read fails.
    ///
    /// Cancel safety: what was read counts.
    pub(super) async fn read(&mut self, stream: Option<impl AsyncRead + Unpin>) {
        let Some(stream) = stream else { return };
        let mut stream = BufReader::new(stream);
        let mut is_open = false;
        while let Ok(bytes) = stream.fill_buf().await
            && !bytes.is_empty()
        {
            let end = bytes.iter().position(|byte| *byte == b'\n');
            let part = &bytes[..end.unwrap_or(bytes.len())];
            if !is_open && !part.is_empty() {
                self.last.clear();
            }
            // A character has at most four bytes.
            let room = (4 * LINE).saturating_sub(self.last.len());
            self.last.extend_from_slice(&part[..part.len().min(room)]);
            is_open |= !part.is_empty();
            let read = part.len() + usize::from(end.is_some());
            stream.consume(read);
            if end.is_some() && std::mem::take(&mut is_open) {
                self.show();
            }
        }
        if is_open {
            self.show();
        }
    }

    /// Logs a line of the program's output; after [`LINES`] of them, lines are only counted.
    fn show(&mut self) {
        self.count += 1;
        if self.count <= LINES {
            let (part, program, stream) = (self.program.part, &self.program.words[0], self.stream);
            let line = plain(&String::from_utf8_lossy(&self.last), LINE);
            tracing::info!(program, stream, "{part}: {program}: {line}");
        }
    }

    /// Notes how many lines are not in the log. Returns the last line, as the end of a sentence.
    pub(super) fn finish(self) -> String {
        if let Some(more) = self.count.checked_sub(LINES).filter(|more| *more > 0) {
            let (part, program, stream) = (self.program.part, &self.program.words[0], self.stream);
            let lines = counted(more, "line");
            tracing::info!(
                program,
                stream,
                more,
                "{part}: {program}: {lines} more on {stream}, which the log does not show; nothing needs to be done"
            );
        }
        let last = plain(&String::from_utf8_lossy(&self.last), LAST);
        // A semicolon would begin the remedy.
        let last = last.trim().replace(';', ",");
        if last.is_empty() { last } else { format!(": its last line on {} is `{last}`", self.stream) }
    }
}
