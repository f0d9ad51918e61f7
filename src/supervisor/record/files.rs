//! [`RecordedFile`]: an event file of a run, as its builder has closed it.

use std::collections::BTreeMap;

use evb_core::{
    id::BuilderId,
    wire::control::{Control, FilesReport, MAX_FILE_PATH, Message, RoleReport, plain},
};
use serde::{Deserialize, Serialize};

use super::RunRecord;

/// Most files in a record.
const MAX_FILES: usize = 2000;

/// A file of a run that its builder has closed. Nothing writes to it afterwards.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedFile {
    /// Id of the builder.
    pub builder: u16,
    /// Absolute path on the host of the builder.
    pub path: String,
    /// Size in bytes.
    pub size: u64,
    /// Number of events.
    pub events: u64,
    /// CRC-64/NVME of the whole file, in 16 hexadecimal digits.
    pub crc64_nvme: String,
}

/// The numbers of files that builders have closed.
#[derive(Debug, Default)]
pub(in crate::supervisor) struct FileCounts(BTreeMap<u16, u64>);

impl FileCounts {
    /// Adds to a record the files in a report of a builder.
    pub(in crate::supervisor) fn add(&mut self, record: &mut RunRecord, id: BuilderId, told: FilesReport) {
        let builder = id.number();
        let new = match self.0.insert(builder, told.closed) {
            // A new process of the builder counts from the beginning.
            Some(before) => told.closed.checked_sub(before).unwrap_or(told.closed),
            // An earlier supervisor may have noted files, also of processes that are gone.
            None => {
                let known = record.files.iter().filter(|file| file.builder == builder).count();
                told.closed.saturating_sub(known as u64)
            }
        };
        let mut added = 0;
        for file in told.latest {
            let path = plain(&file.path, MAX_FILE_PATH);
            let order = |known: &RecordedFile| (known.builder, &known.path[..]).cmp(&(builder, &path[..]));
            if record.files.len() < MAX_FILES
                && let Err(place) = record.files.binary_search_by(order)
            {
                let (size, events, crc64_nvme) = (file.size, file.events, format!("{:016x}", file.checksum));
                record.files.insert(place, RecordedFile { builder, path, size, events, crc64_nvme });
                added += 1;
            }
        }
        record.files_left_out = record.files_left_out.saturating_add(new).saturating_sub(added);
    }
}

/// Takes the files out of a report of a builder; only the record of the run has them.
pub(in crate::supervisor) fn take_files(message: &mut Control) -> Option<FilesReport> {
    let Some(Message::Report(report)) = &mut message.message else { return None };
    let Some(RoleReport::Builder(own)) = &mut report.report else { return None };
    own.files.take()
}

#[cfg(test)]
mod tests;
