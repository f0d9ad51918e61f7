//! [`FileIdentity`]: whose events a writer writes.

use std::collections::BTreeMap;

use evb_core::{
    alignment::Episode,
    id::{BuilderId, Epoch, RunId, RunNumber, SourceId},
    ledger::OwingChange,
    time::Utc,
};

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
