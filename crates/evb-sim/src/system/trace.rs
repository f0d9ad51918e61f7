//! [`Trace`]: a record of the steps of a simulation, as a hash with which two simulations can be
//! compared, and as readable lines.

use evb_core::time::Instant;

/// The record of a simulation so far.
#[derive(Debug)]
pub(crate) struct Trace {
    hash: u64,
    /// Readable lines; `None` if only the hash was requested.
    lines: Option<Vec<String>>,
}

/// Largest number of lines that are kept.
const MOST_LINES: usize = 2_000_000;

impl Trace {
    pub(crate) fn new(is_read: bool) -> Self {
        Self { hash: 0xCBF2_9CE4_8422_2325, lines: is_read.then(Vec::new) }
    }

    /// Mixes numbers into the hash.
    pub(crate) fn mix(&mut self, numbers: impl IntoIterator<Item = u64>) {
        for number in numbers {
            self.hash = (self.hash ^ number).wrapping_mul(0x0000_0100_0000_01B3).rotate_left(29);
        }
    }

    /// Mixes bytes into the hash.
    pub(crate) fn mix_bytes(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        self.mix(words.iter().map(|word| u64::from_le_bytes(*word)));
        self.mix(rest.iter().map(|byte| u64::from(*byte)));
        self.mix([bytes.len() as u64]);
    }

    /// Adds a line of text, which is formatted only if lines were requested.
    pub(crate) fn line(&mut self, now: Instant, text: impl FnOnce() -> String) {
        if let Some(lines) = self.lines.as_mut().filter(|lines| lines.len() < MOST_LINES) {
            let nanos = now.as_nanos();
            lines.push(format!("{:>5}.{:06} {}", nanos / 1_000_000_000, nanos / 1000 % 1_000_000, text()));
        }
    }

    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }

    pub(crate) fn into_lines(self) -> Vec<String> {
        self.lines.unwrap_or_default()
    }
}
