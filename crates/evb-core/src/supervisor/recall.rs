//! From an entry of the journal to the state that it led to. An entry's checksum tells that it was written so, and not that it
//! makes sense: every number is checked before it is counted with.

#[cfg(test)]
mod tests;

use super::{
    SupervisorCore,
    journal::{What, sums},
    outstanding::{BuilderIndex, Place},
    plan::with_rate,
    registration::MAX_LISTEN,
    seats::{Down, Leaving},
};
use crate::{
    id::{BuilderId, Epoch, SourceId},
    set::SourceSet,
    time::Instant,
    units::Frequency,
    wire::{
        control::{MAX_BUILDERS, MAX_SLOTS, MalformedMessage, Role, Verdict},
        journal::{
            Accounted, Blame, Decided, Entry, Reassigned, Registered, RosterChange, membership::Change,
        },
    },
};

/// No run counts so far: at 1 MHz it takes 142 years. Sums of thousands of counts below it do not overflow.
const BEYOND_ALL_RUNS: u64 = 1 << 52;

/// The same for what is counted in 32 bits: lives of processes and versions of the roster.
const TOO_OFTEN: u32 = 1 << 31;

/// The longest text that is read, in bytes; reports and verdicts are made of it.
const MAX_TEXT: usize = 1 << 14;

/// Zero says in [`Totals`](crate::wire::journal::Totals) that something has not been.
const EARLIEST: Instant = Instant::from_nanos(1);

/// What is wrong with an entry.
#[derive(Debug)]
pub(super) struct Nonsense(pub(super) String);

impl From<MalformedMessage> for Nonsense {
    fn from(error: MalformedMessage) -> Self {
        Self(error.to_string())
    }
}

pub(super) fn nonsense<T>(problem: impl Into<String>) -> Result<T, Nonsense> {
    Err(Nonsense(problem.into()))
}

/// A number of events or the like, if a run can have so many.
pub(super) fn count(value: u64) -> Result<u64, Nonsense> {
    if value < BEYOND_ALL_RUNS { Ok(value) } else { nonsense(format!("{value} is beyond all counts")) }
}

/// How many these are together.
pub(super) fn total(counts: impl IntoIterator<Item = u64>) -> Result<u64, Nonsense> {
    counts.into_iter().try_fold(0, |sum, value| count(sum + count(value)?))
}

/// The number of a life of a process, or of a roster.
pub(super) fn ordinal(number: u32) -> Result<u32, Nonsense> {
    if number < TOO_OFTEN { Ok(number) } else { nonsense(format!("{number} is beyond all counts")) }
}

/// An epoch that others can come after.
pub(super) fn epoch(number: u64) -> Result<Epoch, Nonsense> {
    let room = number.checked_add(BEYOND_ALL_RUNS).is_some();
    if room { Ok(Epoch::new(number)) } else { nonsense("an epoch beyond all epochs") }
}

/// As much of a text as reports bear.
pub(super) fn text(text: &str) -> String {
    text[..text.floor_char_boundary(MAX_TEXT)].to_owned()
}

/// Where a builder is reached.
pub(super) fn listen(address: &str) -> Result<String, Nonsense> {
    if address.len() <= MAX_LISTEN { Ok(address.to_owned()) } else { nonsense("an address without end") }
}

impl SupervisorCore {
    /// Takes an entry that is neither the first nor [`What::Totals`] nor of whoever reads.
    pub(super) fn recall(&mut self, what: &What, at: Instant) -> Result<(), Nonsense> {
        match what {
            What::Begun(_) => return nonsense("a run begins once"),
            What::Totals(_) => return nonsense("totals stand before everything else"),
            What::Ended(_) | What::Resumed(_) => {}
            What::Epoch(number) => self.epoch = epoch(*number)?.max(self.epoch),
            What::Registered(registered) => self.recall_registration(registered)?,
            What::Started(_) if self.tally.started.is_some() => return nonsense("triggers began twice"),
            What::Started(_) => self.tally.started = Some(at),
            What::Roster(change) => self.recall_roster(change, at)?,
            What::Decided(decided) => self.recall_decisions(decided, at)?,
            What::Reassigned(reassigned) => self.recall_reassignment(reassigned)?,
            What::Accounted(accounted) => self.recall_completions(accounted, at)?,
            What::Over(builder) => {
                let index = self.recalled_builder(*builder)?;
                if !self.builders[index].is_alive() {
                    return nonsense("a builder that was not there has ended");
                }
                self.builders[index].over = true;
                let moved = self.unhouse(index);
                self.builders[index].tally.moved += moved;
            }
            What::Lost(lost) => self.recall_loss(sums(&lost.events), &lost.cause)?,
            What::Membership(membership) => {
                self.recall_membership(membership.builder, membership.change())?;
            }
            What::Finding(finding) if finding.remark => self.findings.remark(text(&finding.problem)),
            What::Finding(finding) if finding.failure => self.findings.fail(text(&finding.problem)),
            What::Finding(finding) => self.findings.problem(text(&finding.problem)),
            What::Paused(paused) => self.paused = *paused,
            What::Stopping(_) => self.tally.last_trigger_possible = Some(at),
            What::Rate(hertz) => self.recall_rate(*hertz)?,
        }
        Ok(())
    }

    fn recall_rate(&mut self, hertz: f64) -> Result<(), Nonsense> {
        let Some(rate) = Frequency::from_hertz(hertz) else {
            return nonsense(format!("a rate of {hertz} Hz"));
        };
        // Where the configuration has another trigger now, that counts.
        if let Some(trigger) = with_rate(self.plan.trigger, rate) {
            (self.plan.trigger, self.rate) = (trigger, Some(rate));
        }
        Ok(())
    }

    fn recall_registration(&mut self, registered: &Registered) -> Result<(), Nonsense> {
        let Ok(id) = u16::try_from(registered.id) else { return nonsense("no such peer") };
        let incarnation = ordinal(registered.incarnation)?;
        match registered.role() {
            Role::Source => {
                let Some(index) = self.source_index(SourceId::new(id)) else {
                    return nonsense("no such source");
                };
                let seat = &mut self.sources[index];
                seat.incarnation = incarnation;
                seat.max_fragment = registered.max_fragment;
            }
            Role::Builder => {
                let index = self.recalled_builder(registered.id)?;
                let seat = &mut self.builders[index];
                if incarnation < seat.incarnation.max(1) {
                    return nonsense("a builder of before has come back");
                }
                if incarnation > seat.incarnation {
                    if seat.tally.outstanding() > 0 {
                        return nonsense("a builder has come whose place was not empty");
                    }
                    seat.begin_incarnation();
                    seat.incarnation = incarnation;
                }
                seat.listen = listen(&registered.listen)?;
            }
            _ => return nonsense("no such role"),
        }
        Ok(())
    }

    fn recall_roster(&mut self, change: &RosterChange, at: Instant) -> Result<(), Nonsense> {
        let up = self.recalled_sources(&change.up)?;
        if ordinal(change.version)? <= self.roster_version {
            return nonsense("a roster of before");
        }
        let awaited = self.recalled_sources(&change.awaited)?;
        let assigned = self.tally.triggered - self.tally.inhibited;
        for index in 0..self.sources.len() {
            let seat = &mut self.sources[index];
            match (up.contains(index), seat.down) {
                (false, None) if self.tally.started.is_some() => {
                    let assigned = (!awaited.contains(index)).then_some(assigned);
                    seat.down = Some(Down { since: at, assigned });
                }
                (true, Some(_)) => seat.end_absence(assigned, at),
                _ => {}
            }
        }
        self.up = up;
        self.awaited = awaited;
        self.roster_version = change.version;
        self.remember_expected();
        Ok(())
    }

    fn recall_decisions(&mut self, decided: &Decided, at: Instant) -> Result<(), Nonsense> {
        let Some(decisions) = &decided.decisions else { return nonsense("no decisions") };
        if self.tally.started.is_none() {
            return nonsense("decisions before the first trigger could come");
        }
        if decisions.first != self.outbox.decided() + 1 {
            return nonsense("decisions do not follow those before");
        }
        let mut times = sums(&decided.triggered_ns);
        let mut inhibited = 0;
        for (first, events, verdict) in decisions.verdicts()? {
            let events = u64::from(events);
            self.tally.triggered = count(self.tally.triggered + events)?;
            let first = first.number();
            match verdict {
                Verdict::Inhibited => inhibited += events,
                Verdict::Closed => return nonsense("no event is closed when it is decided"),
                Verdict::Assigned(id) => {
                    let index = self.recalled_home(id.number().into())?;
                    for event in first..first + events {
                        let Some(time) = times.next() else { return nonsense("a trigger time is missing") };
                        self.recall_place(event, time, decided.roster_version, index as BuilderIndex)?;
                        self.give_recalled(index)?;
                    }
                }
            }
        }
        if times.next().is_some() {
            return nonsense("trigger times of no event");
        }
        self.tally.inhibited += inhibited;
        self.recall_blames(&decided.blames, inhibited)?;
        self.outbox.recall(self.tally.triggered);
        self.tally.first_trigger.get_or_insert(at);
        Ok(())
    }

    /// So many triggers at most are put down to something.
    pub(super) fn recall_blames(&mut self, blames: &[Blame], inhibited: u64) -> Result<(), Nonsense> {
        if total(blames.iter().map(|blame| blame.inhibited))? > inhibited {
            return nonsense("more triggers are put down to causes than were inhibited");
        }
        self.dead_time.recall(blames);
        Ok(())
    }

    /// An outstanding event, which was not there before.
    pub(super) fn recall_place(
        &mut self,
        event: u64,
        triggered_ns: u64,
        version: u32,
        builder: BuilderIndex,
    ) -> Result<(), Nonsense> {
        if event == 0 || event > self.tally.triggered {
            return nonsense("an event that was not triggered");
        }
        if self.outstanding.get(event).is_some() {
            return nonsense("an event was assigned twice");
        }
        if !self.expected.contains_key(&version) {
            return nonsense("an event of a roster that is not known");
        }
        self.outstanding.insert(Place { event, triggered_ns, version, answer: 0, builder });
        Ok(())
    }

    /// A builder gets one more event.
    fn give_recalled(&mut self, index: usize) -> Result<(), Nonsense> {
        let tally = &mut self.builders[index].tally;
        tally.assigned = count(tally.assigned + 1)?;
        if tally.outstanding() > u64::from(MAX_SLOTS) {
            return nonsense("a builder has more events than slots are possible");
        }
        Ok(())
    }

    fn recall_reassignment(&mut self, reassigned: &Reassigned) -> Result<(), Nonsense> {
        let index = self.recalled_home(reassigned.builder)?;
        for event in sums(&reassigned.events) {
            if !self.homeless.remove(&event) {
                return nonsense("an event has a builder already");
            }
            self.outstanding.hand_over(event, index as BuilderIndex, 0);
            self.give_recalled(index)?;
        }
        Ok(())
    }

    fn recall_completions(&mut self, accounted: &Accounted, at: Instant) -> Result<(), Nonsense> {
        let index = self.recalled_builder(accounted.builder)?;
        let Some(completions) = &accounted.completions else { return nonsense("no completions") };
        if completions.before != self.builders[index].accounted {
            return nonsense("completions do not follow those before");
        }
        self.account(index, completions, at);
        Ok(())
    }

    fn recall_loss(&mut self, events: impl Iterator<Item = u64>, cause: &str) -> Result<(), Nonsense> {
        let mut lost = 0;
        for event in events {
            let Some(place) = self.outstanding.get(event) else { return nonsense("no such event is lost") };
            self.outstanding.take(event, place.builder);
            if let Some(seat) = self.builders.get_mut(usize::from(place.builder)) {
                seat.tally.lost_with_it += 1;
            }
            self.homeless.remove(&event);
            lost += 1;
        }
        self.tally.lost += lost;
        self.findings.loss(text(cause), lost);
        Ok(())
    }

    fn recall_membership(&mut self, builder: u32, change: Change) -> Result<(), Nonsense> {
        if change == Change::Added {
            self.recall_seat(builder)?;
        }
        let index = self.recalled_builder(builder)?;
        self.builders[index].leaving = recalled_leaving(change)?;
        Ok(())
    }

    /// A seat for that builder, if it has none.
    pub(super) fn recall_seat(&mut self, builder: u32) -> Result<(), Nonsense> {
        let Ok(id) = u16::try_from(builder).map(BuilderId::new) else { return nonsense("no such builder") };
        if self.builder_index(id).is_none() {
            if self.builders.len() >= MAX_BUILDERS {
                return nonsense("more builders than are possible");
            }
            self.seat_builder(id);
        }
        Ok(())
    }

    pub(super) fn recalled_builder(&self, id: u32) -> Result<usize, Nonsense> {
        let id = u16::try_from(id).ok().map(BuilderId::new);
        id.and_then(|id| self.builder_index(id)).ok_or_else(|| Nonsense("no such builder".to_owned()))
    }

    /// A builder that may be given events.
    fn recalled_home(&self, id: u32) -> Result<usize, Nonsense> {
        let index = self.recalled_builder(id)?;
        if self.builders[index].is_alive() { Ok(index) } else { nonsense("that builder was not there") }
    }

    pub(super) fn recalled_sources(&self, positions: &[u32]) -> Result<SourceSet, Nonsense> {
        if positions.iter().any(|position| *position as usize >= self.sources.len()) {
            return nonsense("no such source");
        }
        Ok(positions.iter().map(|position| *position as usize).collect())
    }

    /// Puts all instants of the state on a clock that is `nanos` ahead. What was before its zero is at its beginning.
    pub(super) fn shift_times(&mut self, nanos: i64) {
        let shift = |at: &mut Instant| *at = at.shifted(nanos).max(EARLIEST);
        let tally = &mut self.tally;
        [
            &mut tally.started,
            &mut tally.first_trigger,
            &mut tally.last_trigger_possible,
            &mut tally.last_completion,
        ]
        .into_iter()
        .flatten()
        .for_each(shift);
        self.sources.iter_mut().filter_map(|seat| seat.down.as_mut()).for_each(|down| shift(&mut down.since));
        self.outstanding.shift_times(nanos);
    }
}

pub(super) fn recalled_leaving(change: Change) -> Result<Leaving, Nonsense> {
    match change {
        Change::Unspecified => nonsense("no such change"),
        Change::Added => Ok(Leaving::No),
        Change::Leaving => Ok(Leaving::Asked),
        Change::Gone => Ok(Leaving::Gone),
    }
}

/// What an entry is about, and when that was.
pub(super) fn content(entry: &Entry) -> Result<(&What, Instant), Nonsense> {
    let Some(what) = &entry.what else { return nonsense("it is empty, or of a later version") };
    if entry.at_ns >= 1 << 62 {
        return nonsense("a time beyond all clocks");
    }
    Ok((what, Instant::from_nanos(entry.at_ns).max(EARLIEST)))
}
