use evb_core::{
    event::{Event, FragmentView},
    id::{EventId, SourceId},
};

use super::pattern::{PatternStart, STAMP, Stamp};
use crate::filter::{Filter, FilterVerdict};

#[cfg(test)]
mod tests;

/// Extent to which the content of generated fragments is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentCheck {
    /// The stamp at the start of each fragment: event, source, length.
    Stamp,
    /// Every byte of each fragment.
    Full,
}

/// Error: the content of a generated fragment is not what its generator wrote.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("source {source_id}: {problem}")]
pub struct WrongContent {
    /// The fragment's source.
    pub source_id: SourceId,
    /// Description of the problem.
    pub problem: String,
}

/// A filter that knows what [generators](super::Generator) write, and reports any other content as
/// corrupt.
///
/// ```
/// use evb::{
///     filter::{Filter, FilterVerdict},
///     input::{CheckContent, ContentCheck, FragmentSize, Generator},
///     prelude::*,
/// };
///
/// let (source, limit) = (SourceId::new(1), Bytes::kib(4));
/// let mut generator = Generator::new(source, FragmentSize::Fixed(limit), limit, 1);
/// let fragment = generator.generate(EventId::FIRST);
/// let mut event = Event::default();
/// event.id = EventId::FIRST;
/// event.add(source, fragment.timestamp, fragment.payload);
///
/// let mut check = CheckContent::new([(source, ContentCheck::Full)]);
/// assert_eq!(check.verdict(&event), FilterVerdict::Accept);
/// event.id = EventId::new(2); // as if the fragment were in the wrong event
/// assert!(matches!(check.verdict(&event), FilterVerdict::Corrupt { .. }));
/// ```
#[derive(Clone, Debug, Default)]
pub struct CheckContent {
    /// The generators by source, ascending.
    generators: Vec<(SourceId, ContentCheck)>,
}

impl CheckContent {
    /// Creates a filter that checks the fragments of the given sources and ignores those of other
    /// sources.
    pub fn new(generators: impl IntoIterator<Item = (SourceId, ContentCheck)>) -> Self {
        let mut generators: Vec<_> = generators.into_iter().collect();
        generators.sort_by_key(|(source, _)| *source);
        Self { generators }
    }

    /// Checks the fragments that are in the event.
    ///
    /// # Errors
    /// The first fragment whose content is not what its generator writes.
    pub fn check(&self, event: &Event) -> Result<(), WrongContent> {
        let mut generators = self.generators.iter().peekable();
        for fragment in event.fragments() {
            while generators.next_if(|(source, _)| *source < fragment.source).is_some() {}
            if let Some((_, extent)) = generators.next_if(|(source, _)| *source == fragment.source) {
                check(event.id, fragment, *extent)?;
            }
        }
        Ok(())
    }
}

impl Filter for CheckContent {
    fn verdict(&mut self, event: &Event) -> FilterVerdict {
        match self.check(event) {
            Ok(()) => FilterVerdict::Accept,
            Err(WrongContent { source_id, problem }) => FilterVerdict::Corrupt { source_id, problem },
        }
    }
}

/// Checks that the generator wrote this payload, for this source and event.
fn check(event: EventId, fragment: FragmentView<'_>, extent: ContentCheck) -> Result<(), WrongContent> {
    let payload = fragment.payload;
    let place = PatternStart::stamped(payload);
    let stamp = Stamp::new(event, fragment.source, place, payload.len());
    let wrong = |problem| WrongContent { source_id: fragment.source, problem };
    if !stamp.is_on(payload) {
        let (found, length) = (&payload[..payload.len().min(STAMP)], payload.len());
        return Err(wrong(format!(
            "the fragment of {length} B does not begin with the generator's stamp for this event and source, but with {found:02x?}; check that the input of this source is the generator, and memory and network of the source's host"
        )));
    }
    if extent == ContentCheck::Full
        && let Some(at) = place.first_difference(payload)
    {
        let length = payload.len();
        return Err(wrong(format!(
            "byte {at} of the {length} of its fragment is not what its generator wrote; check memory and network of the source's host and of this one"
        )));
    }
    Ok(())
}
