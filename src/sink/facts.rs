#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use evb_core::{
    builder::BuilderCoreConfig,
    id::{BuilderId, Epoch, RunId, RunNumber, SourceId},
    time::{ClockState, Utc},
    wire::control::{Begin, Name, is_name},
};

/// Facts about a run, for the sink.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunFacts {
    /// The run's number.
    pub run: RunNumber,
    /// The run's id.
    pub run_id: RunId,
    /// The epoch of the run.
    pub epoch: Epoch,
    /// The builder to which the sink belongs.
    pub builder: BuilderId,
    /// The sources of the run, ascending.
    pub sources: Vec<SourceId>,
    /// Time at which the run began, by the supervisor's wall clock.
    pub begun: Utc,
    /// State of that clock, as the kernel says.
    pub wall_clock: ClockState,
    /// Kind of the run, as the operator gave it; may be empty.
    pub kind: String,
    /// The operator's comment on the run; may be empty.
    pub comment: String,
    /// Names of the sources that have one.
    pub source_names: BTreeMap<SourceId, String>,
    /// Names of the builders that have one.
    pub builder_names: BTreeMap<BuilderId, String>,
}

impl RunFacts {
    /// Returns the facts that a message about the beginning of a run contains, for the sink of a
    /// builder.
    pub(crate) fn of(begin: &Begin, builder: &BuilderCoreConfig) -> Self {
        Self {
            run: RunNumber::new(begin.run),
            run_id: begin.run_id,
            epoch: builder.epoch,
            builder: builder.id,
            sources: builder.sources.clone(),
            begun: begin.began().utc,
            wall_clock: begin.began().state,
            kind: begin.kind.clone(),
            comment: begin.comment.clone(),
            source_names: names(&begin.sources, SourceId::new),
            builder_names: names(&begin.builders, BuilderId::new),
        }
    }
}

/// Returns the names in a message by their ids, without names that are too long or have control
/// characters. An id that is too large belongs to no source or builder of this version of evb.
fn names<Id: Ord>(names: &[Name], id: impl Fn(u16) -> Id) -> BTreeMap<Id, String> {
    let allowed = names.iter().filter(|name| is_name(&name.name));
    allowed.filter_map(|name| Some((id(u16::try_from(name.id).ok()?), name.name.clone()))).collect()
}
