//! Filter and sink on a thread of their own, fed by the builder's task in batches.

mod patience;
#[cfg(test)]
mod tests;

use std::{
    io,
    task::{Context, Poll},
    time::Duration,
};

use evb_core::event::Event;
use tokio::sync::{
    mpsc::{self, error::TrySendError},
    oneshot, watch,
};

use patience::Patience;

use super::{RunFacts, Sink, SinkError, SinkSpace};
use crate::filter::{Filter, FilterVerdict};

/// Interval at which the free space of the sink's file system is checked.
const LOOK: Duration = Duration::from_secs(1);

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
    events: mpsc::Sender<Event>,
    fates: mpsc::Receiver<(Event, Fate)>,
    ending: watch::Sender<bool>,
    space: watch::Receiver<Option<SinkSpace>>,
}

/// Options of a stage.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StageOptions {
    /// Number of events that can be in the stage at once.
    pub(crate) slots: usize,
    /// Time for which a failing sink is retried at the end of a run.
    pub(crate) give_up: Duration,
}

impl Stage {
    /// Passes an event to filter and sink.
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

    /// Returns the space of the storage to which the sink writes, as of the last check.
    pub(crate) fn space(&self) -> Option<SinkSpace> {
        *self.space.borrow()
    }

    /// Waits until the sink has closed.
    pub(crate) async fn close(mut self) {
        self.ending.send_replace(true);
        drop(self.events);
        while self.fates.recv().await.is_some() {}
    }
}

/// Starts filter and sink on a thread of their own.
///
/// # Errors
/// The operating system's error, if it refuses a thread. The error of the sink's `begin` comes
/// later, through the receiver.
pub(crate) fn start<S: Sink>(
    facts: RunFacts,
    sink: S,
    filter: Box<dyn Filter>,
    options: StageOptions,
) -> io::Result<(Stage, oneshot::Receiver<Result<(), SinkError>>)> {
    let (begun, has_begun) = oneshot::channel();
    let slots = options.slots.max(1);
    let (events, incoming) = mpsc::channel(slots);
    let (outgoing, fates) = mpsc::channel(slots);
    let (ending, is_ending) = watch::channel(false);
    let (show_space, space) = watch::channel(None);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    std::thread::Builder::new().name(format!("sink {}", facts.builder)).spawn(move || {
        runtime.block_on(async {
            let mut patience = Patience::new(facts.builder, options.give_up, is_ending);
            let mut sink = Beginning { sink, facts, has_begun: false };
            let beginning = match sink.begin().await {
                Err(error) if error.is_passing() => {
                    patience.note(&error, 0);
                    Ok(())
                }
                beginning => beginning,
            };
            let go_on = beginning.is_ok();
            if begun.send(beginning).is_ok() && go_on {
                run(sink, filter, incoming, outgoing, (slots, show_space), patience).await;
            }
        });
    })?;
    Ok((Stage { events, fates, ending, space }, has_begun))
}

/// A sink that may not have begun yet.
struct Beginning<S> {
    sink: S,
    facts: RunFacts,
    has_begun: bool,
}

impl<S: Sink> Beginning<S> {
    async fn begin(&mut self) -> Result<(), SinkError> {
        if !self.has_begun {
            self.sink.begin(&self.facts).await?;
            self.has_begun = true;
        }
        Ok(())
    }
}

async fn run<S: Sink>(
    mut sink: Beginning<S>,
    mut filter: Box<dyn Filter>,
    mut incoming: mpsc::Receiver<Event>,
    outgoing: mpsc::Sender<(Event, Fate)>,
    (slots, space): (usize, watch::Sender<Option<SinkSpace>>),
    mut patience: Patience,
) {
    let mut batch = Vec::new();
    let mut looks = tokio::time::interval(LOOK);
    looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            _ = looks.tick() => {
                space.send_replace(sink.sink.space());
                continue;
            }
            count = incoming.recv_many(&mut batch, slots) => if count == 0 { break },
        }
        let mut verdicts = filter.verdicts(&batch).into_iter();
        let mut fates: Vec<Fate> = batch.iter().map(|event| fate(event, verdicts.next())).collect();
        let written = |fate: &Fate| matches!(fate, Fate::Written);
        let mut left: Vec<usize> = (0..batch.len()).filter(|index| written(&fates[*index])).collect();
        while !left.is_empty() {
            let Err(error) = write(&mut sink, &batch, &mut left, &mut fates).await else { break };
            space.send_replace(sink.sink.space());
            tokio::select! {
                goes_on = patience.wait(&error, left.len()) => if !goes_on {
                    left.drain(..).for_each(|index| fates[index] = Fate::Failed(patience.words(&error)));
                },
                // The receiver of the outcomes is gone, so the loop ends.
                () = outgoing.closed() => return,
            }
        }
        patience.is_over();
        for done in batch.drain(..).zip(fates.drain(..)) {
            if outgoing.send(done).await.is_err() {
                break;
            }
        }
    }
    if let Err(error) = sink.sink.close().await {
        tracing::warn!(%error, "the sink failed to close; the events that it accepted are not affected");
    }
}

/// Writes and commits the rest of a batch. After a passing error, `left` holds the events to be
/// written again; after any other error, `fates` holds the outcomes of these events.
async fn write<S: Sink>(
    sink: &mut Beginning<S>,
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
                tracing::error!(event_id = event.id.number(), %error, "the sink failed: the event is lost");
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
    tracing::error!(events = left.len(), %error, "the sink failed to commit: these events are lost");
    left.drain(..).for_each(|index| fates[index] = Fate::Failed(error.to_string()));
    Ok(())
}

/// Returns the outcome of an event after the filter; `Written` stands for an event that goes on to
/// the sink.
fn fate(event: &Event, verdict: Option<FilterVerdict>) -> Fate {
    let cause = match verdict {
        Some(FilterVerdict::Accept) => return Fate::Written,
        Some(FilterVerdict::Reject) => return Fate::Rejected,
        Some(FilterVerdict::Corrupt { source_id, problem }) => {
            format!("wrong content from source {source_id}: {problem}")
        }
        None => "the filter returned no verdict for it".to_owned(),
    };
    tracing::error!(event_id = event.id.number(), cause, "the event is lost");
    Fate::Failed(cause)
}
