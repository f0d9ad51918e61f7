//! Serializes ids, sizes and paths to JSON as numbers and text.

use std::{collections::BTreeMap, path::Path};

use evb_core::{
    event::{Cause, MissingSource},
    id::{BuilderId, Epoch, EventId, RunId, RunNumber, SourceId},
    time::Utc,
    units::Bytes,
};
use serde::{Serialize, Serializer};

use crate::{format::FormatVersion, index::IndexState, reader::Recovery, runs::FoundRun};

macro_rules! numbers {
    ($($name:ident: $id:ty),*) => {
        $(pub(super) fn $name<S: Serializer>(id: &$id, serializer: S) -> Result<S::Ok, S::Error> {
            id.number().serialize(serializer)
        })*
    };
}

numbers!(run: RunNumber, event: EventId, epoch: Epoch, source: SourceId, format: FormatVersion);

/// Writes all digits of the id, or null for an unknown one.
pub(super) fn run_id<S: Serializer>(id: &RunId, serializer: S) -> Result<S::Ok, S::Error> {
    id.is_known().then(|| id.to_string()).serialize(serializer)
}

/// Writes nanoseconds since 1970, or null for an unknown time.
pub(super) fn utc<S: Serializer>(utc: &Utc, serializer: S) -> Result<S::Ok, S::Error> {
    utc.is_known().then(|| utc.as_nanos()).serialize(serializer)
}

pub(super) fn cause<S: Serializer>(cause: &Cause, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(cause)
}

pub(super) fn recovery<S: Serializer>(from: &Option<Recovery>, serializer: S) -> Result<S::Ok, S::Error> {
    from.map(|from| match from {
        Recovery::ClosingBlock => "closing block",
        Recovery::Records => "records",
    })
    .serialize(serializer)
}

pub(super) fn source_names<S: Serializer>(
    names: &BTreeMap<SourceId, String>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(names.iter().map(|(id, name)| (id.number(), name)))
}

pub(super) fn builder_names<S: Serializer>(
    names: &BTreeMap<BuilderId, String>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(names.iter().map(|(id, name)| (id.number(), name)))
}

/// A run in a list of runs under one number.
#[derive(Serialize)]
struct Found<'a> {
    #[serde(serialize_with = "run_id")]
    run_id: RunId,
    #[serde(serialize_with = "epoch")]
    epoch: Epoch,
    #[serde(serialize_with = "utc")]
    begun: Utc,
    files: Vec<std::borrow::Cow<'a, str>>,
}

/// Serializes the runs that were found as a list.
pub(super) fn found<S: Serializer>(runs: &[FoundRun], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(runs.iter().map(|run| Found {
        run_id: run.run_id,
        epoch: run.epoch,
        begun: run.begun,
        files: run.files.iter().map(|path| path.to_string_lossy()).collect(),
    }))
}

pub(super) fn builder<S: Serializer>(id: &Option<BuilderId>, serializer: S) -> Result<S::Ok, S::Error> {
    id.map(BuilderId::number).serialize(serializer)
}

pub(super) fn maybe_event<S: Serializer>(id: &Option<EventId>, serializer: S) -> Result<S::Ok, S::Error> {
    id.map(EventId::number).serialize(serializer)
}

/// A missing source with its cause.
#[derive(Serialize)]
struct Missing {
    #[serde(serialize_with = "source")]
    source: SourceId,
    #[serde(serialize_with = "cause")]
    cause: Cause,
}

pub(super) fn missing<S: Serializer>(missing: &[MissingSource], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(missing.iter().map(|one| Missing { source: one.source, cause: one.cause }))
}

pub(super) fn bytes<S: Serializer>(bytes: &Bytes, serializer: S) -> Result<S::Ok, S::Error> {
    bytes.count().serialize(serializer)
}

pub(super) fn path<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    path.to_string_lossy().serialize(serializer)
}

pub(super) fn index<S: Serializer>(index: &IndexState, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(match index {
        IndexState::Present => "present",
        IndexState::Absent => "absent",
        IndexState::Damaged => "damaged",
    })
}
