//! [`AlignmentWatch`]: the part of the supervisor in the alignment guard. When a builder doubts a
//! source, the supervisor asks sources for their last timestamps until it is clear what happened.

#[cfg(test)]
mod tests;

use core::time::Duration;
use std::collections::{BTreeSet, VecDeque};

use serde::Serialize;

use crate::{
    alignment::{
        Doubt, Explanation, Finding, Gathered, GuardedClocks, Inquiry, Survey, readings_of, survey_of,
    },
    fragment::Timestamp,
    id::{EventId, SourceId},
    index::ClockIndex,
    time::Instant,
    wire::{
        control::{AlignmentReport, ClockRelations, MalformedMessage, Readings, ReadingsWanted},
        journal::Judged,
    },
};

/// Number of trigger times that are remembered.
const TIMES: usize = 1024;
/// Time by which the event of a question lies ahead of the last decision, so that every source gets
/// the question before the fragment.
const AHEAD: Duration = Duration::from_millis(20);
/// Time for which the answers to a question are awaited.
const PATIENCE: Duration = Duration::from_secs(3);
/// Most clocks that are asked beside those in question and their rulers.
const WITNESSES: usize = 8;
/// Most events by which a question lies ahead.
const MOST_AHEAD: u64 = 1 << 20;

/// The inquiries of a run, and what they know.
#[derive(Clone, Debug)]
pub(super) struct AlignmentWatch {
    clocks: GuardedClocks,
    /// Events and the times of their triggers in UTC, the newest last.
    triggers: VecDeque<(EventId, Instant)>,
    gathered: Gathered,
    inquiries: Vec<ClockInquiry>,
    question: Option<Question>,
    questions: u32,
}

/// The state of the search for what happened to one clock.
#[derive(Clone, Debug, Default)]
struct ClockInquiry {
    open: Option<(Inquiry, Survey)>,
    /// Event at which a builder believed the source again, while the inquiry was open.
    returned: Option<EventId>,
    /// Event up to which doubts are about what the last finding explained.
    explained: EventId,
    /// Given while the source is known to deliver fragments of other events.
    misaligned: Option<Misaligned>,
    /// The last explanation.
    last: Option<Explanation>,
}

/// Begin and description of the time for which a source delivers fragments of other events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Misaligned {
    pub(super) since: EventId,
    /// Sentence about what happened, without its subject.
    pub(super) sentence: String,
}

/// A question to sources that is not answered yet.
#[derive(Clone, Debug)]
struct Question {
    number: u32,
    event: EventId,
    /// Sources that have not answered.
    waits_for: BTreeSet<SourceId>,
    until: Instant,
}

impl Misaligned {
    /// Returns the entry of the journal about a source.
    pub(super) fn entry(&self, source: SourceId) -> Judged {
        Judged {
            source: source.number().into(),
            is_misaligned: true,
            since: self.since.number(),
            sentence: self.sentence.clone(),
        }
    }
}

/// Agreement of a source's timestamps with those of other sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum AlignmentState {
    /// Nothing is known against the timestamps.
    Agrees,
    /// Timestamps disagree, and it is not clear yet why.
    Doubted,
    /// The source delivers fragments of other events.
    Misaligned,
}

/// State of a source whose timestamps are compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AlignmentSurvey {
    /// Agreement of the timestamps.
    pub state: AlignmentState,
    /// First event that disagrees; 0 if none does.
    pub since: u64,
    /// Sentence about what happened, without its subject; empty if nothing is known.
    pub sentence: String,
}

/// Message with a question, and the sources that are to answer it.
pub(super) type Asking = (ReadingsWanted, BTreeSet<SourceId>);

impl AlignmentWatch {
    /// Returns the watch over these clocks; `None` if there are too few to compare.
    pub(super) fn new(clocks: &GuardedClocks) -> Option<Self> {
        let count = clocks.clocks.len();
        clocks.can_compare().then(|| Self {
            clocks: clocks.clone(),
            triggers: VecDeque::with_capacity(TIMES),
            gathered: Gathered::new(count),
            inquiries: vec![ClockInquiry::default(); count],
            question: None,
            questions: 0,
        })
    }

    /// Returns the source of a clock.
    pub(super) fn source(&self, clock: ClockIndex) -> Option<SourceId> {
        self.clocks.source(clock)
    }

    /// Notes the decision on an event, and the time of its trigger in UTC.
    pub(super) fn note_trigger(&mut self, event: EventId, at: Instant) {
        if self.triggers.len() == TIMES {
            self.triggers.pop_front();
        }
        self.triggers.push_back((event, at));
    }

    /// Handles a builder's doubts. Returns the sources that agree again, of those that were known
    /// to be misaligned.
    pub(super) fn handle_report(
        &mut self,
        report: &AlignmentReport,
        decided: EventId,
    ) -> Result<Vec<SourceId>, MalformedMessage> {
        let survey =
            report.relations.as_ref().map(|relations| survey_of(relations, &self.clocks)).transpose()?;
        for doubt in &report.doubts {
            let doubt = Doubt::of(doubt, &self.clocks)?;
            let idle = self.is_idle();
            let inquiry = &mut self.inquiries[doubt.clock];
            if inquiry.misaligned.is_some() || doubt.first <= inquiry.explained {
                continue;
            }
            inquiry.returned = None;
            if let Some((inquiry, _)) = &mut inquiry.open {
                inquiry.add(&doubt);
                continue;
            }
            let Some(survey) = &survey else { continue };
            inquiry.open = Some((Inquiry::new(&doubt, decided), survey.clone()));
            if idle {
                self.gathered = Gathered::new(self.clocks.clocks.len());
            }
        }
        let returned = report.returned.iter().filter_map(|id| u16::try_from(*id).ok().map(SourceId::new));
        Ok(returned.filter(|source| self.settle(*source, decided)).collect())
    }

    /// Returns true if builders that join may go on from these relations: the builder that learnt
    /// them suspects all sources in question, so it knows them from the time before.
    pub(super) fn is_sound(&self, relations: &ClockRelations) -> bool {
        let Ok(survey) = survey_of(relations, &self.clocks) else { return false };
        let all = self.clocks.sources().zip(&self.inquiries);
        let mut doubtful = all.filter(|(_, inquiry)| inquiry.misaligned.is_some() || inquiry.open.is_some());
        doubtful.all(|((clock, _), _)| survey.is_suspect(clock))
    }

    /// Notes that a source's timestamps are right from here on. Returns true if they were known to
    /// be wrong.
    pub(super) fn settle(&mut self, source: SourceId, decided: EventId) -> bool {
        let Some(clock) = self.clocks.index(source) else { return false };
        let inquiry = &mut self.inquiries[clock];
        inquiry.explained = decided;
        inquiry.returned = inquiry.open.as_ref().map(|_| decided);
        inquiry.last = None;
        inquiry.misaligned.take().is_some()
    }

    /// Notes whether a source is known to deliver fragments of other events.
    pub(super) fn set_misaligned(&mut self, source: SourceId, misaligned: Option<Misaligned>) {
        if let Some(clock) = self.clocks.index(source) {
            self.inquiries[clock].misaligned = misaligned;
        }
    }

    /// Returns true if the timestamps of that source are compared.
    pub(super) fn watches(&self, source: SourceId) -> bool {
        self.clocks.index(source).is_some()
    }

    /// Ends the inquiry about a source, and ignores doubts about events up to `decided`.
    pub(super) fn forget(&mut self, source: SourceId, decided: EventId) {
        if let Some(clock) = self.clocks.index(source) {
            self.inquiries[clock] = ClockInquiry { explained: decided, ..ClockInquiry::default() };
        }
    }

    /// Returns the sources that are known to deliver fragments of other events.
    pub(super) fn misaligned(&self) -> impl Iterator<Item = (SourceId, &Misaligned)> {
        let all = self.clocks.sources().zip(&self.inquiries);
        all.filter_map(|((_, source), inquiry)| Some((source, inquiry.misaligned.as_ref()?)))
    }

    /// Returns what is known about a source; `None` if its timestamps are not compared.
    pub(super) fn survey(&self, source: SourceId) -> Option<AlignmentSurvey> {
        let inquiry = &self.inquiries[self.clocks.index(source)?];
        let (state, since, sentence) = match (&inquiry.misaligned, &inquiry.open) {
            (Some(known), _) => (AlignmentState::Misaligned, known.since, known.sentence.clone()),
            (None, Some((open, _))) => (AlignmentState::Doubted, open.first(), String::new()),
            (None, None) => (AlignmentState::Agrees, EventId::default(), String::new()),
        };
        Some(AlignmentSurvey { state, since: since.number(), sentence })
    }

    /// Handles a source's answer.
    pub(super) fn handle_readings(
        &mut self,
        source: SourceId,
        readings: &Readings,
    ) -> Result<(), MalformedMessage> {
        let pairs = readings_of(readings)?;
        let (Some(clock), false) = (self.clocks.index(source), self.is_idle()) else { return Ok(()) };
        self.gathered.add(clock, pairs.map(|(event, ticks)| (EventId::new(event), Timestamp::new(ticks))));
        if let Some(question) = self.question.as_mut().filter(|question| question.number == readings.question)
        {
            question.waits_for.remove(&source);
        }
        Ok(())
    }

    /// Returns the next question, if one is to be asked: at once about the time before the doubt,
    /// and then about the event at which the next look is promising.
    pub(super) fn next_question(&mut self, now: Instant) -> Option<Asking> {
        if self.question.is_some() || self.is_idle() {
            return None;
        }
        let ahead = EventId::new(self.decided().number() + self.events_in(AHEAD));
        let is_first = self.gathered.is_empty();
        let wanted = self.open().map(|(inquiry, _)| inquiry.next_look()).min()?;
        if !is_first && wanted > ahead {
            return None;
        }
        let event = if is_first { EventId::default() } else { wanted.max(ahead) };
        Some(self.ask(event, now))
    }

    /// Returns a question for what sources know at the end of the run, if an inquiry is open.
    pub(super) fn last_question(&mut self, now: Instant) -> Option<Asking> {
        if self.is_idle() { None } else { Some(self.ask(EventId::default(), now)) }
    }

    fn ask(&mut self, event: EventId, now: Instant) -> Asking {
        self.questions = self.questions.wrapping_add(1);
        let number = self.questions;
        let waits_for = self.concerned();
        self.question = Some(Question { number, event, waits_for: waits_for.clone(), until: now + PATIENCE });
        (ReadingsWanted { question: number, event: event.number() }, waits_for)
    }

    /// Returns the findings that are clear from the answers to the last question, once all sources
    /// have answered or enough time has passed.
    pub(super) fn look(&mut self, now: Instant) -> Vec<Finding> {
        let is_over = |question: &mut Question| question.waits_for.is_empty() || question.until <= now;
        let Some(question) = self.question.take_if(is_over) else { return Vec::new() };
        self.add_trigger_times();
        let mut found = Vec::new();
        for clock in ClockIndex::all(self.inquiries.len()) {
            let Some((mut inquiry, survey)) = self.inquiries[clock].open.take() else { continue };
            // Sources that run ahead of builders know at once what happened.
            let finding = match inquiry.next_look() <= question.event {
                true => inquiry.look(&survey, &self.gathered),
                false => inquiry.glance(&survey, &self.gathered),
            };
            match finding {
                Some(finding) => self.note(finding, clock, &survey, &mut found),
                None => self.inquiries[clock].open = Some((inquiry, survey)),
            }
        }
        found
    }

    /// Ends all inquiries, because no further event follows. Returns the findings that are clear,
    /// and the inquiries in which nothing is.
    pub(super) fn conclude(&mut self) -> (Vec<Finding>, Vec<Inquiry>) {
        self.add_trigger_times();
        let decided = self.decided();
        let (mut found, mut unclear) = (Vec::new(), Vec::new());
        for clock in ClockIndex::all(self.inquiries.len()) {
            let Some((mut inquiry, survey)) = self.inquiries[clock].open.take() else { continue };
            match inquiry.conclude(&survey, &self.gathered, decided) {
                Some(finding) => self.note(finding, clock, &survey, &mut found),
                None => unclear.push(inquiry),
            }
        }
        (found, unclear)
    }

    /// Adds the times of triggers, if they say in which wrap of its clock a timestamp lies.
    fn add_trigger_times(&mut self) {
        if self.clocks.host_times {
            self.gathered.add_hosts(self.triggers.iter().copied());
        }
    }

    /// Notes a finding of the inquiry about a clock, unless it says what is known.
    fn note(&mut self, mut finding: Finding, asked: ClockIndex, survey: &Survey, found: &mut Vec<Finding>) {
        let decided = self.decided();
        for clock in [asked, finding.clock] {
            self.inquiries[clock].explained = decided;
        }
        let is_known = |clock: ClockIndex| {
            self.inquiries[clock].misaligned.is_some() || found.iter().any(|known| known.clock == clock)
        };
        // Beside a source that is known to have slipped, all others disagree.
        let is_contrary = finding.is_disputed && survey.ruler(asked).is_some_and(is_known);
        if is_known(finding.clock) || is_contrary {
            return;
        }
        let inquiry = &mut self.inquiries[finding.clock];
        finding.until = inquiry.returned.take();
        let earlier = inquiry.last.replace(finding.verdict);
        let goes_on = |earlier| finding.verdict.goes_on(earlier, survey.is_proven(finding.clock));
        finding.is_repeated = earlier.is_some_and(goes_on);
        found.push(finding);
    }

    /// Returns the time at which a question ends without all answers.
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        self.question.as_ref().map(|question| question.until)
    }

    fn is_idle(&self) -> bool {
        self.open().next().is_none()
    }

    fn open(&self) -> impl Iterator<Item = &(Inquiry, Survey)> {
        self.inquiries.iter().filter_map(|inquiry| inquiry.open.as_ref())
    }

    fn decided(&self) -> EventId {
        self.triggers.back().map(|(event, _)| *event).unwrap_or_default()
    }

    /// Returns the sources that can say something: those in question, their rulers, and some
    /// others.
    fn concerned(&self) -> BTreeSet<SourceId> {
        let asked =
            self.open().flat_map(|(inquiry, survey)| [Some(inquiry.clock()), survey.ruler(inquiry.clock())]);
        let named: BTreeSet<SourceId> =
            asked.flatten().filter_map(|clock| self.clocks.source(clock)).collect();
        let others = self.clocks.sources().map(|(_, source)| source).filter(|source| !named.contains(source));
        named.iter().copied().chain(others.take(WITNESSES)).collect()
    }

    /// Returns the number of events that are decided in that time, at the rate of the last ones.
    fn events_in(&self, time: Duration) -> u64 {
        let (Some(first), Some(last)) = (self.triggers.front(), self.triggers.back()) else { return 0 };
        let (events, span) = (last.0.number() - first.0.number(), last.1.since(first.1));
        let nanos = span.as_nanos().max(1);
        u64::try_from(u128::from(events) * time.as_nanos() / nanos).unwrap_or(0).min(MOST_AHEAD)
    }
}
