//! [`CountedFrames`]: the sizes and counters of the frames of a capture.

#[cfg(test)]
mod tests;

use std::io::{self, Write};

use evb::source::TriggerCounter;
use evb_core::{fragment::Fragment, quantities::counted};

/// The sizes and counters of the frames of a capture.
#[derive(Debug)]
pub(super) struct CountedFrames {
    counter: TriggerCounter,
    count: u64,
    bytes: u64,
    sizes: Option<(usize, usize)>,
    counters: Option<(u64, u64)>,
    last: Option<u64>,
    gaps: u64,
    missing: u64,
    repeats: u64,
    backwards: u64,
}

impl CountedFrames {
    /// Creates an empty count. Without a counter, frames have event ids.
    pub(super) fn new(counter: Option<TriggerCounter>) -> Self {
        Self {
            counter: counter.unwrap_or(TriggerCounter::new(64)),
            count: 0,
            bytes: 0,
            sizes: None,
            counters: None,
            last: None,
            gaps: 0,
            missing: 0,
            repeats: 0,
            backwards: 0,
        }
    }

    /// Returns the number of frames.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Counts a frame.
    pub(super) fn add(&mut self, fragment: &Fragment) {
        let (size, value) = (fragment.payload.len(), fragment.event.number());
        self.count += 1;
        self.bytes += size as u64;
        let (least, most) = self.sizes.get_or_insert((size, size));
        (*least, *most) = (size.min(*least), size.max(*most));
        let (lowest, highest) = self.counters.get_or_insert((value, value));
        (*lowest, *highest) = (value.min(*lowest), value.max(*highest));
        let Some(last) = self.last.replace(value) else { return };
        // The counter wraps at its width. A value that is less than half its range ahead of the
        // expected one follows a gap; any other one lies behind.
        let highest = u64::MAX >> (64 - u32::from(self.counter.bits));
        let ahead = value.wrapping_sub(last).wrapping_sub(self.counter.step) & highest;
        if value == last {
            self.repeats += 1;
        } else if ahead > highest / 2 {
            self.backwards += 1;
        } else if ahead > 0 {
            self.gaps += 1;
            self.missing += ahead.div_ceil(self.counter.step);
        }
    }

    /// Writes the counts as text.
    pub(super) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let Some(((least, most), (lowest, highest))) = self.sizes.zip(self.counters) else {
            return writeln!(out, "frames    none");
        };
        let (count, mean) = (self.count, self.bytes / self.count);
        writeln!(out, "frames    {count}, of {least} to {most} B, {mean} B on average")?;
        writeln!(
            out,
            "counter   {lowest} to {highest}; {} missing in {}, {}, {} back",
            counted(self.missing, "value"),
            counted(self.gaps, "gap"),
            counted(self.repeats, "repeat"),
            counted(self.backwards, "step"),
        )
    }
}
