//! [`OwingChange`]: from which event on a source owes no fragments, or owes them again.

use core::cmp::Reverse;
use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};

use crate::{
    id::{EventId, SourceId},
    time::Utc,
    wire::control::{Exclusion, MAX_CHANGES},
};

/// Length of the longest reason that is kept, in bytes.
const MAX_WHY: usize = 200;

/// A change of which fragments the events of a run are owed: an operator excluded a source, or
/// included it again.
///
/// ```
/// use evb_core::{id::*, ledger::OwingChange};
///
/// let (source, from) = (SourceId::new(7), EventId::new(5000));
/// let change = OwingChange::exclude(source, from, "broken power supply");
/// assert_eq!(
///     change.to_string(),
///     "source 7 is excluded from event 5000 on (broken power supply)"
/// );
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct OwingChange {
    /// The source.
    pub source: SourceId,
    /// True if the source owes no fragments from that event on; false if it owes them again.
    pub excluded: bool,
    /// First event to which the change applies.
    pub from: EventId,
    /// The operator's reason; at most 200 bytes.
    #[serde(deserialize_with = "reason")]
    pub why: String,
    /// Time of the request; unknown before the start of a run.
    pub utc: Utc,
}

impl OwingChange {
    /// Creates the exclusion of a source, without a time.
    pub fn exclude(source: SourceId, from: EventId, why: &str) -> Self {
        Self { source, excluded: true, from, why: cut(why), utc: Utc::UNKNOWN }
    }

    /// Creates the inclusion of a source, without a time.
    pub fn include(source: SourceId, from: EventId, why: &str) -> Self {
        Self { excluded: false, ..Self::exclude(source, from, why) }
    }

    /// Returns the changes of a run by several lists of them, each once, in the order of their
    /// first events. Lists of different times differ: a later change of a source takes the place of
    /// those that apply from its first event on, or from a later one.
    pub fn joined(mut all: Vec<Self>) -> Vec<Self> {
        all.sort_by_key(|change| Reverse((change.utc, change.from)));
        let mut firsts = BTreeMap::new();
        all.retain(|change| {
            let holds = firsts.get(&change.source).is_none_or(|first| change.from < *first);
            if holds {
                firsts.insert(change.source, change.from);
            }
            holds
        });
        all.sort_by_key(|change| (change.from, change.source));
        all.truncate(MAX_CHANGES);
        all
    }

    /// Returns the change in a word.
    pub(crate) fn what(&self) -> &'static str {
        if self.excluded { "excluded" } else { "included" }
    }

    /// Returns true if an earlier change of the same source has no effect any more, because it
    /// applies from the same event on or from a later one.
    pub(crate) fn replaces(&self, earlier: &Self) -> bool {
        earlier.source == self.source && earlier.from >= self.from
    }

    /// Returns the change as an entry of the journal, or of a message.
    pub(crate) fn entry(&self) -> Exclusion {
        Exclusion {
            source: self.source.number().into(),
            is_excluded: self.excluded,
            from: self.from.number(),
            why: self.why.clone(),
            utc_ns: self.utc.as_nanos(),
        }
    }

    /// Returns the change of an entry; `None` if its source cannot be.
    pub fn of_entry(entry: &Exclusion) -> Option<Self> {
        let source = SourceId::new(u16::try_from(entry.source).ok()?);
        let change = Self::exclude(source, EventId::new(entry.from), &entry.why);
        Some(Self { excluded: entry.is_excluded, utc: Utc::from_nanos(entry.utc_ns), ..change })
    }
}

/// Returns the part of an operator's reason that is kept, on one line.
fn cut(why: &str) -> String {
    why[..why.floor_char_boundary(MAX_WHY)].replace(char::is_control, " ")
}

fn reason<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    String::deserialize(deserializer).map(|why| cut(&why))
}

impl core::fmt::Display for OwingChange {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "source {} is {} from event {} on", self.source, self.what(), self.from)?;
        if self.why.is_empty() { Ok(()) } else { write!(f, " ({})", self.why) }
    }
}
