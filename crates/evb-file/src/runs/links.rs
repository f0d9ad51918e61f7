//! Divides files without a run id into runs, by their epochs.

use std::collections::{BTreeMap, BTreeSet};

use evb_core::id::Epoch;

use super::RunFile;
use crate::reader::EventFile;

/// The number of index entries that are read at a time.
const PIECE: usize = 4096;

/// The files of one run, as far as it is known, and the epochs in their headers and records.
struct Linked {
    members: Vec<RunFile>,
    epochs: BTreeSet<Epoch>,
}

/// Divides files into groups that have no epoch in common. The epoch in a header is that of the
/// run, so the records of files with the same one are not read.
pub(super) fn groups(members: Vec<RunFile>) -> Vec<Vec<RunFile>> {
    let mut by_epoch = BTreeMap::<Epoch, Vec<RunFile>>::new();
    for member in members {
        by_epoch.entry(member.header.epoch).or_default().push(member);
    }
    if by_epoch.len() < 2 {
        return by_epoch.into_values().collect();
    }
    let mut runs: Vec<Linked> = Vec::new();
    for (epoch, members) in by_epoch {
        let mut one = Linked { epochs: members.iter().flat_map(epochs_of).collect(), members };
        one.epochs.insert(epoch);
        for other in runs.extract_if(.., |run| !run.epochs.is_disjoint(&one.epochs)).collect::<Vec<_>>() {
            one.members.extend(other.members);
            one.epochs.extend(other.epochs);
        }
        runs.push(one);
    }
    runs.into_iter().map(|run| run.members).collect()
}

/// Returns the epochs of a file's records. What cannot be read links no files.
fn epochs_of(member: &RunFile) -> BTreeSet<Epoch> {
    let Ok(file) = EventFile::open(&member.path) else { return BTreeSet::new() };
    let (mut epochs, mut place) = (BTreeSet::new(), 0);
    while let Ok(entries) = file.index_entries(place, PIECE)
        && !entries.is_empty()
    {
        place += entries.len();
        epochs.extend(entries.iter().map(|entry| entry.epoch));
    }
    epochs
}
