//! Models of sources and builders that follow the protocol, without lanes: a builder has a fragment
//! as soon as the source knows that the event is assigned to that builder.

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use crate::{
    id::EventId,
    set::SourceSet,
    time::Instant,
    wire::control::{
        Accepted, Assignments, Begun, BuilderReport, Completions, Exception, Heartbeat, Message, Outcome,
        Ready, Report, RoleReport, Roster, SourceReport, Verdict,
    },
};

/// Time for which a builder waits for fragments of sources that are up.
const DEADLINE: Duration = Duration::from_secs(2);

/// A control connection between the supervisor and a peer.
#[derive(Debug, Default)]
pub(super) struct Line {
    pub(super) connected: bool,
    /// True while the network delivers no message, without a sign to either end.
    pub(super) is_cut: bool,
    pub(super) up: VecDeque<Message>,
    pub(super) down: VecDeque<Message>,
}

impl Line {
    pub(super) fn clear(&mut self) {
        self.up.clear();
        self.down.clear();
    }
}

#[derive(Debug, Default)]
pub(super) struct SourceModel {
    pub(super) incarnation: u32,
    /// Highest event id that was decided before the source joined.
    born: u64,
    decided: u64,
    /// Builder of each event; 0 for an event that has no builder yet.
    assignments: BTreeMap<u64, u32>,
}

impl SourceModel {
    pub(super) fn welcomed(&mut self, incarnation: u32, decided: u64) {
        if self.incarnation != incarnation {
            *self = Self { incarnation, born: decided, decided, assignments: BTreeMap::new() };
        }
    }

    pub(super) fn can_send(&self, event: u64, builder: u32) -> bool {
        event > self.born && self.assignments.get(&event) == Some(&builder)
    }

    /// Handles a message as a source does, and returns the answers.
    pub(super) fn hear(&mut self, message: &Message) -> Vec<Message> {
        match message {
            Message::Roster(_) => return vec![Message::Ready(Ready {})],
            Message::Begin(_) => return vec![Message::Begun(Begun::default())],
            Message::Decisions(decisions) => {
                for (first, count, verdict) in decisions.verdicts().unwrap() {
                    assert!(first.number() <= self.decided + 1, "decisions are missing");
                    let range = first.number()..first.number() + u64::from(count);
                    self.decided = self.decided.max(range.end - 1);
                    if let Verdict::Assigned(builder) = verdict {
                        self.assignments.extend(range.map(|event| (event, builder.number().into())));
                    } else {
                        self.assignments.retain(|event, _| !range.contains(event));
                    }
                }
            }
            Message::Holdings(holdings) => {
                assert!(holdings.decided >= self.decided, "the holdings are older than the decisions");
                self.decided = holdings.decided;
                let before = core::mem::take(&mut self.assignments);
                for holding in &holdings.held {
                    let mut event = 0;
                    for step in &holding.events {
                        event += step;
                        // A fragment stays in its lane while the event has no builder.
                        let home = match holding.holder {
                            0 => before.get(&event).copied().unwrap_or(0),
                            holder => holder - 1,
                        };
                        self.assignments.insert(event, home);
                    }
                }
            }
            Message::Finish(_) => return vec![report(RoleReport::Source(SourceReport::default()))],
            _ => {}
        }
        Vec::new()
    }
}

#[derive(Debug)]
struct OpenEvent {
    expected: SourceSet,
    epoch: u64,
    since: Instant,
}

#[derive(Debug, Default)]
pub(super) struct BuilderModel {
    pub(super) incarnation: u32,
    rosters: BTreeMap<u32, Roster>,
    open: BTreeMap<u64, OpenEvent>,
    /// Events that the sink accepted and the supervisor has not confirmed, each with its missing
    /// sources.
    settled: VecDeque<(u64, Vec<u32>)>,
    accounted: u64,
    counts: BuilderReport,
    lease_until: Instant,
    finishing: bool,
}

impl BuilderModel {
    pub(super) fn welcomed(&mut self, incarnation: u32) {
        if self.incarnation != incarnation {
            *self = Self { incarnation, ..Self::default() };
        }
    }

    fn newest(&self) -> Option<&Roster> {
        self.rosters.values().next_back()
    }

    /// Handles a message as a builder does, and returns the answers.
    pub(super) fn hear(&mut self, message: Message, now: Instant, lease: Duration) -> Vec<Message> {
        match message {
            Message::Begin(_) => return vec![Message::Begun(Begun::default())],
            Message::Roster(roster) => drop(self.rosters.insert(roster.version, roster)),
            Message::Assignments(batch) => return self.take(&batch, now),
            Message::Accounted(accounted) => {
                while self.accounted < accounted.completions {
                    self.settled.pop_front().expect("no more is accounted than was completed");
                    self.accounted += 1;
                }
            }
            Message::Heartbeat(beat) if beat.echo_ns > 0 => {
                self.lease_until = Instant::from_nanos(beat.echo_ns) + lease;
            }
            Message::Finish(_) => self.finishing = true,
            _ => {}
        }
        if self.finishing && self.settled.is_empty() {
            return vec![report(RoleReport::Builder(self.counts.clone()))];
        }
        Vec::new()
    }

    /// Takes the assignments of a batch that are not settled or open yet, and returns the
    /// confirmation if one is asked for.
    fn take(&mut self, batch: &Assignments, now: Instant) -> Vec<Message> {
        let ids = match batch.roster_version {
            0 => batch.expected.clone(),
            version => {
                let roster = &self.rosters[&version];
                roster.up.iter().chain(&roster.awaited).copied().collect()
            }
        };
        let expected: SourceSet = ids.iter().map(|id| usize::from(*id == 5)).collect();
        for (event, _) in batch.events().unwrap() {
            let event = event.number();
            if self.settled.iter().any(|(settled, _)| *settled == event) {
                continue;
            }
            let fresh = OpenEvent { expected: expected.clone(), epoch: batch.epoch, since: now };
            self.open.entry(event).or_insert(fresh);
        }
        let answer = batch.answer;
        (answer > 0).then_some(Message::Accepted(Accepted { answer })).into_iter().collect()
    }

    /// Gives up to `most` events to the sink while the lease is valid; returns the events with
    /// their epochs.
    pub(super) fn build(
        &mut self,
        now: Instant,
        most: usize,
        has: impl Fn(u64) -> SourceSet,
    ) -> Vec<(u64, u64)> {
        let Some(roster) = self.newest().filter(|_| now < self.lease_until) else { return Vec::new() };
        // The model has two sources: 3 is at place 0, and 5 at place 1.
        let set = |ids: &[u32]| -> SourceSet { ids.iter().map(|id| usize::from(*id == 5)).collect() };
        let (up, awaited) = (set(&roster.up), set(&roster.awaited));
        let finished: Vec<(u64, u64)> = self
            .open
            .iter()
            .filter_map(|(event, open)| {
                let lacks = open.expected.without(&has(*event));
                let given_up = lacks.without(&up).without(&awaited);
                let late =
                    now.since(open.since) >= DEADLINE && lacks.iter().all(|index| !awaited.contains(index));
                (lacks.is_empty() || given_up == lacks || late).then_some((*event, open.epoch))
            })
            .take(most)
            .collect();
        for (event, _) in &finished {
            self.open.remove(event);
            let lacks = SourceSet::first(2).without(&has(*event));
            let missing: Vec<u32> = lacks.iter().map(|index| [3, 5][index]).collect();
            if missing.is_empty() {
                self.counts.complete += 1;
            } else {
                self.counts.incomplete += 1;
            }
            self.counts.written += 1;
            self.settled.push_back((*event, missing));
        }
        finished
    }

    /// Returns messages with the last `count` completions.
    pub(super) fn news(&self, count: usize) -> Vec<Message> {
        self.completions(self.settled.len() - count)
    }

    /// Returns messages with all completions that the supervisor has not confirmed.
    pub(super) fn unaccounted(&self) -> Vec<Message> {
        self.completions(0)
    }

    /// Returns messages with the completions from the one at index `from` on, in order. A message
    /// lists complete events before exceptions, so a complete event after an exception begins a new
    /// message.
    fn completions(&self, from: usize) -> Vec<Message> {
        let mut messages: Vec<Completions> = Vec::new();
        let mut last = EventId::default();
        for (number, (event, missing)) in self.settled.iter().enumerate().skip(from) {
            let is_complete = missing.is_empty();
            if messages.last().is_none_or(|message| is_complete && !message.exceptions.is_empty()) {
                messages
                    .push(Completions { before: self.accounted + number as u64, ..Completions::default() });
                last = EventId::default();
            }
            let Some(message) = messages.last_mut() else { continue };
            if is_complete {
                message.add(&mut last, EventId::new(*event));
            } else {
                message.exceptions.push(Exception {
                    event: *event,
                    outcome: Outcome::Incomplete,
                    missing: missing.clone(),
                    missing_causes: vec![1; missing.len()],
                    ..Exception::default()
                });
            }
        }
        messages.into_iter().map(Message::Completions).collect()
    }
}

pub(super) fn heartbeat(now: Instant) -> Message {
    Message::Heartbeat(Heartbeat { sent_ns: now.as_nanos(), ..Heartbeat::default() })
}

fn report(report: RoleReport) -> Message {
    Message::Report(Report { report: Some(report), live: None })
}
