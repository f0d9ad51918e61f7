//! [`ClosedFile`]: a file that will not change any more, and who is told of it.

use std::{fmt, path::PathBuf, sync::Arc};

use evb_core::{
    fragment::Checksum,
    id::{EventId, RunId, RunNumber},
    units::Bytes,
};

/// A file that has its index, and to which nothing more is written.
///
/// ```
/// use evb_core::{event::Event, fragment::Checksum, id::*};
/// use evb_file::*;
///
/// # let dir = tempfile::tempdir()?;
/// # let (run, epoch, builder) = (RunNumber::new(7), Epoch::new(1), BuilderId::new(1));
/// # let identity = FileIdentity { run, epoch, builder, ..FileIdentity::default() };
/// let (tell, told) = std::sync::mpsc::channel();
/// let writer = EventFileWriter::create(dir.path(), identity, WriterOptions::default())?;
/// let mut writer = writer.on_closed(move |file| drop(tell.send(file)));
/// for id in [5, 3].map(EventId::new) {
///     writer.append(&Event::empty(id, run, epoch, builder))?;
/// }
/// writer.close()?;
///
/// let file: ClosedFile = told.recv()?;
/// assert_eq!((file.events, file.first), (2, Some(EventId::new(3))));
/// let content = std::fs::read(&file.path)?;
/// assert_eq!(file.size.count(), content.len() as u64);
/// assert_eq!(file.checksum, Some(Checksum::of(&content)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClosedFile {
    /// The number of the run.
    pub run: RunNumber,
    /// The id of the run.
    pub run_id: RunId,
    /// The path, relative if the directory of the writer is.
    pub path: PathBuf,
    /// The size of the whole file.
    pub size: Bytes,
    /// The number of events.
    pub events: u64,
    /// The lowest event id; `None` if the file has no event.
    pub first: Option<EventId>,
    /// The highest event id.
    pub last: Option<EventId>,
    /// The checksum of the whole file, computed while it was written; `None` if the file had events
    /// before anybody was told of files.
    pub checksum: Option<Checksum>,
}

/// The function that is told of closed files.
#[derive(Clone, Default)]
pub(super) struct OnClosed(Option<Arc<dyn Fn(ClosedFile) + Send + Sync>>);

impl OnClosed {
    pub(super) fn new(tell: impl Fn(ClosedFile) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(tell)))
    }

    pub(super) fn is_set(&self) -> bool {
        self.0.is_some()
    }

    pub(super) fn tell(&self, file: impl FnOnce() -> ClosedFile) {
        if let Some(tell) = &self.0 {
            tell(file());
        }
    }
}

impl fmt::Debug for OnClosed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OnClosed").field(&self.0.is_some()).finish()
    }
}
