//! The filters of this process's builders that are processes, which live from run to run.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use evb::filter::{self, ProcessError, ProcessFilter, ProcessOptions};
use evb_config::{FilterEntry, OnFailure};
use evb_core::id::BuilderId;

/// The process filters of this process's builders, run after run.
#[derive(Clone, Default)]
pub(crate) struct Filters(Arc<Mutex<BTreeMap<BuilderId, (FilterEntry, ProcessFilter)>>>);

impl Filters {
    /// Returns the filter of a builder, whose processes live from now on until [`Self::end`];
    /// `None` if the entry is of another kind.
    pub(crate) fn of(
        &self,
        builder: BuilderId,
        entry: &FilterEntry,
    ) -> Result<Option<ProcessFilter>, ProcessError> {
        let mut filters = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, filter)) = filters.get(&builder).filter(|(known, _)| known == entry) {
            return Ok(Some(filter.clone()));
        }
        // The processes of an entry that has changed end.
        filters.remove(&builder).iter().for_each(|(_, filter)| filter.end());
        let FilterEntry::Process { command, workers, timeout, on_failure } = entry else { return Ok(None) };
        let filter = ProcessFilter::start(ProcessOptions {
            workers: *workers,
            timeout: *timeout,
            on_failure: match on_failure {
                OnFailure::Keep => filter::OnFailure::Keep,
                OnFailure::Drop => filter::OnFailure::Drop,
            },
            ..ProcessOptions::new(command)
        })?;
        filters.insert(builder, (entry.clone(), filter.clone()));
        Ok(Some(filter))
    }

    /// Ends all processes.
    pub(crate) fn end(&self) {
        let ended = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        ended.values().for_each(|(_, filter)| filter.end());
    }
}
