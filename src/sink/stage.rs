//! Filter and sink on a thread of their own, fed by the builder's task in batches.

use std::{
    collections::VecDeque,
    io,
    pin::pin,
    task::{Context, Poll, Waker},
};

use evb_core::event::Event;
use tokio::sync::{
    mpsc::{self, error::TrySendError},
    oneshot,
};

use super::{RunFacts, Sink, SinkError};
use crate::filter::{Filter, FilterVerdict};

/// What became of an event.
#[derive(Debug)]
pub(crate) enum Fate {
    Written,
    Rejected,
    Failed(String),
}

/// Filter and sink, as the builder sees them. Never more events in hand than the builder has slots, so no queue can be full.
pub(crate) enum Stage {
    /// On a thread of their own.
    Apart { events: mpsc::Sender<Event>, fates: mpsc::Receiver<(Event, Fate)> },
    /// On the builder's: the sink never waits.
    Here { take: Box<dyn FnMut(&Event) -> Fate>, fates: VecDeque<(Event, Fate)> },
}

impl Stage {
    /// Hands an event over.
    pub(crate) fn submit(&mut self, event: Event) -> Result<(), Event> {
        match self {
            Self::Apart { events, .. } => events.try_send(event).map_err(TrySendError::into_inner),
            Self::Here { take, fates } => {
                let fate = take(&event);
                fates.push_back((event, fate));
                Ok(())
            }
        }
    }

    /// The next event that filter and sink are done with.
    pub(crate) fn poll_fate(&mut self, cx: &mut Context<'_>) -> Poll<Option<(Event, Fate)>> {
        match self {
            Self::Apart { fates, .. } => fates.poll_recv(cx),
            Self::Here { fates, .. } => {
                fates.pop_front().map_or(Poll::Pending, |fate| Poll::Ready(Some(fate)))
            }
        }
    }

    /// Waits until the sink has closed.
    pub(crate) async fn close(self) {
        if let Self::Apart { events, mut fates } = self {
            drop(events);
            while fates.recv().await.is_some() {}
        }
    }
}

/// Starts filter and sink; `slots` bounds how many events can be in hand.
///
/// # Errors
/// The system has no thread; or later, through the receiver, what the sink says at its beginning.
pub(crate) fn start<S: Sink>(
    facts: RunFacts,
    mut sink: S,
    mut filter: Box<dyn Filter>,
    slots: usize,
) -> io::Result<(Stage, oneshot::Receiver<Result<(), SinkError>>)> {
    let (begun, has_begun) = oneshot::channel();
    if sink.is_instant() {
        // Nobody is there yet to whom it could be of no use.
        let _ = begun.send(at_once(sink.begin(&facts)).and_then(|result| result));
        let take = move |event: &Event| {
            let taken = at_once(take(&mut sink, filter.as_mut(), event));
            let committed = at_once(sink.commit()).and_then(|result| result);
            match (taken, committed) {
                (Ok(Fate::Written), Err(SinkError(cause))) | (Err(SinkError(cause)), _) => {
                    Fate::Failed(cause)
                }
                (Ok(fate), _) => fate,
            }
        };
        return Ok((Stage::Here { take: Box::new(take), fates: VecDeque::new() }, has_begun));
    }
    let (events, incoming) = mpsc::channel(slots.max(1));
    let (outgoing, fates) = mpsc::channel(slots.max(1));
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
    Ok((Stage::Apart { events, fates }, has_begun))
}

/// What a future that never waits comes to.
fn at_once<T>(future: impl Future<Output = T>) -> Result<T, SinkError> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Ok(value),
        Poll::Pending => Err(SinkError("the sink says that it is instant, and waits".to_owned())),
    }
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
