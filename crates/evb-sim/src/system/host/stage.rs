//! [`Stage`]: a builder's filter, and its sink on a simulated disk.

use core::{mem, time::Duration};
use std::collections::VecDeque;

use evb_core::{builder::SINK_RETRY, event::Event, rng::Rng, time::Instant};

use super::Surroundings;
use crate::system::{
    disk::{EventRecord, Written},
    failure::{Check, Failure},
};

/// The result of filtering and writing an event.
#[derive(Debug)]
pub(crate) enum Fate {
    Written,
    Rejected,
    Failed(&'static str),
}

#[derive(Debug, Default)]
pub(crate) struct Stage {
    /// Number of the process among all that were started.
    process: u64,
    waiting: VecDeque<Event>,
    /// Events that the sink is writing as one batch.
    batch: Vec<Event>,
    since: Instant,
    /// Time until which writes to a full disk are retried; set once the run is ending.
    until: Option<Instant>,
}

impl Stage {
    /// Creates the stage of a process, which is the last that was started.
    pub(crate) fn new(process: u64) -> Self {
        Self { process, ..Self::default() }
    }

    /// Checks the content of an event and passes the event to filter and sink.
    pub(crate) fn submit(&mut self, event: Event, around: &Surroundings<'_>) -> Result<(), Failure> {
        check_content(&event, around)?;
        self.waiting.push_back(event);
        Ok(())
    }

    /// Notes that the run is ending, which limits the time for retries.
    pub(crate) fn expect_end(&mut self, around: &Surroundings<'_>) {
        let until = around.now() + around.scenario.give_up;
        self.until.get_or_insert(until);
    }

    /// Returns the events that filter and sink have finished, with their results.
    pub(crate) fn poll(&mut self, around: &mut Surroundings<'_>) -> Vec<(Event, Fate)> {
        let now = around.now();
        if self.batch.is_empty() && !self.waiting.is_empty() {
            self.batch = mem::take(&mut self.waiting).into();
            self.since = now;
        }
        if self.batch.is_empty() {
            return Vec::new();
        }
        let fate: fn(&Surroundings<'_>, &Event) -> Fate =
            match around.disk.look(self.since, self.length(around), now) {
                Written::Later(_) => return Vec::new(),
                Written::Full if self.until.is_none_or(|until| now < until) => {
                    self.since = now + SINK_RETRY;
                    return Vec::new();
                }
                Written::Done => |around, event| match around.scenario.rejects(event.id) {
                    true => Fate::Rejected,
                    false => Fate::Written,
                },
                Written::Full => |_, _| Fate::Failed("the disk is full"),
                Written::Failed => |_, _| Fate::Failed("the disk failed"),
            };
        let done = mem::take(&mut self.batch);
        done.into_iter()
            .map(|event| {
                let fate = fate(around, &event);
                match fate {
                    Fate::Written => keep(&event, self.process, around),
                    Fate::Failed(_) => drop(around.records.failed.insert((event.run, event.id))),
                    Fate::Rejected => {}
                }
                (event, fate)
            })
            .collect()
    }

    /// Leaves the disk as it is if the process dies now: a part of the current batch is written,
    /// and no result of the batch is reported.
    pub(crate) fn tear(&self, around: &mut Surroundings<'_>, rng: &mut Rng) {
        let is_at_it = matches!(
            around.disk.look(self.since, self.length(around), around.now()),
            Written::Later(Some(_))
        );
        if !self.batch.is_empty() && is_at_it && around.now() >= self.since {
            let whole = rng.below(self.batch.len() as u64 + 1) as usize;
            self.batch[..whole]
                .iter()
                .filter(|event| !around.scenario.rejects(event.id))
                .for_each(|event| keep(event, self.process, around));
        }
    }

    pub(crate) fn next_timeout(&self, around: &Surroundings<'_>) -> Option<Instant> {
        if self.batch.is_empty() {
            return (!self.waiting.is_empty()).then(|| around.now());
        }
        match around.disk.look(self.since, self.length(around), around.now()) {
            Written::Later(at) => at,
            _ => Some(around.now()),
        }
    }

    fn length(&self, around: &Surroundings<'_>) -> Duration {
        around.scenario.commit + around.scenario.write * self.batch.len() as u32
    }
}

fn keep(event: &Event, process: u64, around: &mut Surroundings<'_>) {
    around.say(|| format!("event {} is on the disk, epoch {}", event.id, event.epoch));
    around.files.entry((event.run, event.id)).or_default().push(EventRecord::of(event, process));
}

/// Checks that the content of each fragment is what its source pushed, and that no fragment is
/// duplicated or from an unknown source.
fn check_content(event: &Event, around: &Surroundings<'_>) -> Result<(), Failure> {
    let wrong = |what: String| Err(Failure::new(Check::Content, format!("event {}: {what}", event.id)));
    let mut last = 0;
    for fragment in event.fragments() {
        let id = fragment.source.number();
        if id <= last || id > around.scenario.sources {
            return wrong(format!("source {id} follows source {last}, which is out of order or unknown"));
        }
        last = id;
        if event.is_missing(fragment.source) {
            return wrong(format!("source {id} contributed, but is listed as missing"));
        }
        let index = usize::from(id) - 1;
        let Some(payload) = around.workload.draw(index, event.id).payload else {
            return wrong(format!("source {id} pushed nothing, but has a fragment"));
        };
        if fragment.payload != payload || fragment.timestamp != around.workload.timestamp(index, event.id) {
            return wrong(format!("the fragment of source {id} is not what was pushed"));
        }
    }
    Ok(())
}
