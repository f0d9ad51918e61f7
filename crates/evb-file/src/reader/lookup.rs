//! Finds single events, with the index on disk or with an index made by scanning the file.

use evb_core::{
    event::Event,
    id::{Epoch, EventId},
    units::Bytes,
};

use super::{
    EventFile,
    scan::{VainChecks, prefix_at},
};
use crate::{
    error::{FileError, ReadError},
    index::{IndexEntry, IndexState},
};

impl EventFile {
    /// Reads the event with the given id; of copies from several epochs, the one of the highest
    /// epoch.
    pub fn event(&self, event: EventId) -> Result<Option<Event>, ReadError> {
        self.find(event, Epoch::new(u64::MAX))?.map(|entry| self.event_at(entry)).transpose()
    }

    /// Reads the copy of an event that was built in the given epoch; `None` if the file has no such
    /// copy.
    pub fn event_in_epoch(&self, event: EventId, epoch: Epoch) -> Result<Option<Event>, ReadError> {
        let entry = self.find(event, epoch)?.filter(|entry| entry.epoch == epoch);
        entry.map(|entry| self.event_at(entry)).transpose()
    }

    /// Returns the number of index entries. The first call of a function that uses the index reads
    /// the heads of all records: if the file has no intact index, or one that leaves out a record,
    /// the entries are those of the records.
    pub fn index_len(&self) -> Result<usize, ReadError> {
        Ok(self.scanned()?.map_or(self.footer.records, <[IndexEntry]>::len))
    }

    /// Returns true if the file has an intact index that leaves out no record, and that leads to
    /// records and damage only: an index is a help and never the truth. The first call reads the
    /// heads of all records.
    pub fn has_whole_index(&self) -> Result<bool, ReadError> {
        if self.footer.state != IndexState::Present {
            return Ok(false);
        }
        if let Some(is_whole) = self.has_whole_index.get() {
            return Ok(*is_whole);
        }
        let listed = self.told_entries(0, self.footer.records)?;
        let mut is_found = vec![false; listed.len()];
        let (mut is_whole, mut damaged) = (true, Vec::new());
        for record in self.records() {
            match record {
                Ok(record) => match listed.binary_search(&IndexEntry::of(&record)) {
                    Ok(place) => is_found[place] = true,
                    Err(_) => is_whole = false,
                },
                Err(error @ ReadError::File(_)) => return Err(error),
                Err(
                    ReadError::Damaged { offset, length, .. } | ReadError::TornTail { offset, length, .. },
                ) => damaged.push((offset, length)),
                Err(_) => {}
            }
        }
        let others = listed.iter().zip(&is_found).filter(|(_, is_found)| !**is_found).map(|(entry, _)| entry);
        is_whole = is_whole && self.leads_to_damage(others, &damaged)?;
        Ok(*self.has_whole_index.get_or_init(|| is_whole))
    }

    /// Returns true if entries of records that were not found are those of damaged records: all lie
    /// in damaged regions, each region has one, and their heads fit into the damaged bytes.
    fn leads_to_damage<'e>(
        &self,
        entries: impl Iterator<Item = &'e IndexEntry>,
        damaged: &[(u64, Bytes)],
    ) -> Result<bool, ReadError> {
        let (mut window, mut heads) = (self.window(), 0_u64);
        let (mut has_entry, all) =
            (vec![false; damaged.len()], damaged.iter().map(|(_, length)| *length).sum::<Bytes>());
        for entry in entries {
            // The last damaged region that begins at the entry or before it.
            let region = damaged.partition_point(|(offset, _)| *offset <= entry.offset).checked_sub(1);
            let is_in = |place: &usize| entry.offset - damaged[*place].0 < damaged[*place].1.count();
            match region.filter(is_in) {
                Some(place) => has_entry[place] = true,
                None => return Ok(false),
            }
            let prefix = prefix_at(&mut window, entry.offset, self.records_end(), self.tag);
            if let Ok(prefix) = prefix.map_err(FileError::of("read", &self.path))? {
                heads += prefix.head_length;
                if !VainChecks::affords_all(heads, all.count()) {
                    return Ok(false);
                }
            }
        }
        Ok(has_entry.iter().all(|has_entry| *has_entry))
    }

    /// Returns entries as the file's own index has them.
    pub(crate) fn told_entries(&self, place: usize, count: usize) -> Result<Vec<IndexEntry>, ReadError> {
        let mut entries = Vec::new();
        self.footer
            .entries(&self.file, place, count, &mut entries)
            .map_err(FileError::of("read the index of", &self.path))?;
        Ok(entries)
    }

    /// Returns the number of entries of the file's own index.
    pub(crate) const fn told_len(&self) -> usize {
        self.footer.records
    }

    /// Takes over what is known of the index of the same file, which was open before.
    pub(crate) fn trust_index(&self, is_whole: bool) {
        self.has_whole_index.get_or_init(|| is_whole);
    }

    /// Returns at most `count` index entries from position `place` on, in the order of event id,
    /// epoch, offset. A caller that reads the index piece by piece needs little memory.
    pub fn index_entries(&self, place: usize, count: usize) -> Result<Vec<IndexEntry>, ReadError> {
        if let Some(entries) = self.scanned()? {
            return Ok(entries.iter().skip(place).take(count).copied().collect());
        }
        self.told_entries(place, count)
    }

    /// Finds the index entry of an event's copy with the highest epoch that is at most `epoch`.
    fn find(&self, event: EventId, epoch: Epoch) -> Result<Option<IndexEntry>, ReadError> {
        let entry = |place| -> Result<IndexEntry, ReadError> {
            match self.scanned()? {
                Some(entries) => Ok(entries[place]),
                None => Ok(self
                    .footer
                    .entry(&self.file, place)
                    .map_err(FileError::of("read the index of", &self.path))?),
            }
        };
        let (mut low, mut high) = (0, self.index_len()?);
        while low < high {
            let middle = low + (high - low) / 2;
            let here = entry(middle)?;
            if (here.event, here.epoch) <= (event, epoch) { low = middle + 1 } else { high = middle }
        }
        let Some(last) = low.checked_sub(1) else { return Ok(None) };
        Ok(Some(entry(last)?).filter(|entry| entry.event == event))
    }

    /// Returns the entries found by scanning, if the file's own index cannot be used.
    fn scanned(&self) -> Result<Option<&[IndexEntry]>, ReadError> {
        if self.has_whole_index()? {
            return Ok(None);
        }
        if let Some(entries) = self.scanned.get() {
            return Ok(Some(entries));
        }
        let mut entries = Vec::new();
        for record in self.records() {
            match record {
                Ok(record) => entries.push(IndexEntry::of(&record)),
                Err(error @ ReadError::File(_)) => return Err(error),
                // Damage is no error of a lookup: the scanned index has all intact records, and
                // iterating over the file reports the damage.
                Err(_) => {}
            }
        }
        entries.sort();
        Ok(Some(self.scanned.get_or_init(|| entries)))
    }
}
