//! An independent count of event files. Which sources are missing in an event, and whether it is
//! complete, follows from the fragments in the files alone: every source of the run owes every
//! event a fragment. What the records and the ledger say is compared with that count.

use std::{collections::BTreeMap, path::PathBuf};

use evb_core::event::Event;
use evb_file::{EventFile, files_at};
use serde_json::Value;

/// The record of an event with the highest epoch.
struct Found {
    epoch: u64,
    /// Sources of the run without a fragment in the record.
    missing: Vec<u16>,
}

/// Returns all contradictions between the fragments in the event files in those folders, the lists
/// of missing sources in the records, and the summary of the run. Damaged records and files are
/// left out.
pub(crate) fn contradictions(folders: &[PathBuf], summary: &Value) -> Vec<String> {
    let number = |value: &Value| value.as_u64().unwrap_or(u64::MAX);
    let ledger = summary["sources"].as_array().map_or(&[][..], Vec::as_slice);
    let sources: Vec<u16> = ledger.iter().map(|source| number(&source["id"]) as u16).collect();
    let (mut found, mut wrong) = (BTreeMap::new(), Vec::new());
    let paths = folders.iter().filter_map(|folder| files_at(folder).ok()).flatten();
    for file in paths.filter_map(|path| EventFile::open(path).ok()) {
        let header = file.header();
        if u64::from(header.run.number()) != number(&summary["run"]) {
            continue;
        }
        if header.sources.iter().map(|id| id.number()).ne(sources.iter().copied()) {
            wrong.push(format!("{} is of the sources {:?}", file.path().display(), header.sources));
        }
        file.events().filter_map(Result::ok).for_each(|event| read(&event, &sources, &mut found, &mut wrong));
    }
    let incomplete = found.values().filter(|record| !record.missing.is_empty()).count() as u64;
    let complete = found.len() as u64 - incomplete;
    let [said_complete, said_incomplete, lost] =
        ["complete", "incomplete", "lost"].map(|key| number(&summary["events"][key]));
    // An event may be in a file although it counts as lost, if its builder was not heard again.
    if (lost == 0 && (complete, incomplete) != (said_complete, said_incomplete))
        || (lost > 0 && (complete < said_complete || incomplete < said_incomplete))
    {
        wrong.push(format!("in the files {complete} complete and {incomplete} incomplete events"));
    }
    for source in ledger {
        let id = number(&source["id"]) as u16;
        let events = found.values().filter(|record| record.missing.contains(&id)).count() as u64;
        let missing = number(&source["missing"]);
        let by_cause = source["missing_by_cause"].as_object().into_iter().flatten();
        let sum = by_cause.map(|(_, events)| number(events)).sum::<u64>();
        if missing != sum || events < missing || (lost == 0 && events > missing) {
            wrong.push(format!("source {id} has no fragment in {events} events of the files: {source}"));
        }
    }
    wrong
}

fn read(event: &Event, sources: &[u16], found: &mut BTreeMap<u64, Found>, wrong: &mut Vec<String>) {
    let (id, epoch) = (event.id.number(), event.epoch.number());
    let present: Vec<u16> = event.fragments().map(|fragment| fragment.source.number()).collect();
    let missing: Vec<u16> = sources.iter().copied().filter(|source| !present.contains(source)).collect();
    let named: Vec<u16> = event.missing_sources().map(|source| source.number()).collect();
    if named != missing || event.is_complete() != missing.is_empty() {
        wrong.push(format!("event {id} has fragments of {present:?} and names {named:?} as missing"));
    }
    if present.iter().any(|source| !sources.contains(source)) {
        wrong.push(format!("event {id} has fragments of {present:?}, which are not all of the run"));
    }
    if found.get(&id).is_none_or(|known| known.epoch < epoch) {
        found.insert(id, Found { epoch, missing });
    }
}
