//! [`Episode`]: what happened to the fragments of a source, and in which events.

use serde::{Deserialize, Serialize};

use super::{Explanation, Finding};
use crate::{
    id::{EventId, SourceId},
    index::ClockIndex,
    wire::control::{self, MAX_EPISODES, MAX_REASON, plain},
};

/// Length of the longest word for a kind, in characters.
const MAX_KIND: usize = 40;

/// Events in which something was wrong with the timestamps of a source, and what it was.
///
/// ```
/// use evb_core::{alignment::Episode, id::*};
///
/// let slip = Episode {
///     source: SourceId::new(7),
///     since: EventId::new(5000),
///     kind: "slip".to_owned(),
///     shift: Some(1),
///     misaligned: true,
///     ..Episode::default()
/// };
/// let mut all = vec![slip.clone()];
/// // The source came right again, so the episode has an end.
/// Episode::note(&mut all, Episode { until: Some(EventId::new(6000)), ..slip.clone() });
/// // What was known before changes nothing.
/// Episode::note(&mut all, slip);
/// assert_eq!((all.len(), all[0].until), (1, Some(EventId::new(6000))));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Episode {
    /// The source.
    pub source: SourceId,
    /// First event that disagrees.
    pub since: EventId,
    /// Last event, or one that was decided soon after it; `None` while the episode lasts.
    pub until: Option<EventId>,
    /// Word for what happened, as [`Explanation::kind`] gives it.
    pub kind: String,
    /// With a slip, the fragment of event n belongs to event n + `shift`.
    pub shift: Option<i64>,
    /// True if the source's fragments are in wrong events, or may be.
    pub misaligned: bool,
    /// True if it may as well be the contrary of the other sources: the votes were equal.
    pub disputed: bool,
    /// Sentence about what happened, without its subject.
    pub text: String,
}

impl Episode {
    /// Returns the episode that a finding about that source begins. `named` returns the name of
    /// another source.
    pub fn of(finding: &Finding, source: SourceId, named: impl Fn(ClockIndex) -> String) -> Self {
        let (since, verdict) = (finding.since, finding.verdict);
        Self {
            source,
            since,
            until: if verdict == Explanation::SwappedPair { Some(since.next()) } else { finding.until },
            kind: verdict.kind().to_owned(),
            shift: match verdict {
                Explanation::Slip { shift, .. } => Some(shift),
                _ => None,
            },
            misaligned: verdict.is_misaligned(),
            disputed: finding.is_disputed,
            text: finding.sentence(named),
        }
    }

    /// Adds an episode to those of a run, which are in the order of their first events. It takes
    /// the place of what was known about it, unless only that has the end. More than
    /// [`MAX_EPISODES`] are not kept.
    pub fn note(all: &mut Vec<Self>, new: Self) {
        match all.binary_search_by_key(&(new.since, new.source), |known| (known.since, known.source)) {
            Ok(place) if new.until.is_some() || all[place].until.is_none() => all[place] = new,
            Ok(_) => {}
            Err(place) if all.len() < MAX_EPISODES => all.insert(place, new),
            Err(_) => {}
        }
    }

    /// Returns the episode as a part of a message.
    pub fn message(&self) -> control::Episode {
        control::Episode {
            source: self.source.number().into(),
            since: self.since.number(),
            until: self.until.map_or(0, EventId::number),
            kind: self.kind.clone(),
            shift: self.shift.unwrap_or(0).cast_unsigned(),
            is_misaligned: self.misaligned,
            is_disputed: self.disputed,
            sentence: self.text.clone(),
        }
    }

    /// Returns the episode in a part of a message; `None` if no source has that id.
    pub fn of_message(told: &control::Episode) -> Option<Self> {
        Some(Self {
            source: SourceId::new(u16::try_from(told.source).ok()?),
            since: EventId::new(told.since),
            until: (told.until > 0).then(|| EventId::new(told.until)),
            kind: plain(&told.kind, MAX_KIND),
            shift: Some(told.shift.cast_signed()).filter(|shift| *shift != 0),
            misaligned: told.is_misaligned,
            disputed: told.is_disputed,
            text: plain(&told.sentence, MAX_REASON),
        })
    }
}
