//! Appends to the columns of a [`Batch`].

use evb_core::id::RunId;

use super::Batch;
use crate::format::Head;

impl Batch {
    /// Creates an empty batch, whose first event is at `start`.
    pub(super) fn at(start: u64) -> Self {
        Self {
            start,
            end: start,
            first_missing: vec![0],
            first_absent: vec![0],
            first_fragments: vec![0],
            ..Self::default()
        }
    }

    pub(super) fn has_nothing(&self) -> bool {
        self.rows() == 0
    }

    /// Returns the number of events and findings.
    pub(super) fn rows(&self) -> usize {
        self.events.len() + self.findings.len()
    }

    /// Adds the event of a record.
    pub(super) fn add(&mut self, offset: u64, head: Head<'_>, run_id: RunId) {
        self.events.push(head.event.number());
        self.epochs.push(head.epoch.number());
        self.builders.push(head.builder.number());
        self.runs.push(head.run.number());
        self.run_ids.push(head.run_id(run_id));
        self.triggered.push(head.triggered.as_nanos());
        self.utc.push(head.utc.as_nanos());
        self.tags.push(head.event_tag);
        self.records.push(offset);
        self.missing.extend(head.missing().map(|missing| missing.source.number()));
        self.causes.extend(head.missing().map(|missing| missing.cause.code()));
        self.first_missing.push(self.missing.len() as u64);
        self.absent.extend(head.absent().map(|absent| absent.source.number()));
        self.absent_causes.extend(head.absent().map(|absent| absent.cause.code()));
        self.first_absent.push(self.absent.len() as u64);
        // Each column grows once for an event, not once for a fragment.
        let fragments = head.fragments();
        self.sources.extend(fragments.clone().map(|fragment| fragment.source.number()));
        self.timestamps.extend(fragments.clone().map(|fragment| fragment.timestamp.ticks()));
        self.checksums.extend(fragments.clone().map(|fragment| fragment.checksum.number()));
        self.alignments.extend(fragments.clone().map(|fragment| fragment.alignment.code()));
        self.lost_packets.extend(fragments.clone().map(|fragment| fragment.lost_packets));
        self.lengths.extend(fragments.clone().map(|fragment| fragment.length));
        let mut next = offset - self.start + head.head_length;
        self.offsets.extend(fragments.map(|fragment| {
            let at = next;
            next += u64::from(fragment.length);
            at
        }));
        self.first_fragments.push(self.sources.len() as u64);
        self.end = offset + head.length;
    }
}
