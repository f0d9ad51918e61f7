use std::future::{Future, ready};

use evb_core::event::Event;

use super::{Sink, SinkError};

/// Sink that calls a closure with each event.
///
/// ```
/// use std::sync::mpsc;
///
/// use evb::prelude::*;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (sizes, seen) = mpsc::channel();
/// let sink = FnSink(move |event: &Event| {
///     sizes.send(event.payload_size()).map_err(|_| SinkError::lost("the receiver is gone"))
/// });
/// let run = LocalSystem::new(1, 1).events(1).start(|_| sink.clone()).await?;
/// let data = Fragment::new(EventId::FIRST, Timestamp::new(0), "detector data");
/// run.sources()[0].push(data).await?;
/// # run.finished().await?;
/// assert_eq!(seen.recv()?, Bytes::new(13));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct FnSink<F>(pub F);

impl<F> Sink for FnSink<F>
where
    F: FnMut(&Event) -> Result<(), SinkError> + Send + 'static,
{
    fn write(&mut self, event: &Event) -> impl Future<Output = Result<(), SinkError>> + Send {
        ready((self.0)(event))
    }
}
