//! [`Verdicts`]: the supervisor's answers to doubts about timestamps. It asks the sources, records
//! what is found, and acts on it.

#[cfg(test)]
mod tests;

use super::{
    ChangeError, OnSlip, Recipients, SupervisorCore,
    alignment::{AlignmentWatch, Asking, Misaligned},
    journal::What,
    seats::BuilderSeat,
};
use crate::{
    alignment::{DetectorClock, Episode, Explanation, Finding},
    id::{EventId, Peer, SourceId},
    index::ClockIndex,
    time::Instant,
    wire::{
        control::{AlignmentReport, ClockRelations, Episodes, Learn, Message, Readings},
        journal::Judged,
    },
};

/// Remedy for fragments in wrong events.
const REMEDY: &str = "the files flag these fragments (`evbd dump --fragments FILE` shows the flags): check trigger input and cables of the source's boards, reset them, and start a new run";

/// Returns what to do about a finding by which no fragment is in a wrong event.
const fn advice(verdict: Explanation) -> &'static str {
    match verdict {
        Explanation::OtherBits(_) | Explanation::OtherRate { .. } => {
            "correct its `clock` in the configuration before the next run"
        }
        Explanation::Stuck => "look at the clock of its boards",
        _ => "nothing needs to be done",
    }
}

/// The supervisor where it watches whether timestamps agree.
#[derive(Debug)]
pub(crate) struct Verdicts<'a> {
    pub(super) core: &'a mut SupervisorCore,
}

impl Verdicts<'_> {
    /// Adds clocks that sources declared themselves to those of the plan, which go before.
    pub(super) fn adopt_clocks(&mut self, own: impl IntoIterator<Item = (SourceId, DetectorClock)>) {
        let core = &mut *self.core;
        core.plan.clocks.clone_from(&core.planned);
        core.plan.clocks.adopt(own);
        core.watch = AlignmentWatch::new(&core.plan.clocks).map(Box::new);
    }

    /// Handles a builder's doubts about timestamps.
    pub(super) fn handle_doubts(&mut self, peer: Peer, report: &AlignmentReport, now: Instant) {
        let decided = self.core.decided();
        let Some(watch) = &mut self.core.watch else { return };
        let returned = match watch.handle_report(report, decided) {
            Ok(returned) => returned,
            Err(fault) => return self.core.expel(peer, fault.problem, now),
        };
        if let (Some(begun), Some(relations)) = (&mut self.core.begun, &report.relations) {
            let proven =
                |relations: &ClockRelations| relations.clocks.iter().filter(|clock| clock.is_proven).count();
            let is_less = begun.relations.as_ref().is_some_and(|known| proven(known) > proven(relations));
            if watch.is_sound(relations) && !is_less {
                begun.relations = Some(relations.clone());
            }
        }
        for source in returned {
            let named = self.core.plan.named(Peer::Source(source));
            self.judge(source, None, now);
            self.end_episodes(source, decided, now);
            self.remark(
                format!(
                    "the timestamps of {named} agree with the others again, since event {decided} or before: nothing needs to be done"
                ),
                now,
            );
        }
    }

    /// Handles the last timestamps of a source.
    pub(super) fn handle_readings(&mut self, peer: Peer, readings: &Readings, now: Instant) {
        let (Some(watch), Peer::Source(source)) = (&mut self.core.watch, peer) else { return };
        if let Err(fault) = watch.handle_readings(source, readings) {
            self.core.expel(peer, fault.problem, now);
        }
    }

    /// Looks at the answers to the last question, and asks the next one.
    pub(super) fn advance(&mut self, now: Instant) {
        let Some(watch) = &mut self.core.watch else { return };
        let found = watch.look(now);
        let asking = watch.next_question(now);
        found.iter().for_each(|finding| self.act_on(finding, now));
        self.ask(asking);
    }

    /// Asks for what sources know at the end of the run.
    pub(super) fn ask_a_last_time(&mut self, now: Instant) {
        let asking = self.core.watch.as_mut().and_then(|watch| watch.last_question(now));
        self.ask(asking);
    }

    /// Ends all inquiries at the end of the run.
    pub(super) fn conclude(&mut self, now: Instant) {
        let Some(watch) = &mut self.core.watch else { return };
        let (found, unclear) = watch.conclude();
        found.iter().for_each(|finding| self.act_on(finding, now));
        for inquiry in unclear {
            let (named, since) = (self.name_of(inquiry.clock()), inquiry.first());
            let text = format!(
                "since event {since}, timestamps of {named} disagree with the others, and the run ended before it was clear why"
            );
            match inquiry.is_suspect() {
                true => self.core.books.problem(format!("{text}; {REMEDY}"), &mut self.core.outbox, now),
                false => {
                    self.remark(format!("{text}: compare them with `evbd verify --align CONFIG`"), now);
                }
            }
        }
    }

    /// Takes the present timestamps of a source as the right ones, because an operator says so.
    ///
    /// # Errors
    /// Returns [`ChangeError`] if the timestamps of that source are not compared.
    pub(crate) fn learn(&mut self, source: SourceId, now: Instant) -> Result<(), ChangeError> {
        let decided = self.core.decided();
        let Some(watch) = self.core.watch.as_mut().filter(|watch| watch.watches(source)) else {
            return Err(ChangeError::NoClock(source));
        };
        if !self.core.phase.is_running() {
            return Err(ChangeError::NotRunning);
        }
        watch.forget(source, decided);
        let named = self.core.plan.named(Peer::Source(source));
        let remark = format!(
            "an operator took the timestamps of {named} as right from event {decided} on, and evb compares later ones with them: nothing needs to be done"
        );
        self.judge(source, None, now);
        self.end_episodes(source, decided, now);
        self.tell_to_learn(source);
        self.remark(remark, now);
        Ok(())
    }

    /// Records a finding, and pauses or ends the run if the plan says so.
    fn act_on(&mut self, finding: &Finding, now: Instant) {
        let Some(source) = self.core.watch.as_ref().and_then(|watch| watch.source(finding.clock)) else {
            return;
        };
        if finding.is_repeated {
            return self.tell_to_learn(source);
        }
        let (named, since) = (self.core.plan.named(Peer::Source(source)), finding.since);
        let sentence = finding.sentence(|clock| self.name_of(clock));
        let or = match finding.is_disputed {
            true => " (or the other sources did the contrary: only a third source with a `clock` could tell)",
            false => "",
        };
        let text = format!("since event {since}, {named} {sentence}{or}");
        let run = self.core.plan.run;
        self.tell_episodes([Episode::of(finding, source, |clock| self.name_of(clock))], now);
        if !finding.verdict.is_misaligned() {
            self.remark(format!("{text}; {}", advice(finding.verdict)), now);
            if finding.verdict != Explanation::SingleStamps {
                self.tell_to_learn(source);
            }
            return;
        }
        tracing::error!(%run, "run {run}: {text}; {REMEDY}");
        self.core.books.problem(format!("{text}; {REMEDY}"), &mut self.core.outbox, now);
        // Fragments that were exchanged in single events are over.
        let lasts = finding.verdict != Explanation::SwappedPair && finding.until.is_none();
        self.judge(source, lasts.then_some(Misaligned { since, sentence }), now);
        match self.core.plan.on_slip {
            OnSlip::Report => {}
            // A run that is paused or stopping already needs nothing.
            OnSlip::Pause => drop(self.core.pause(now)),
            OnSlip::Stop => self.core.stop(&text, now),
        }
    }

    fn remark(&mut self, remark: String, now: Instant) {
        let run = self.core.plan.run;
        tracing::warn!(%run, "run {run}: {remark}");
        self.core.books.remark(remark, &mut self.core.outbox, now);
    }

    /// Notes in watch and journal whether a source is known to deliver fragments of other events.
    fn judge(&mut self, source: SourceId, misaligned: Option<Misaligned>, now: Instant) {
        let absolved = Judged { source: source.number().into(), ..Judged::default() };
        let judged = misaligned.as_ref().map_or(absolved, |known| known.entry(source));
        self.core.outbox.journal(What::Judged(judged), now);
        if let Some(watch) = &mut self.core.watch {
            watch.set_misaligned(source, misaligned);
        }
    }

    /// Tells the builders to learn the relation of a source's clock again, from the events after
    /// those decided so far.
    fn tell_to_learn(&mut self, source: SourceId) {
        let clock = self.core.plan.clocks.index(source);
        let relations = self.core.begun.as_mut().and_then(|begun| begun.relations.as_mut());
        if let Some(known) = relations.zip(clock).and_then(|(all, clock)| all.clocks.get_mut(clock.get())) {
            known.is_proven = false;
        }
        let after = self.core.decided().number();
        self.tell_builders(
            &Message::Learn(Learn { source: source.number().into(), after }),
            BuilderSeat::is_active,
        );
    }

    /// Notes that a source delivers the fragments of the right events again.
    fn end_episodes(&mut self, source: SourceId, decided: EventId, now: Instant) {
        let all = self.core.books.findings().episodes().iter();
        let lasting = all.filter(|known| known.source == source && known.misaligned && known.until.is_none());
        let over: Vec<_> = lasting.map(|known| Episode { until: Some(decided), ..known.clone() }).collect();
        self.tell_episodes(over, now);
    }

    /// Records episodes, and tells the builders, whose files keep them.
    fn tell_episodes(&mut self, episodes: impl IntoIterator<Item = Episode>, now: Instant) {
        let core = &mut *self.core;
        let mut message = Episodes::default();
        for episode in episodes {
            message.episodes.push(episode.message());
            core.books.note_episode(episode, &mut core.outbox, now);
        }
        if !message.episodes.is_empty() {
            self.tell_builders(&Message::Episodes(message), |seat| seat.connection.is_some());
        }
    }

    /// Tells the builders which sources were excluded or included so far, for their files.
    pub(super) fn tell_changes(&mut self) {
        if let Some(message) = self.core.books.findings().changes() {
            self.tell_builders(&message, |seat| seat.connection.is_some());
        }
    }

    fn tell_builders(&mut self, message: &Message, takes: impl Fn(&BuilderSeat) -> bool) {
        let seats = self.core.roster.builders().iter().filter(|seat| takes(seat));
        let builders: Vec<_> = seats.map(|seat| seat.id).collect();
        for builder in builders {
            self.core.outbox.send(Recipients::Builder(builder), message.clone());
        }
    }

    fn ask(&mut self, asking: Option<Asking>) {
        let Some((wanted, sources)) = asking else { return };
        for source in sources {
            self.core.outbox.send(Recipients::Source(source), Message::ReadingsWanted(wanted));
        }
    }

    fn name_of(&self, clock: ClockIndex) -> String {
        let source = self.core.watch.as_ref().and_then(|watch| watch.source(clock)).unwrap_or_default();
        self.core.plan.named(Peer::Source(source))
    }
}
