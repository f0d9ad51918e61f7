//! [`FanOut`]: several sinks of one builder.

mod any;
mod aside;
#[cfg(test)]
mod tests;

use std::{collections::BTreeSet, fmt};

use evb_core::{
    alignment::Episode,
    event::Event,
    id::{EventId, RunNumber},
    ledger::OwingChange,
    quantities::split_remedy,
};
use evb_file::ClosedFile;

use super::{RunFacts, Sink, SinkError, SinkSpace};
use any::AnySink;
use aside::Aside;

/// Gives each event to several sinks. An event is accepted when all required sinks have accepted
/// it; after a passing error, it is offered again only to those that have not. The order of events
/// is the same at every sink.
///
/// An optional sink runs on a thread of its own and never holds an event: events that it does not
/// accept at once are counted, and the log says how many it has missed.
///
/// ```
/// use evb::{file::WriterOptions, prelude::*, sink::FanOut};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let dir = dir.path();
/// let (display, mut shown) = ChannelSink::new(64);
/// let sinks = |_| {
///     let files = FileSink::new(dir, WriterOptions::default());
///     FanOut::default().required(files).optional(display.clone())
/// };
/// let run = LocalSystem::new(1, 1).events(1).start(sinks).await?;
/// let data = Fragment::new(EventId::FIRST, Timestamp::new(0), "detector data");
/// run.sources()[0].push(data).await?;
/// run.finished().await?;
///
/// assert_eq!(evb::file::files_at(dir)?.len(), 1);
/// assert_eq!(shown.recv().await.map(|event| event.id), Some(EventId::FIRST));
/// # Ok(())
/// # }
/// ```
#[derive(Default)]
pub struct FanOut {
    required: Vec<RequiredSink>,
    optional: Vec<Aside>,
    /// Events of the batch that optional sinks were offered.
    offered: BTreeSet<EventId>,
}

impl fmt::Debug for FanOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (required, optional) = (self.required.len(), self.optional.len());
        f.debug_struct("FanOut").field("required", &required).field("optional", &optional).finish()
    }
}

/// A required sink. The sets never have more events than the builder has slots.
struct RequiredSink {
    sink: Box<dyn AnySink>,
    /// The run that the sink has begun.
    begun: Option<RunFacts>,
    /// Events of the batch that the sink has accepted.
    accepted: BTreeSet<EventId>,
    /// Events of the batch that the sink has taken, and then committed.
    written: Vec<EventId>,
    /// Events of the batch that the sink has to be offered again.
    held: Vec<EventId>,
    /// The reason for which the sink gets no more events of the batch.
    failure: Option<SinkError>,
}

impl FanOut {
    /// Adds a sink that has to accept each event.
    #[must_use]
    pub fn required(mut self, sink: impl Sink) -> Self {
        let (accepted, written, held) = (BTreeSet::new(), Vec::new(), Vec::new());
        let sink = Box::new(sink);
        self.required.push(RequiredSink { sink, begun: None, accepted, written, held, failure: None });
        self
    }

    /// Adds a sink that may miss events.
    #[must_use]
    pub fn optional(mut self, sink: impl Sink) -> Self {
        let place = self.required.len() + self.optional.len() + 1;
        self.optional.push(Aside::new(sink, place));
        self
    }

    /// Forgets the batch, of which no event will be offered again.
    fn forget(&mut self) {
        self.offered.clear();
        for member in &mut self.required {
            member.accepted.clear();
            member.written.clear();
            member.held.clear();
            member.failure = None;
        }
    }
}

impl RequiredSink {
    /// Begins a run, unless the sink has begun it. The sink leaves another run that it has begun.
    async fn begin(&mut self, run: &RunFacts) -> Result<(), SinkError> {
        if self.begun.as_ref() == Some(run) {
            return Ok(());
        }
        self.close().await?;
        self.sink.begin(run).await?;
        self.begun = Some(run.clone());
        Ok(())
    }

    /// Offers an event that the sink has not accepted yet. An error means that the event is lost.
    async fn write(&mut self, event: &Event) -> Result<(), SinkError> {
        if self.accepted.contains(&event.id) {
            return Ok(());
        }
        if self.failure.is_none() {
            match self.sink.write(event).await {
                Ok(()) => {
                    self.written.push(event.id);
                    return Ok(());
                }
                Err(error) if error.is_passing() => self.fail(error),
                Err(error) => return Err(error),
            }
        }
        self.held.push(event.id);
        Ok(())
    }

    /// Lets the sink commit. An error means that all events since its last commit are lost.
    async fn commit(&mut self) -> Result<(), SinkError> {
        if self.failure.is_none() {
            match self.sink.commit().await {
                Ok(()) => {}
                Err(error) if error.is_passing() => self.fail(error),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn fail(&mut self, error: SinkError) {
        let (held, accepted): (Vec<_>, Vec<_>) =
            self.written.drain(..).partition(|event| error.holds(*event));
        self.held.extend(held);
        self.accepted.extend(accepted);
        self.failure = Some(error);
    }

    async fn close(&mut self) -> Result<(), SinkError> {
        if self.begun.take().is_some() { self.sink.close().await } else { Ok(()) }
    }
}

/// Returns the errors of several sinks as one in words, which is passing and holds these events.
fn joined(errors: Vec<SinkError>, held: Vec<EventId>) -> SinkError {
    let words = errors.iter().map(|error| split_remedy(&error.cause)).collect::<Vec<_>>();
    let reasons = words.iter().map(|(reason, _)| *reason).collect::<Vec<_>>().join(", and ");
    let remedies = words.iter().filter_map(|(_, remedy)| *remedy).collect::<Vec<_>>().join(", and ");
    let cause = if remedies.is_empty() { reasons } else { format!("{reasons}; {remedies}") };
    let gone = errors.into_iter().flat_map(|error| error.gone).collect();
    SinkError::passing_but_for(cause, held).with_gone(gone)
}

impl Sink for FanOut {
    /// Returns the highest run number that any of the sinks knows.
    async fn prepare(&mut self) -> Result<Option<RunNumber>, SinkError> {
        let (mut highest, mut passing) = (None, None);
        for member in &mut self.required {
            match member.sink.prepare().await {
                Ok(number) => highest = highest.max(number),
                Err(error) if error.is_passing() => passing = passing.or(Some(error)),
                Err(error) => return Err(error),
            }
        }
        for aside in &mut self.optional {
            highest = highest.max(aside.prepare().await?);
        }
        passing.map_or(Ok(highest), Err)
    }

    /// Begins the run at all sinks. The call is repeated if an error passes, and then concerns only
    /// the sinks that have not begun the run.
    async fn begin(&mut self, run: &RunFacts) -> Result<(), SinkError> {
        self.forget();
        let mut passing = None;
        for place in 0..self.required.len() {
            match self.required[place].begin(run).await {
                Ok(()) => {}
                Err(error) if error.is_passing() => passing = passing.or(Some(error)),
                Err(error) => {
                    for begun in &mut self.required {
                        // Without events, a close that fails costs nothing.
                        let _ = begun.close().await;
                    }
                    return Err(error);
                }
            }
        }
        if let Some(error) = passing {
            return Err(error);
        }
        self.optional.iter_mut().for_each(|aside| aside.begin(run));
        Ok(())
    }

    /// Writes to all required sinks; an optional sink takes the event if it has room.
    async fn write(&mut self, event: &Event) -> Result<(), SinkError> {
        if !self.optional.is_empty() && self.offered.insert(event.id) {
            self.optional.iter_mut().for_each(|aside| aside.offer(event));
        }
        let mut outcome = Ok(());
        for member in &mut self.required {
            outcome = outcome.and(member.write(event).await);
        }
        outcome
    }

    /// Commits all required sinks. If some must try again, only the events that these hold are
    /// told.
    async fn commit(&mut self) -> Result<(), SinkError> {
        let mut outcome = Ok(());
        for member in &mut self.required {
            outcome = outcome.and(member.commit().await);
        }
        let failures: Vec<_> = self.required.iter_mut().filter_map(|member| member.failure.take()).collect();
        // Either the batch is lost, or all sinks have it, so nothing is to be tried again.
        if outcome.is_err() || failures.is_empty() {
            self.forget();
            let gone = failures.into_iter().flat_map(|error| error.gone).collect();
            return outcome.map_err(|error| error.with_gone(gone));
        }
        // What some sinks have accepted is not offered to them again when the others try again.
        self.required.iter_mut().for_each(|member| member.accepted.extend(member.written.drain(..)));
        let held = self.required.iter_mut().flat_map(|member| member.held.drain(..));
        let held = held.collect::<BTreeSet<EventId>>().into_iter().collect();
        Err(joined(failures, held))
    }

    fn note_episodes(&mut self, episodes: &[Episode]) {
        self.required.iter_mut().for_each(|member| member.sink.note_episodes(episodes));
        self.optional.iter_mut().for_each(|aside| aside.note_episodes(episodes));
    }

    fn note_changes(&mut self, changes: &[OwingChange]) {
        self.required.iter_mut().for_each(|member| member.sink.note_changes(changes));
        self.optional.iter_mut().for_each(|aside| aside.note_changes(changes));
    }

    /// Returns the space of the required sink that has least.
    fn space(&self) -> Option<SinkSpace> {
        let spaces = self.required.iter().filter_map(|member| member.sink.space());
        spaces.min_by_key(|space| space.free)
    }

    fn take_closed(&mut self) -> Vec<ClosedFile> {
        let mut files: Vec<_> =
            self.required.iter_mut().flat_map(|member| member.sink.take_closed()).collect();
        self.optional.iter().for_each(|aside| files.extend(aside.take_closed()));
        files
    }

    /// Closes all sinks, even after one of them failed.
    async fn close(&mut self) -> Result<(), SinkError> {
        let mut errors = Vec::new();
        for member in &mut self.required {
            errors.extend(member.close().await.err());
        }
        for aside in &mut self.optional {
            aside.close().await;
        }
        if errors.is_empty() { Ok(()) } else { Err(joined(errors, Vec::new())) }
    }
}
