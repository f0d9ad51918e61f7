//! [`RangeSet`]: which parts of a lane, as disjoint ranges of offsets.

use core::ops::Range;

/// Disjoint, ascending, non-empty ranges that do not touch. Costs are linear in the number of ranges, which callers bound.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangeSet(Vec<Range<u64>>);

impl RangeSet {
    /// Adds a range; what is in already stays.
    pub fn insert(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        // All that touch the new one become one with it.
        let from = self.0.partition_point(|known| known.end < range.start);
        let to = from + self.0[from..].partition_point(|known| known.start <= range.end);
        let touched = &self.0[from..to];
        let start = touched.first().map_or(range.start, |first| first.start.min(range.start));
        let end = touched.last().map_or(range.end, |last| last.end.max(range.end));
        self.0.splice(from..to, core::iter::once(start..end));
    }

    /// Takes a range out; what is not in is not missed.
    pub fn remove(&mut self, range: &Range<u64>) {
        if range.is_empty() {
            return;
        }
        let from = self.0.partition_point(|known| known.end <= range.start);
        let to = from + self.0[from..].partition_point(|known| known.start < range.end);
        let (Some(first), Some(last)) = (self.0[from..to].first(), self.0[from..to].last()) else { return };
        let rests = [first.start..range.start, range.end..last.end];
        self.0.splice(from..to, rests.into_iter().filter(|rest| rest.start < rest.end));
    }

    /// The parts of `range` that are not in, ascending.
    pub fn missing_in(&self, range: Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        let from = self.0.partition_point(|known| known.end <= range.start);
        let within = self.0[from..].iter().take_while({
            let end = range.end;
            move |known| known.start < end
        });
        let starts = core::iter::once(range.start).chain(within.clone().map(|known| known.end));
        let ends = within.map(|known| known.start).chain(core::iter::once(range.end));
        starts.zip(ends).map(|(start, end)| start..end).filter(|gap| gap.start < gap.end)
    }

    /// Whether a range overlaps one that is in, or is next to it.
    pub fn touches(&self, range: &Range<u64>) -> bool {
        let first = self.0.partition_point(|known| known.end < range.start);
        self.0.get(first).is_some_and(|known| known.start <= range.end)
    }

    /// The first range.
    pub fn first(&self) -> Option<Range<u64>> {
        self.0.first().cloned()
    }

    /// All ranges, ascending.
    pub fn iter(&self) -> impl Iterator<Item = &Range<u64>> {
        self.0.iter()
    }

    /// How many ranges there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Checks what always holds, for tests, the simulator and fuzz targets.
    ///
    /// # Panics
    /// Where it does not hold: a defect of evb.
    pub fn invariants(&self) {
        assert!(self.0.iter().all(|range| range.start < range.end), "no range is empty: {self:?}");
        assert!(
            self.0.array_windows().all(|[one, next]| one.end < next.start),
            "none touches another: {self:?}"
        );
    }

    /// Whether nothing is in.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests;
