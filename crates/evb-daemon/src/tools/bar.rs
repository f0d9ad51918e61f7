//! A progress bar on a terminal for reading large files.

use std::{fs, path::PathBuf};

use evb_core::units::Bytes;
use indicatif::{ProgressBar, ProgressStyle};

/// Size below which files are read before a user would notice a progress bar.
const SHORT: Bytes = Bytes::mib(256);

/// Returns a progress bar for the files at the given paths, hidden if the files are short.
pub(super) fn over(paths: &[PathBuf]) -> ProgressBar {
    let files = paths.iter().filter_map(|path| evb_file::files_at(path).ok()).flatten();
    let total: u64 = files.filter_map(|file| fs::metadata(file).ok()).map(|metadata| metadata.len()).sum();
    if total < SHORT.count() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(total);
    if let Ok(style) =
        ProgressStyle::with_template("{bar:40} {bytes}/{total_bytes}  {bytes_per_sec}  {eta} left")
    {
        bar.set_style(style);
    }
    bar
}
