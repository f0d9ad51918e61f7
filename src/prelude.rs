//! Types for most programs that embed evb: `use evb::prelude::*;`.

pub use crate::{
    builder::{Builder, BuilderConfig},
    event::Event,
    fragment::{Fragment, Timestamp},
    id::{BuilderId, EventId, RunNumber, SourceId},
    local::{LocalRun, LocalSystem},
    sink::{ChannelSink, FileSink, FnSink, NullSink, Sink, SinkError, SocketSink},
    source::{BlockingSource, PushError, Readout, Source, SourceConfig},
    supervisor::{RunPlan, Supervisor, SupervisorConfig, SupervisorHandle, TriggerKind},
    units::{Bytes, Frequency, Rate},
};
