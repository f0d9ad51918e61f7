use evb_core::event::Event;
use tokio::sync::mpsc;

use super::{Sink, SinkError};

/// Hands events to a consumer in the same process. An event is accepted when it is in the channel.
/// A slow consumer causes back-pressure; without a consumer, events are lost.
#[derive(Clone, Debug)]
pub struct ChannelSink(mpsc::Sender<Event>);

/// The consumer's end of a [`ChannelSink`].
pub type EventReceiver = mpsc::Receiver<Event>;

impl ChannelSink {
    /// Creates a sink and its receiver, with room for `capacity` events (at least one) between
    /// them.
    pub fn new(capacity: usize) -> (Self, EventReceiver) {
        let (sender, receiver) = mpsc::channel(capacity.max(1));
        (Self(sender), receiver)
    }
}

impl Sink for ChannelSink {
    async fn write(&mut self, event: &Event) -> Result<(), SinkError> {
        let gone = |_| SinkError::lost("the consumer of the events is gone");
        self.0.send(event.clone()).await.map_err(gone)
    }
}
