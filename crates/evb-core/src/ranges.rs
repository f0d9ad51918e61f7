//! [`RangeSet`]: a set of offsets, kept as disjoint ranges.

use core::ops::Range;

/// A set of disjoint, ascending, non-empty ranges. Adjacent ranges are merged. The cost of an
/// operation is linear in the number of ranges, which callers must limit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangeSet(Vec<Range<u64>>);

impl RangeSet {
    /// Adds a range, which may overlap ranges of the set.
    pub fn insert(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        // Ranges that overlap the new range or are adjacent to it are merged with it.
        let from = self.0.partition_point(|known| known.end < range.start);
        let to = from + self.0[from..].partition_point(|known| known.start <= range.end);
        let touched = &self.0[from..to];
        let start = touched.first().map_or(range.start, |first| first.start.min(range.start));
        let end = touched.last().map_or(range.end, |last| last.end.max(range.end));
        self.0.splice(from..to, core::iter::once(start..end));
    }

    /// Removes the offsets of `range` from the set; some or all of them may be absent.
    pub fn remove(&mut self, range: &Range<u64>) {
        if range.is_empty() {
            return;
        }
        let from = self.0.partition_point(|known| known.end <= range.start);
        let to = from + self.0[from..].partition_point(|known| known.start < range.end);
        let (Some(first), Some(last)) = (self.0[from..to].first(), self.0[from..to].last()) else { return };
        // What the first and the last of these ranges have outside of the removed one stays.
        let rests = [first.start..range.start, range.end..last.end];
        self.0.splice(from..to, rests.into_iter().filter(|rest| rest.start < rest.end));
    }

    /// Returns the parts of `range` that are not in the set, ascending.
    pub fn missing_in(&self, range: Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        let from = self.0.partition_point(|known| known.end <= range.start);
        let within = self.0[from..].iter().take_while({
            let end = range.end;
            move |known| known.start < end
        });
        // A gap lies between the end of one known part and the start of the next one. The ends of
        // the range stand for known parts there.
        let starts = core::iter::once(range.start).chain(within.clone().map(|known| known.end));
        let ends = within.map(|known| known.start).chain(core::iter::once(range.end));
        starts.zip(ends).map(|(start, end)| start..end).filter(|gap| gap.start < gap.end)
    }

    /// Returns true if `range` overlaps or is adjacent to a range of the set.
    pub fn touches(&self, range: &Range<u64>) -> bool {
        let first = self.0.partition_point(|known| known.end < range.start);
        self.0.get(first).is_some_and(|known| known.start <= range.end)
    }

    /// Returns the range with the lowest offsets.
    pub fn first(&self) -> Option<Range<u64>> {
        self.0.first().cloned()
    }

    /// Returns all ranges, ascending.
    pub fn iter(&self) -> impl Iterator<Item = &Range<u64>> {
        self.0.iter()
    }

    /// Returns the number of ranges.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Checks the invariants, for tests, the simulator and fuzz targets.
    ///
    /// # Panics
    /// Panics if an invariant does not hold, which is a defect of evb.
    pub fn invariants(&self) {
        assert!(self.0.iter().all(|range| range.start < range.end), "no range is empty: {self:?}");
        assert!(
            self.0.array_windows().all(|[one, next]| one.end < next.start),
            "no two ranges touch: {self:?}"
        );
    }

    /// Returns true if the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests;
