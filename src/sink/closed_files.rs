//! [`ClosedFiles`]: the files of a run that a builder's sink has closed, for its reports.

use std::collections::VecDeque;

use evb_core::wire::control::{FileReport, FilesReport, MAX_FILE_PATH, MAX_FILES};
use evb_file::ClosedFile;

/// The files that a sink has closed: their number, and the latest of them.
#[derive(Debug, Default)]
pub(crate) struct ClosedFiles {
    closed: u64,
    latest: VecDeque<FileReport>,
}

impl ClosedFiles {
    /// Counts a closed file, and keeps its description for the report; the oldest description gives
    /// way.
    pub(super) fn add(&mut self, file: &ClosedFile) {
        self.closed += 1;
        // A file without a checksum is not described: nothing could be compared with it.
        let Some(checksum) = file.checksum else { return };
        if self.latest.len() == MAX_FILES {
            self.latest.pop_front();
        }
        let path = std::path::absolute(&file.path).unwrap_or_else(|_| file.path.clone());
        let path = path.to_string_lossy();
        // Of a long path, the end is kept, because it has the file's name.
        let start = path.ceil_char_boundary(path.len().saturating_sub(MAX_FILE_PATH));
        self.latest.push_back(FileReport {
            path: path[start..].to_owned(),
            size: file.size.count(),
            events: file.events,
            checksum: checksum.number(),
        });
    }

    /// Returns the part of a report, with at most that many files; `None` if no file was closed.
    pub(crate) fn report(&self, most: usize) -> Option<FilesReport> {
        let latest = self.latest.iter().skip(self.latest.len().saturating_sub(most)).cloned().collect();
        (self.closed > 0).then_some(FilesReport { closed: self.closed, latest })
    }
}

#[cfg(test)]
mod tests;
