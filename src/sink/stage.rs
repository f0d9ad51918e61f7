//! Filter and sink on a thread of their own, fed by the builder's task in batches.

use std::io;

use evb_core::event::Event;
use tokio::sync::{mpsc, oneshot};

use super::{RunFacts, Sink, SinkError};
use crate::filter::{Filter, FilterVerdict};

/// What became of an event.
#[derive(Debug)]
pub(crate) enum Fate {
    Written,
    Rejected,
    Failed(String),
}

/// The builder's side of the stage. Never more events in it than the builder has slots, so neither channel can be full.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) events: mpsc::Sender<Event>,
    pub(crate) fates: mpsc::Receiver<(Event, Fate)>,
}

/// Starts filter and sink on a thread of their own; `slots` bounds how many events can be in hand.
///
/// # Errors
/// The system has no thread; or later, through `begun`, what the sink says.
pub(crate) fn start<S: Sink>(
    facts: RunFacts,
    mut sink: S,
    filter: Box<dyn Filter>,
    slots: usize,
) -> io::Result<(Stage, oneshot::Receiver<Result<(), SinkError>>)> {
    let (events, incoming) = mpsc::channel(slots.max(1));
    let (outgoing, fates) = mpsc::channel(slots.max(1));
    let (begun, has_begun) = oneshot::channel();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    std::thread::Builder::new().name(format!("sink {}", facts.builder)).spawn(move || {
        runtime.block_on(async {
            let beginning = sink.begin(&facts).await;
            let go_on = beginning.is_ok();
            if begun.send(beginning).is_ok() && go_on {
                run(sink, filter, incoming, outgoing, slots.max(1)).await;
            }
        });
    })?;
    Ok((Stage { events, fates }, has_begun))
}

async fn run<S: Sink>(
    mut sink: S,
    mut filter: Box<dyn Filter>,
    mut incoming: mpsc::Receiver<Event>,
    outgoing: mpsc::Sender<(Event, Fate)>,
    slots: usize,
) {
    let mut batch = Vec::new();
    let mut fates = Vec::new();
    while incoming.recv_many(&mut batch, slots).await > 0 {
        for event in &batch {
            fates.push(take(&mut sink, filter.as_mut(), event).await);
        }
        if let Err(error) = sink.commit().await {
            let cause = error.to_string();
            tracing::error!(events = batch.len(), %error, "the sink failed to commit: these events are lost");
            fates.iter_mut().filter(|fate| matches!(fate, Fate::Written)).for_each(|fate| {
                *fate = Fate::Failed(cause.clone());
            });
        }
        for done in batch.drain(..).zip(fates.drain(..)) {
            if outgoing.send(done).await.is_err() {
                break;
            }
        }
    }
    if let Err(error) = sink.close().await {
        tracing::error!(%error, "the sink failed to close");
    }
}

async fn take<S: Sink>(sink: &mut S, filter: &mut dyn Filter, event: &Event) -> Fate {
    match filter.verdict(event) {
        FilterVerdict::Accept => match sink.write(event).await {
            Ok(()) => Fate::Written,
            Err(SinkError(cause)) => {
                tracing::error!(event_id = event.id.number(), cause, "the sink failed: the event is lost");
                Fate::Failed(cause)
            }
        },
        FilterVerdict::Reject => Fate::Rejected,
        FilterVerdict::Corrupt { source_id, problem } => {
            let cause = format!("wrong content from source {source_id}: {problem}");
            tracing::error!(event_id = event.id.number(), cause, "the event is lost");
            Fate::Failed(cause)
        }
    }
}
