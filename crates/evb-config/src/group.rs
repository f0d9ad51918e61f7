//! `[[group]]`: named groups of sources, and how many of them a run needs.

use std::collections::BTreeSet;

use evb_core::{id::SourceId, quantities::counted, supervisor::Group};
use serde::Deserialize;

use super::{
    entries::{IdList, Placed},
    forms::{As, Whole},
    name::Name,
    role_lists::ranges,
    section::Section,
    source::SourceEntry,
};

/// `[[group]]`.
#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct GroupTable {
    /// The name of the group, by which `evbd ctl exclude group` and `include group` find it.
    #[serde(with = "As::<Name>")]
    name: String,
    /// The sources of the group: ids and ranges of ids. A source may be in several groups.
    #[serde(with = "As::<IdList>")]
    sources: Vec<u16>,
    /// The least number of these sources with which the run takes triggers. While fewer of them
    /// take part, a run does not start, and a run that is under way is paused: its triggers are
    /// dead time. It goes on by itself when enough of them are back. A source takes part if it is
    /// connected, not excluded, and has a readout; for `start_timeout` after the start, a readout
    /// that has not connected yet counts as well.
    ///
    /// Default: 0: any number
    #[serde(default, with = "Whole::<0, 65_535>")]
    at_least: Option<u32>,
}

/// Reads the groups; their sources are checked if all sources of the system are known.
pub(super) fn read(root: &Section<'_>, sources: Option<&[Placed<SourceEntry>]>) -> Vec<Group> {
    let mut names = BTreeSet::new();
    root.list("group").into_iter().filter_map(|section| read_one(&section, sources, &mut names)).collect()
}

/// Reads a group, and refuses a name or sources that cannot be. `all` is `None` if not all sources
/// could be read.
fn read_one(
    section: &Section<'_>,
    all: Option<&[Placed<SourceEntry>]>,
    names: &mut BTreeSet<String>,
) -> Option<Group> {
    let GroupTable { name, sources, at_least } = section.read()?;
    let at_least = at_least.unwrap_or(0);
    let sources: BTreeSet<SourceId> = sources.into_iter().map(SourceId::new).collect();
    if !names.insert(name.clone()) {
        section.refuse("name", format!("there is a group `{name}` already"), "give each group its own name");
    }
    let is_known = |id: &SourceId| all.is_none_or(|all| all.iter().any(|placed| placed.entry.id == *id));
    let strangers: Vec<u16> = sources.iter().filter(|id| !is_known(id)).map(|id| id.number()).collect();
    if !strangers.is_empty() && section.is_good("sources") {
        let reason = format!(
            "group `{name}` lists sources that are not in this file: {}",
            ranges(strangers.into_iter())
        );
        section.refuse("sources", reason, "remove them from the group, or add a [[source]] for each");
    }
    if at_least as usize > sources.len() {
        let reason = format!(
            "group `{name}` has only {}, but needs {at_least}, so a run could never start",
            counted(sources.len(), "source")
        );
        section.refuse(
            "at_least",
            reason,
            format!("write at_least = {} or less, or add sources to the group", sources.len()),
        );
    }
    section.finish(Group { name, sources, at_least })
}
