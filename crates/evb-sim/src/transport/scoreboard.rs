//! [`Scoreboard`]: the segments beyond a gap that the receiver has reported, from which a sender
//! knows the gaps to fill (RFC 6675).

use std::collections::BTreeMap;

/// The reported parts of the stream above the cumulative acknowledgement.
#[derive(Debug, Default)]
pub(super) struct Scoreboard {
    /// Ends of the reported ranges by their begins. Ranges neither overlap nor touch.
    arrived: BTreeMap<u64, u64>,
    /// Offset below which every gap has been filled once.
    filled: u64,
}

impl Scoreboard {
    /// Adds a reported range.
    pub(super) fn add(&mut self, begin: u64, end: u64) {
        let (mut begin, mut end) = (begin, end);
        if let Some((before, upto)) = self.arrived.range(..=begin).next_back().map(|(b, e)| (*b, *e))
            && upto >= begin
        {
            (begin, end) = (before, end.max(upto));
        }
        while let Some((next, upto)) = self.arrived.range(begin..=end).next().map(|(b, e)| (*b, *e)) {
            self.arrived.remove(&next);
            end = end.max(upto);
        }
        self.arrived.insert(begin, end);
    }

    /// Forgets all below the cumulative acknowledgement.
    pub(super) fn acknowledged(&mut self, upto: u64) {
        while let Some(first) = self.arrived.first_entry().filter(|first| *first.key() < upto) {
            let (_, end) = first.remove_entry();
            if end > upto {
                self.arrived.insert(upto, end);
            }
        }
        self.filled = self.filled.max(upto);
    }

    /// Forgets all reports, after a retransmission timeout.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Notes that the gaps below an offset have been filled.
    pub(super) fn handle_filled(&mut self, upto: u64) {
        self.filled = self.filled.max(upto);
    }

    /// Returns the bytes that are still under way: those beyond the highest report, and the gaps
    /// that were filled again. Gaps that were not filled are lost.
    pub(super) fn under_way(&self, acknowledged: u64, next: u64) -> u64 {
        let highest = self.highest().unwrap_or(acknowledged);
        let filled = self.filled.clamp(acknowledged, highest);
        let arrived: u64 = self.arrived.range(..filled).map(|(begin, end)| (*end).min(filled) - begin).sum();
        next.saturating_sub(highest) + (filled - acknowledged) - arrived
    }

    /// Returns the next gap to fill: its begin, and its length of at most `segment`.
    pub(super) fn next_gap(&self, acknowledged: u64, segment: u64) -> Option<(u64, u64)> {
        let from = self.filled.max(acknowledged);
        let highest = self.highest()?;
        let within = self.arrived.range(..=from).next_back().filter(|(_, end)| **end > from);
        let begin = within.map_or(from, |(_, end)| *end);
        let end = self.arrived.range(begin..).next().map(|(next, _)| *next)?;
        (begin < highest).then(|| (begin, segment.min(end - begin)))
    }

    fn highest(&self) -> Option<u64> {
        self.arrived.last_key_value().map(|(_, end)| *end)
    }
}

#[cfg(test)]
mod tests;
