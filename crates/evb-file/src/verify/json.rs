//! Serializes ids, sizes and paths to JSON as numbers and text.

use std::path::Path;

use evb_core::{
    id::{BuilderId, Epoch, EventId, RunNumber, SourceId},
    units::Bytes,
};
use serde::{Serialize, Serializer};

use crate::index::IndexState;

macro_rules! numbers {
    ($($name:ident: $id:ty),*) => {
        $(pub(super) fn $name<S: Serializer>(id: &$id, serializer: S) -> Result<S::Ok, S::Error> {
            id.number().serialize(serializer)
        })*
    };
}

numbers!(run: RunNumber, event: EventId, epoch: Epoch);

pub(super) fn builder<S: Serializer>(id: &Option<BuilderId>, serializer: S) -> Result<S::Ok, S::Error> {
    id.map(BuilderId::number).serialize(serializer)
}

pub(super) fn maybe_event<S: Serializer>(id: &Option<EventId>, serializer: S) -> Result<S::Ok, S::Error> {
    id.map(EventId::number).serialize(serializer)
}

pub(super) fn sources<S: Serializer>(ids: &[SourceId], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(ids.iter().map(|id| id.number()))
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
