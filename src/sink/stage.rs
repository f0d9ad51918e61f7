//! Filter and sink on a thread of their own, fed by the builder's task in batches.

mod patience;
#[cfg(test)]
mod tests;

use std::{
    io,
    task::{Context, Poll},
    time::Duration,
};

use evb_core::{
    alignment::Episode,
    event::Event,
    id::{BuilderId, RunNumber},
    ledger::OwingChange,
    quantities::counted,
    wire::control::{FilesReport, MAX_FILES, MAX_LATEST_FILES, MAX_SLOTS},
};
use tokio::sync::{
    mpsc::{self, error::TrySendError},
    oneshot, watch,
};

use patience::Patience;

use super::{RunFacts, Sink, SinkError, SinkSpace, closed_files::ClosedFiles, file, with_remedy};
use crate::{
    filter::{Filter, FilterReport, FilterVerdict},
    tap::Tap,
};

/// Interval at which the free space of the sink's file system is checked.
const LOOK: Duration = Duration::from_secs(1);

/// Most events that a stage can have at once.
const ROOM: usize = MAX_SLOTS as usize;

/// Remedy for a sink that loses events.
const CHECK_WRITING: &str = "check the disk or program to which the sink writes";

/// Most sentences about stored events that are gone.
const MAX_GONE: usize = 16;

/// Number of requests to begin a run that may wait; the supervisor repeats them.
const BEGINS: usize = 4;

/// The outcome of an event in filter and sink.
#[derive(Debug)]
pub(crate) enum Fate {
    Written,
    Rejected,
    Failed(String),
}

/// Handle of the builder to the thread on which its filter and sink run. The stage never has more
/// events than the builder has slots, so no queue can be full.
pub(crate) struct Stage {
    begins: mpsc::Sender<RunFacts>,
    begun: mpsc::Receiver<Begun>,
    events: mpsc::Sender<Event>,
    fates: mpsc::Receiver<(Event, Fate)>,
    ending: watch::Sender<bool>,
    episodes: watch::Sender<Vec<Episode>>,
    changes: watch::Sender<Vec<OwingChange>>,
    space: watch::Receiver<Option<SinkSpace>>,
    filter: watch::Receiver<Option<FilterReport>>,
    gone: watch::Receiver<Vec<String>>,
    closed: watch::Receiver<ClosedFiles>,
}

/// Result of the beginning of a run: the reason why the sink cannot take part, and the highest run
/// number that its storage knows, as far as it was looked up.
pub(crate) type Begun = (Result<(), String>, Option<RunNumber>);

/// Result of the preparation of a sink: the highest run number that its storage knows; `None` if it
/// knows none.
pub(crate) type Prepared = Result<Option<RunNumber>, SinkError>;

impl Stage {
    /// Lets the sink begin a run; [`Self::poll_begun`] has the result. A request is dropped if many
    /// wait: then the sink's storage does not respond, and the supervisor gives up.
    pub(crate) fn begin(&mut self, facts: RunFacts) {
        let _ = self.begins.try_send(facts);
    }

    /// Returns the result of the next request to begin a run.
    pub(crate) fn poll_begun(&mut self, cx: &mut Context<'_>) -> Poll<Option<Begun>> {
        self.begun.poll_recv(cx)
    }

    /// Passes an event to filter and sink.
    #[expect(clippy::result_large_err, reason = "only a gone stage returns an event")]
    pub(crate) fn submit(&mut self, event: Event) -> Result<(), Event> {
        self.events.try_send(event).map_err(TrySendError::into_inner)
    }

    /// Returns the next event that filter and sink have finished with.
    pub(crate) fn poll_fate(&mut self, cx: &mut Context<'_>) -> Poll<Option<(Event, Fate)>> {
        self.fates.poll_recv(cx)
    }

    /// Notes that the run is ending, so that the retries of a failing sink are limited.
    pub(crate) fn expect_end(&mut self) {
        self.ending.send_replace(true);
    }

    /// Tells the sink what happened to sources.
    pub(crate) fn note_episodes(&mut self, told: Vec<Episode>) {
        self.episodes.send_modify(|all| told.into_iter().for_each(|episode| Episode::note(all, episode)));
    }

    /// Tells the sink which sources were excluded or included so far.
    pub(crate) fn note_changes(&mut self, told: Vec<OwingChange>) {
        self.changes.send_replace(told);
    }

    /// Returns the space of the storage to which the sink writes, as of the last check.
    pub(crate) fn space(&self) -> Option<SinkSpace> {
        *self.space.borrow()
    }

    /// Returns what the processes of the filter have done, as of the last check.
    pub(crate) fn filter_report(&self) -> Option<FilterReport> {
        self.filter.borrow().clone()
    }

    /// Returns a text about events that the sink stored and that are gone; usually empty.
    pub(crate) fn gone(&self) -> String {
        self.gone.borrow().join("; ")
    }

    /// Returns the files that the sink has closed so far.
    pub(crate) fn files(&self) -> Option<FilesReport> {
        self.closed.borrow().report(MAX_LATEST_FILES)
    }

    /// Waits until the sink has closed, and returns its files.
    pub(crate) async fn close(mut self) -> Option<FilesReport> {
        self.ending.send_replace(true);
        drop(self.events);
        while self.fates.recv().await.is_some() {}
        self.closed.borrow().report(MAX_FILES)
    }
}

/// Starts filter and sink on a thread of their own, and prepares the sink. The result of the
/// preparation comes later, through the receiver.
///
/// # Errors
/// The operating system's error, if it refuses a thread.
pub(crate) fn start<S: Sink>(
    builder: BuilderId,
    sink: S,
    filter: Box<dyn Filter>,
    give_up: Duration,
    tap: Option<Tap>,
) -> io::Result<(Stage, oneshot::Receiver<Prepared>)> {
    let (prepared, has_prepared) = oneshot::channel();
    // Of each pair, one end stays with the builder, and the thread has the other one.
    let (begins, to_begin) = mpsc::channel(BEGINS);
    let (say_begun, begun) = mpsc::channel(BEGINS);
    let (events, incoming) = mpsc::channel(ROOM);
    let (outgoing, fates) = mpsc::channel(ROOM);
    let (ending, is_ending) = watch::channel(false);
    let (note_episodes, episodes) = watch::channel(Vec::new());
    let (note_changes, changes) = watch::channel(Vec::new());
    let (show_space, space) = watch::channel(None);
    let (tell_gone, gone) = watch::channel(Vec::new());
    let (show_filter, filter_report) = watch::channel(None);
    let (tell_closed, closed) = watch::channel(ClosedFiles::default());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let span = tracing::Span::current();
    crate::threads::start(format!("sink {builder}"), move || {
        let _builder = span.entered();
        runtime.block_on(async {
            let (facts, has_begun) = (None, false);
            let mut sink =
                SinkBeginning { sink, facts, has_begun, episodes, changes, tell_gone, tell_closed, tap };
            let result = sink.sink.prepare().await;
            let is_able = result.as_ref().err().is_none_or(SinkError::is_passing);
            // The builder may have stopped waiting for the answer.
            let _ = prepared.send(result);
            if is_able {
                let patience = Patience::new(builder, give_up, is_ending);
                let ends = StageChannels { to_begin, say_begun, incoming, outgoing, show_space, show_filter };
                run(sink, filter, ends, patience).await;
            }
        });
    })?;
    let (episodes, changes) = (note_episodes, note_changes);
    let filter = filter_report;
    let stage =
        Stage { begins, begun, events, fates, ending, episodes, changes, space, filter, gone, closed };
    Ok((stage, has_prepared))
}

/// The stage's ends of the channels to the builder.
struct StageChannels {
    to_begin: mpsc::Receiver<RunFacts>,
    say_begun: mpsc::Sender<Begun>,
    incoming: mpsc::Receiver<Event>,
    outgoing: mpsc::Sender<(Event, Fate)>,
    show_space: watch::Sender<Option<SinkSpace>>,
    show_filter: watch::Sender<Option<FilterReport>>,
}

/// A sink that may not have begun yet.
struct SinkBeginning<S> {
    sink: S,
    /// Facts about the run that the sink has begun, or has to begin.
    facts: Option<RunFacts>,
    has_begun: bool,
    /// Episodes of sources whose timestamps disagreed.
    episodes: watch::Receiver<Vec<Episode>>,
    /// Exclusions and inclusions of sources.
    changes: watch::Receiver<Vec<OwingChange>>,
    /// Sentences about stored events that are gone, for the builder's report.
    tell_gone: watch::Sender<Vec<String>>,
    /// Files that the sink has closed, for the builder's reports.
    tell_closed: watch::Sender<ClosedFiles>,
    tap: Option<Tap>,
}

impl<S: Sink> SinkBeginning<S> {
    /// Begins a run. If the sink has begun the same run under another number, which can be so only
    /// before the first event, it is closed first.
    async fn change(&mut self, facts: RunFacts, patience: &mut Patience) -> Begun {
        if self.has_begun && self.facts.as_ref() != Some(&facts) {
            self.close().await;
        }
        self.facts = Some(facts);
        match self.begin().await {
            Ok(()) => (Ok(()), None),
            Err(error) if error.is_passing() => {
                patience.note(&error, 0);
                (Ok(()), None)
            }
            Err(error) => {
                self.facts = None;
                (Err(error.to_string()), self.sink.prepare().await.ok().flatten())
            }
        }
    }

    /// Begins the run at the sink, unless that is done. This is called again after a failure.
    async fn begin(&mut self) -> Result<(), SinkError> {
        let Some(facts) = &self.facts else {
            return Err(SinkError::lost(
                "an event came before the run began, which is a fault of evb (report it with the logs)",
            ));
        };
        if !self.has_begun {
            self.sink.note_changes(&self.changes.borrow_and_update());
            self.sink.begin(facts).await?;
            self.has_begun = true;
            if let Some(tap) = &self.tap {
                tap.begin(&file::identity(facts, &self.changes.borrow()));
            }
            self.tell_episodes();
        }
        Ok(())
    }

    /// Tells a sink that has begun what happened to sources so far.
    fn tell_episodes(&mut self) {
        let told = self.episodes.borrow_and_update();
        if self.has_begun && !told.is_empty() {
            self.sink.note_episodes(&told);
        }
    }

    fn end_tap(&self) {
        if let Some(tap) = &self.tap {
            tap.end();
        }
    }

    /// Closes the sink at the end of a run, if the run had begun there.
    async fn close(&mut self) {
        self.end_tap();
        if std::mem::take(&mut self.has_begun)
            && let Err(error) = self.sink.close().await
            && !self.note_gone(&error)
        {
            tracing::warn!(%error, "the builder's sink could not close, which costs no event that it has accepted: {}", with_remedy(&error, "check its files with `evbd verify`"));
        }
        self.note_closed();
    }

    /// Keeps what files the sink has closed.
    fn note_closed(&mut self) {
        let files = self.sink.take_closed();
        if !files.is_empty() {
            self.tell_closed.send_modify(|told| files.iter().for_each(|file| told.add(file)));
        }
    }

    /// Logs and keeps the stored events that are gone according to an error. Returns false if there
    /// are none.
    fn note_gone(&self, error: &SinkError) -> bool {
        let Some(words) = error.gone_in_words() else { return false };
        tracing::error!("{words}");
        self.tell_gone.send_modify(|told| {
            if told.len() < MAX_GONE {
                told.push(words);
            }
        });
        true
    }
}

/// Runs the stage until the builder drops its end: filters each batch of events, writes it to the
/// sink, again after passing errors, and returns the events with their fates.
async fn run<S: Sink>(
    mut sink: SinkBeginning<S>,
    mut filter: Box<dyn Filter>,
    ends: StageChannels,
    mut patience: Patience,
) {
    let StageChannels { mut to_begin, say_begun, mut incoming, outgoing, show_space: space, show_filter } =
        ends;
    let mut batch = Vec::new();
    let mut looks = tokio::time::interval(LOOK);
    looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            // A new run and its changes come before the events that follow them.
            biased;
            Some(facts) = to_begin.recv() => {
                filter.begin(&file::identity(&facts, &sink.changes.borrow()));
                let begun = sink.change(facts, &mut patience).await;
                // The builder may be gone, which the end of its events shows.
                let _ = say_begun.send(begun).await;
                continue;
            }
            Ok(()) = sink.episodes.changed() => {
                sink.tell_episodes();
                continue;
            }
            Ok(()) = sink.changes.changed() => {
                sink.sink.note_changes(&sink.changes.borrow_and_update());
                continue;
            }
            _ = looks.tick() => {
                space.send_replace(sink.sink.space());
                show_filter.send_replace(filter.report());
                continue;
            }
            count = incoming.recv_many(&mut batch, ROOM) => if count == 0 { break },
        }
        let mut verdicts = filter.verdicts(&batch).into_iter();
        show_filter.send_replace(filter.report());
        let mut fates: Vec<Fate> = batch.iter_mut().map(|event| fate(event, verdicts.next())).collect();
        let written = |fate: &Fate| matches!(fate, Fate::Written);
        let mut left: Vec<usize> = (0..batch.len()).filter(|index| written(&fates[*index])).collect();
        while !left.is_empty() {
            let Err(error) = write(&mut sink, &batch, &mut left, &mut fates).await else { break };
            space.send_replace(sink.sink.space());
            if sink.note_gone(&error) {
                patience.note_loss();
            }
            tokio::select! {
                goes_on = patience.wait(&error, left.len()) => if !goes_on {
                    left.drain(..).for_each(|index| fates[index] = Fate::Failed(patience.words(&error)));
                },
                // The receiver of the outcomes is gone, so the loop ends.
                () = outgoing.closed() => return sink.end_tap(),
            }
        }
        patience.end_trouble();
        sink.note_closed();
        if let Some(tap) = &sink.tap {
            let accepted = batch.iter().zip(&fates).filter(|(_, fate)| written(fate));
            tap.offer(accepted.map(|(event, _)| event));
        }
        for done in batch.drain(..).zip(fates.drain(..)) {
            if outgoing.send(done).await.is_err() {
                break;
            }
        }
    }
    sink.close().await;
}

/// Writes and commits the rest of a batch. After a passing error, `left` holds the events to be
/// written again; after any other error, `fates` holds the outcomes of these events.
async fn write<S: Sink>(
    sink: &mut SinkBeginning<S>,
    batch: &[Event],
    left: &mut Vec<usize>,
    fates: &mut [Fate],
) -> Result<(), SinkError> {
    // After an error in `begin`, all events are kept for another try, because the sink has not seen
    // any of them.
    sink.begin().await?;
    let sink = &mut sink.sink;
    let mut written = Vec::with_capacity(left.len());
    for (place, index) in left.iter().copied().enumerate() {
        let event = &batch[index];
        match sink.write(event).await {
            Ok(()) => written.push(index),
            Err(error) if error.is_passing() => {
                written.retain(|index| error.holds(batch[*index].id));
                written.extend_from_slice(&left[place..]);
                *left = written;
                return Err(error);
            }
            Err(error) => {
                let event_id = event.id.number();
                tracing::error!(event_id, %error, "event {event_id} is lost, because the builder's sink failed, and the run goes on: {}", with_remedy(&error, CHECK_WRITING));
                fates[index] = Fate::Failed(error.to_string());
            }
        }
    }
    *left = written;
    let Err(error) = sink.commit().await else { return Ok(()) };
    if error.is_passing() {
        left.retain(|index| error.holds(batch[*index].id));
        // The rest of the batch may be empty: the sink has accepted all events and only asks for
        // another commit.
        return Err(error);
    }
    let lost = counted(left.len(), "event");
    tracing::error!(events = left.len(), %error, "this builder lost {lost}, because its sink could not store them, and the run goes on: {}", with_remedy(&error, CHECK_WRITING));
    left.drain(..).for_each(|index| fates[index] = Fate::Failed(error.to_string()));
    Ok(())
}

/// Tags an event as its verdict says, and returns its outcome after the filter; `Written` stands
/// for an event that goes on to the sink.
fn fate(event: &mut Event, verdict: Option<FilterVerdict>) -> Fate {
    let cause = match verdict {
        Some(FilterVerdict::Accept) => return Fate::Written,
        Some(FilterVerdict::Tag(tag)) => {
            event.tag = tag;
            return Fate::Written;
        }
        Some(FilterVerdict::Reject) => return Fate::Rejected,
        Some(FilterVerdict::Corrupt { source_id, problem }) => {
            format!("wrong content from source {source_id}: {problem}")
        }
        None => "the builder's filter did not judge it; correct the filter".to_owned(),
    };
    let event_id = event.id.number();
    let remedy = "look at the readout of that source, or correct the filter";
    tracing::error!(
        event_id,
        cause,
        "event {event_id} is lost, and the run goes on: {}",
        with_remedy(&cause, remedy)
    );
    Fate::Failed(cause)
}
