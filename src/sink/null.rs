use std::future::{Future, ready};

use evb_core::event::Event;

use super::{Sink, SinkError};

/// Sink that accepts every event and keeps none.
///
/// Measures everything up to the sink:
///
/// ```
/// use evb::{
///     input::{FragmentSize, Generator},
///     prelude::*,
/// };
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let size = FragmentSize::Fixed(Bytes::kib(1));
/// let run = LocalSystem::new(2, 1)
///     .events(100)
///     .start_on_demand(|source| Generator::new(source, size, Bytes::kib(1), 1), |_| NullSink)
///     .await?;
/// assert_eq!(run.finished().await?.bytes.payload, 2 * 100 * 1024);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct NullSink;

impl Sink for NullSink {
    fn write(&mut self, _event: &Event) -> impl Future<Output = Result<(), SinkError>> + Send {
        ready(Ok(()))
    }
}
