//! [`WorkerPool`]: hands events to workers, takes their verdicts, and replaces workers that fail.

use std::{
    collections::VecDeque,
    io,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use bytes::Bytes;
use evb_core::{
    event::Event,
    id::{BuilderId, Epoch, RunNumber},
};
use evb_file::{FileIdentity, StreamEncoder};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::Signal,
};
use tracing::Span;

use super::{
    OnFailure, ProcessOptions,
    messages::{ANSWER, Heard, QUEUE, answers, check_greeting, hear},
    troubles::Troubles,
    worker::{FailedWorker, FilterWorker, Launch, WorkerFault},
};
use crate::filter::{FilterReport, FilterVerdict};

/// Time in which a worker must be ready: an interpreter loads libraries and constants.
const READY: Duration = Duration::from_secs(30);

/// Time between two looks at the workers while no answer arrives.
const LOOK: Duration = Duration::from_millis(50);

/// The same while a worker is to be started.
const SHORT_LOOK: Duration = Duration::from_millis(10);

/// Number of workers that may fail at an event before it gets no verdict.
const TRIES: u8 = 2;

/// Time from SIGTERM to SIGKILL at the end.
const GRACE: Duration = Duration::from_secs(1);

/// The workers of a filter.
#[derive(Debug)]
pub(super) struct WorkerPool {
    options: ProcessOptions,
    launch: Launch,
    workers: Vec<FilterWorker>,
    run: Option<RunRecords>,
    pub(super) report: FilterReport,
    /// Time since which no worker has judged although an event waits, and whether one has failed
    /// since.
    waits: Option<(Instant, bool)>,
    looked: Instant,
    /// Time in which a worker must be ready.
    pub(super) ready: Duration,
    troubles: Troubles,
    /// Span of the builder, for lines that another thread logs.
    builder: Span,
}

/// The records of one run.
#[derive(Debug)]
struct RunRecords {
    /// Counts the runs of this filter, from 1.
    number: u64,
    of: (RunNumber, Epoch, BuilderId),
    encoder: StreamEncoder,
}

/// The events of one call, and their verdicts.
struct Batch<'e> {
    events: &'e [Event],
    verdicts: Vec<Option<FilterVerdict>>,
    /// Number of workers that have failed at each event.
    failed: Vec<u8>,
    /// Positions of the events that no worker has.
    pending: VecDeque<usize>,
    /// Number of events without a verdict.
    open: usize,
    /// The record of the first pending event, once it was needed.
    record: Option<(usize, Bytes)>,
}

impl<'e> Batch<'e> {
    /// Creates a batch in which no event has a verdict.
    fn new(events: &'e [Event]) -> Self {
        Self {
            events,
            verdicts: vec![None; events.len()],
            failed: vec![0; events.len()],
            pending: (0..events.len()).collect(),
            open: events.len(),
            record: None,
        }
    }

    fn decide(&mut self, place: usize, verdict: FilterVerdict) {
        if self.verdicts[place].replace(verdict).is_none() {
            self.open -= 1;
        }
    }

    /// Returns the record of a pending event; `None` if the format cannot hold it.
    fn record(&mut self, place: usize, encoder: &StreamEncoder) -> Option<Bytes> {
        if let Some((of, record)) = &self.record
            && *of == place
        {
            return Some(record.clone());
        }
        let record = encoder.record(&self.events[place])?;
        self.record = Some((place, record.clone()));
        Some(record)
    }
}

impl WorkerPool {
    /// Starts all workers. The error is that of the first one, without which there is no filter.
    pub(super) fn start(options: ProcessOptions) -> io::Result<Self> {
        let now = Instant::now();
        let launch = Launch::new(options.command.clone());
        let mut workers: Vec<_> =
            (1..=options.workers.max(1)).map(|number| FilterWorker::new(number, now)).collect();
        workers[0].start_if_wanted(&launch, now).transpose()?;
        let report = FilterReport { workers: workers.len() as u32, ..FilterReport::default() };
        let troubles = Troubles::default();
        let mut pool = Self {
            options,
            launch,
            workers,
            run: None,
            report,
            waits: None,
            looked: now,
            ready: READY,
            troubles,
            builder: Span::current(),
        };
        pool.tend(&mut Batch::new(&[]), now);
        pool.report.restarts = 0;
        Ok(pool)
    }

    /// Begins a run: what is counted is counted from 0.
    pub(super) fn begin(&mut self, identity: &FileIdentity) {
        self.builder = Span::current();
        self.troubles.say_all(self.options.on_failure);
        self.report = FilterReport { workers: self.report.workers, ..FilterReport::default() };
        self.run = Some(RunRecords {
            number: self.run.as_ref().map_or(1, |run| run.number + 1),
            of: (identity.run, identity.epoch, identity.builder),
            encoder: StreamEncoder::new(identity),
        });
    }

    /// Begins the run of an event, if it is another one.
    fn begin_run_of(&mut self, event: &Event) {
        let of = (event.run, event.epoch, event.builder);
        if self.run.as_ref().is_none_or(|run| run.of != of) {
            let (run, epoch, builder) = of;
            // The counts go on, although a run that begins usually counts from zero.
            let report = self.report.clone();
            self.begin(&FileIdentity { run, epoch, builder, ..FileIdentity::default() });
            self.report = report;
        }
    }

    /// Returns a verdict for each event, in their order.
    pub(super) fn verdicts(&mut self, events: &[Event], is_ending: &AtomicBool) -> Vec<FilterVerdict> {
        let mut batch = Batch::new(events);
        if let Some(first) = events.first() {
            self.begin_run_of(first);
        }
        self.listen(&mut batch, Duration::ZERO);
        while batch.open > 0 {
            let (now, is_ending) = (Instant::now(), is_ending.load(Ordering::Relaxed));
            if !is_ending {
                self.tend(&mut batch, now);
                self.hand_out(&mut batch, now);
            }
            self.give_up(&mut batch, now, is_ending);
            if batch.open > 0 {
                let is_whole = self.workers.iter().all(|worker| worker.process.is_some());
                self.listen(&mut batch, if is_whole { LOOK } else { SHORT_LOOK });
            }
        }
        self.troubles.say(self.options.on_failure, Instant::now());
        let policy = self.policy();
        batch.verdicts.into_iter().map(|verdict| verdict.unwrap_or_else(|| policy.clone())).collect()
    }

    /// Looks after the workers while no event waits.
    pub(super) fn look(&mut self) {
        let mut none = Batch::new(&[]);
        self.listen(&mut none, Duration::ZERO);
        self.tend(&mut none, Instant::now());
        self.troubles.say(self.options.on_failure, Instant::now());
        let ready = |worker: &&FilterWorker| worker.process.as_ref().is_some_and(|process| process.is_ready);
        self.report.ready = self.workers.iter().filter(ready).count() as u32;
        self.report.fault = self.troubles.latest().to_owned();
    }

    fn policy(&self) -> FilterVerdict {
        match self.options.on_failure {
            OnFailure::Keep => FilterVerdict::Accept,
            OnFailure::Drop => FilterVerdict::Reject,
        }
    }

    /// Starts workers that are missing, and ends those that take too long.
    fn tend(&mut self, batch: &mut Batch<'_>, now: Instant) {
        let has_looked = now.duration_since(self.looked) < LOOK;
        for index in 0..self.workers.len() {
            let worker = &mut self.workers[index];
            match worker.start_if_wanted(&self.launch, now) {
                Some(Ok(())) => self.report.restarts += 1,
                Some(Err(error)) => self.fail(index, &WorkerFault::Start(error), batch, now),
                None => {}
            }
            let Some(process) = &self.workers[index].process else { continue };
            let (took, limit) = (now.duration_since(process.given.since), self.options.timeout);
            let fault = match process.given.judging() {
                _ if !process.is_ready && took > self.ready => Some(WorkerFault::NotReady(self.ready)),
                Some(event) if took > limit => Some(WorkerFault::Late(event, limit)),
                _ if !has_looked && process.has_ended() => Some(WorkerFault::Ended),
                _ => None,
            };
            fault.iter().for_each(|fault| self.fail(index, fault, batch, now));
        }
        if !has_looked {
            self.looked = now;
        }
    }

    /// Gives pending events to the workers with the fewest.
    fn hand_out(&mut self, batch: &mut Batch<'_>, now: Instant) {
        let mut wanting: Vec<usize> =
            (0..self.workers.len()).filter(|index| self.load(*index) <= QUEUE / 2).collect();
        while let Some(place) = batch.pending.front().copied()
            && let Some(index) = wanting.iter().copied().min_by_key(|index| self.load(*index))
            && let Some(process) = &mut self.workers[index].process
            && let Some(run) = &self.run
        {
            let event = &batch.events[place];
            let given = batch.record(place, &run.encoder).ok_or_else(too_large).and_then(|record| {
                let own = &mut process.given;
                let has_header =
                    own.header == run.number || own.give_header(run.number, &run.encoder.header())?;
                Ok(has_header && own.give(place, event.id, &record, now)?)
            });
            match given {
                Ok(true) => {
                    batch.pending.pop_front();
                    batch.record = None;
                }
                // An event that needs all the memory of a worker waits for the one with the fewest
                // events, and the others wait behind it, or it would wait for ever.
                Ok(false) => break,
                Err(error) => {
                    batch.pending.pop_front();
                    self.troubles.note(format!("event {} cannot be given to a worker: {error}", event.id));
                    self.decide_by_policy(place, batch);
                }
            }
            wanting.retain(|index| self.load(*index) < QUEUE);
        }
        for index in 0..self.workers.len() {
            let Some(process) = &mut self.workers[index].process else { continue };
            if process.given.tell(&process.socket).is_err() {
                self.fail(index, &WorkerFault::Ended, batch, now);
            }
        }
    }

    /// Returns the number of events that a worker has; more than any limit if it is not ready.
    fn load(&self, index: usize) -> usize {
        let process = self.workers[index].process.as_ref().filter(|process| process.is_ready);
        process.map_or(usize::MAX, |process| process.given.load)
    }

    /// Waits until a worker says something, and takes it.
    fn listen(&mut self, batch: &mut Batch<'_>, limit: Duration) {
        let mut readable = Vec::new();
        {
            // Socket and output of each worker, with the index of the worker.
            let mut ends = Vec::new();
            for (index, worker) in self.workers.iter().enumerate() {
                let Some(process) = &worker.process else { continue };
                ends.push((index, PollFd::new(&process.socket, PollFlags::IN)));
                ends.extend(process.output.iter().map(|output| (index, PollFd::new(output, PollFlags::IN))));
            }
            let (indices, mut ends): (Vec<usize>, Vec<PollFd<'_>>) = ends.into_iter().unzip();
            let limit = Timespec { tv_sec: 0, tv_nsec: i64::from(limit.subsec_nanos()) };
            if poll(&mut ends, Some(&limit)).is_ok_and(|count| count > 0) {
                let heard = indices.into_iter().zip(&ends).filter(|(_, end)| !end.revents().is_empty());
                readable.extend(heard.map(|(index, _)| index));
                readable.dedup();
            }
        }
        let now = Instant::now();
        for index in readable {
            let worker = &mut self.workers[index];
            let Some(process) = &mut worker.process else { continue };
            if let Some(output) = &mut process.output
                && !worker.lines.read(output, now)
            {
                process.output = None;
            }
            if let Err(fault) = self.hear(index, batch, now) {
                self.fail(index, &fault, batch, now);
            }
        }
    }

    /// Takes a message of a worker.
    fn hear(&mut self, index: usize, batch: &mut Batch<'_>, now: Instant) -> Result<(), WorkerFault> {
        let Some(process) = &mut self.workers[index].process else { return Ok(()) };
        let mut buffer = [0; QUEUE * ANSWER];
        let message = match hear(&process.socket, &mut buffer) {
            Ok(Heard::Nothing) => return Ok(()),
            Ok(Heard::End) | Err(_) => return Err(WorkerFault::Ended),
            Ok(Heard::TooLong(size)) => {
                return Err(WorkerFault::Nonsense(format!("sent a message of {size} bytes")));
            }
            Ok(Heard::Message(message)) => message,
        };
        if !process.is_ready {
            check_greeting(message).map_err(WorkerFault::Nonsense)?;
            process.is_ready = true;
            return Ok(());
        }
        for answer in answers(message) {
            let own = &mut process.given;
            let answer = answer.and_then(|(event, verdict)| Ok((own.take_answer(event, now)?, verdict)));
            let (place, verdict) = answer.map_err(WorkerFault::Nonsense)?;
            match verdict.is_accepting() {
                true => self.report.kept += 1,
                false => self.report.dropped += 1,
            }
            self.report.judged += 1;
            batch.decide(place, verdict);
            self.waits = None;
        }
        self.workers[index].note_right();
        Ok(())
    }

    /// Ends a worker. The event that it was judging, which may be to blame, gets another one once.
    fn fail(&mut self, index: usize, fault: &WorkerFault, batch: &mut Batch<'_>, now: Instant) {
        let FailedWorker { sentence, mut events, was_judging } = self.workers[index].fail(fault, now);
        self.troubles.note(sentence);
        if let Some((_, has_failed)) = &mut self.waits {
            *has_failed = true;
        }
        if was_judging && let Some(first) = events.first().copied() {
            batch.failed[first] += 1;
            if batch.failed[first] >= TRIES {
                events.remove(0);
                self.decide_by_policy(first, batch);
            }
        }
        events.into_iter().rev().for_each(|place| batch.pending.push_front(place));
    }

    fn decide_by_policy(&mut self, place: usize, batch: &mut Batch<'_>) {
        self.report.judged += 1;
        self.report.failed += 1;
        self.troubles.note_event(batch.events[place].id);
        batch.decide(place, self.policy());
    }

    /// Decides by the policy about all events, if there is no worker for too long.
    fn give_up(&mut self, batch: &mut Batch<'_>, now: Instant, is_ending: bool) {
        // While a worker can judge, the events wait for it.
        let is_judging = (0..self.workers.len()).any(|index| self.load(index) < usize::MAX);
        if !is_ending && (is_judging || batch.pending.is_empty()) {
            return;
        }
        let (since, has_failed) = *self.waits.get_or_insert((now, false));
        // A program that has not failed yet may still be starting, which takes longer.
        let limit = if has_failed { self.options.timeout } else { self.options.timeout.max(self.ready) };
        if is_ending || now.duration_since(since) > limit {
            let left = (0..batch.events.len()).filter(|place| batch.verdicts[*place].is_none());
            left.collect::<Vec<_>>().into_iter().for_each(|place| self.decide_by_policy(place, batch));
            batch.pending.clear();
        }
    }

    /// Ends all workers.
    pub(super) fn end(&mut self) {
        let _builder = self.builder.clone().entered();
        self.troubles.say_all(self.options.on_failure);
        let mut ended: Vec<_> = self.workers.iter_mut().filter_map(|worker| worker.process.take()).collect();
        ended.iter().for_each(|process| process.signal(Signal::TERM));
        let until = Instant::now() + GRACE;
        for process in &ended {
            process.ends_within(until.saturating_duration_since(Instant::now()));
        }
        for process in &mut ended {
            process.signal(Signal::KILL);
            process.reap();
        }
    }
}

impl Drop for WorkerPool {
    fn drop(&mut self) {
        self.end();
    }
}

fn too_large() -> io::Error {
    io::Error::new(io::ErrorKind::FileTooLarge, "it is too large for a record")
}
