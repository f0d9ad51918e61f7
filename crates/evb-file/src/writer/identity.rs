//! [`FileIdentity`]: whose events a writer writes.

use std::{collections::BTreeMap, time::SystemTime};

use evb_core::{
    alignment::Episode,
    id::{BuilderId, Epoch, RunId, RunNumber, SourceId},
    ledger::OwingChange,
    time::Utc,
};

use crate::format::{FileHeader, FormatVersion};

/// The origin of the events that a writer writes. What is not known has its default value.
///
/// ```
/// use evb_core::id::*;
/// use evb_file::*;
///
/// # let dir = tempfile::tempdir()?;
/// let identity = FileIdentity {
///     run: RunNumber::new(7),
///     run_id: RunId::new(0x5eed_cafe << 96),
///     epoch: Epoch::new(1),
///     builder: BuilderId::new(2),
///     kind: "cosmics".to_owned(),
///     sources: [1, 2, 3].map(SourceId::new).to_vec(),
///     source_names: [(SourceId::new(1), "tracker".to_owned())].into(),
///     ..FileIdentity::default()
/// };
/// let writer = EventFileWriter::create(dir.path(), identity, WriterOptions::default())?;
/// assert!(writer.path().ends_with("run000007_b02_0000.evb"));
/// let header = EventFile::open(writer.path())?.header().clone();
/// assert_eq!(header.run_id.short().to_string(), "5eedcafe");
/// assert_eq!(header.kind, "cosmics");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileIdentity {
    /// The run.
    pub run: RunNumber,
    /// The identity of the run.
    pub run_id: RunId,
    /// The epoch of the run, which is stored in the headers of the files.
    pub epoch: Epoch,
    /// The builder of the events.
    pub builder: BuilderId,
    /// The time at which the run was begun, on the supervisor's wall clock.
    pub begun: Utc,
    /// Word of the kernel of the supervisor's host on its clock then: true if it was synchronised.
    /// `None` if that is unknown.
    pub clock_synchronised: Option<bool>,
    /// The kind of the run, in the words of its configuration.
    pub kind: String,
    /// The comment on the run.
    pub comment: String,
    /// The sources of the run.
    pub sources: Vec<SourceId>,
    /// The names of sources that have one.
    pub source_names: BTreeMap<SourceId, String>,
    /// The names of builders that have one.
    pub builder_names: BTreeMap<BuilderId, String>,
    /// The episodes of sources whose timestamps disagreed, in the order of the first events.
    pub episodes: Vec<Episode>,
    /// The changes by which sources were excluded, or included again.
    pub changes: Vec<OwingChange>,
}

impl FileIdentity {
    /// Returns the header of a file of these events that is begun now.
    pub(crate) fn header(&self, version: FormatVersion, merged: bool, sequence: u32) -> FileHeader {
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let identity = self.clone();
        FileHeader {
            version,
            run: identity.run,
            run_id: identity.run_id,
            epoch: identity.epoch,
            builder: (!merged).then_some(identity.builder),
            sequence,
            created_unix_ns: u64::try_from(since_1970.as_nanos()).unwrap_or(u64::MAX),
            begun: identity.begun,
            clock_synchronised: identity.clock_synchronised,
            kind: identity.kind,
            comment: identity.comment,
            sources: identity.sources,
            source_names: identity.source_names,
            builder_names: identity.builder_names,
            episodes: identity.episodes,
            changes: identity.changes,
            creator: concat!("evb-file ", env!("CARGO_PKG_VERSION")).to_owned(),
        }
    }
}
