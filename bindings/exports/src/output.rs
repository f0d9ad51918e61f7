//! The writing half: blocks as columns of a file.

mod hdf5;
mod parquet;

use evb_file::FileIdentity;

use crate::{
    arguments::Format,
    block::Block,
    counts::Counts,
    staged::{Staged, StagedError},
};

/// The name and version of this program, which the output states.
pub(crate) const CREATOR: &str = concat!("evb-export ", env!("CARGO_PKG_VERSION"));
/// Version of the layout of the outputs.
pub(crate) const LAYOUT: u64 = 1;

/// A failure while the output is written. Except for [`Self::File`], the name of the output file
/// comes before the text.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OutputError {
    /// The operating system refused an operation.
    #[error(transparent)]
    File(#[from] StagedError),
    /// HDF5 could not be written.
    #[error(
        "cannot be written as HDF5, so nothing is exported, and the event files are unharmed: {0}; make room on the disk of the output, or choose another directory"
    )]
    Hdf5(#[from] hdf5_pure::Error),
    /// The beginning of an HDF5 file could not be written.
    #[error(
        "cannot be written as HDF5, so nothing is exported, and the event files are unharmed: {0}; make room on the disk of the output, or choose another directory"
    )]
    Hdf5Format(#[from] hdf5_pure::FormatError),
    /// Parquet could not be written.
    #[error(
        "cannot be written as Parquet, so nothing is exported, and the event files are unharmed: {0}; make room on the disk of the output, or choose another directory"
    )]
    Parquet(#[from] ::parquet::errors::ParquetError),
}

/// Facts about a run that the output states beside its events.
#[derive(Debug)]
pub(crate) struct About {
    pub(crate) identity: FileIdentity,
    /// Texts, with their names in the output.
    pub(crate) texts: Vec<(&'static str, String)>,
}

/// A file of one format that is being written.
pub(crate) trait Output {
    /// Writes the events of a block. The block's content may be taken.
    fn write(&mut self, block: &mut Block) -> Result<(), OutputError>;

    /// Writes what is known only now, and everything that is still in memory.
    fn finish(self: Box<Self>, about: &About, counts: &Counts) -> Result<(), OutputError>;
}

/// Begins an output, to which about `expected` bytes of payload will be written.
pub(crate) fn begin(format: Format, staged: &Staged, expected: u64) -> Result<Box<dyn Output>, OutputError> {
    Ok(match format {
        Format::Hdf5 => Box::new(hdf5::Hdf5::begin(staged, expected)?),
        Format::Parquet => Box::new(parquet::Parquet::begin(staged)?),
    })
}
