#[cfg(test)]
mod tests;

use evb_core::event::Event;
use tokio::sync::mpsc;

use super::{Sink, SinkError};

/// Hands events to a consumer in the same process. An event is accepted when it is in the channel.
/// A slow consumer causes back-pressure; without a consumer, events are lost.
///
/// ```
/// use evb::prelude::*;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (sink, mut events) = ChannelSink::new(64);
/// let run = LocalSystem::new(1, 1).events(1).start(|_| sink.clone()).await?;
/// let data = Fragment::new(EventId::FIRST, Timestamp::new(0), "detector data");
/// run.sources()[0].push(data).await?;
/// let event = events.recv().await.ok_or("the run ended without an event")?;
/// assert_eq!(event.payload_size(), Bytes::new(13));
/// # run.finished().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct ChannelSink(mpsc::Sender<Event>);

/// The consumer's end of a [`ChannelSink`].
#[derive(Debug)]
pub struct EventReceiver(mpsc::Receiver<Event>);

impl EventReceiver {
    /// Waits for the next event; returns `None` when all sinks of the channel are dropped, as after
    /// a run, and no event is left.
    ///
    /// Cancel safety: a call that is dropped has not removed an event from the channel.
    pub async fn recv(&mut self) -> Option<Event> {
        self.0.recv().await
    }

    /// Waits for the next event, on a thread that is not async.
    ///
    /// # Panics
    /// Panics inside an async task.
    pub fn blocking_recv(&mut self) -> Option<Event> {
        self.0.blocking_recv()
    }

    /// Returns the next event if the channel holds one.
    pub fn try_recv(&mut self) -> Option<Event> {
        self.0.try_recv().ok()
    }
}

impl ChannelSink {
    /// Creates a sink and its receiver; the channel has room for `capacity` events (at least one).
    pub fn new(capacity: usize) -> (Self, EventReceiver) {
        let (sender, receiver) = mpsc::channel(capacity.max(1));
        (Self(sender), EventReceiver(receiver))
    }
}

impl Sink for ChannelSink {
    async fn write(&mut self, event: &Event) -> Result<(), SinkError> {
        let gone = |_| SinkError::lost("the part of the program that takes the events has ended");
        self.0.send(event.clone()).await.map_err(gone)
    }
}
