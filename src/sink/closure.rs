use std::future::{Future, ready};

use evb_core::event::Event;

use super::{Sink, SinkError};

/// Sink that calls a closure with each event.
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
