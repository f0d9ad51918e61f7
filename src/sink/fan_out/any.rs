//! Sinks of any type, so that one list can have them all.

use std::{future::Future, pin::Pin};

use evb_core::{alignment::Episode, event::Event, id::RunNumber, ledger::OwingChange};
use evb_file::ClosedFile;

use crate::sink::{RunFacts, Sink, SinkError, SinkSpace};

/// A step of a sink of any type.
pub(super) type Step<'a, T> = Pin<Box<dyn Future<Output = Result<T, SinkError>> + Send + 'a>>;

/// The methods of [`Sink`].
pub(super) trait AnySink: Send {
    fn prepare(&mut self) -> Step<'_, Option<RunNumber>>;
    fn begin<'a>(&'a mut self, run: &'a RunFacts) -> Step<'a, ()>;
    fn write<'a>(&'a mut self, event: &'a Event) -> Step<'a, ()>;
    fn commit(&mut self) -> Step<'_, ()>;
    fn note_episodes(&mut self, episodes: &[Episode]);
    fn note_changes(&mut self, changes: &[OwingChange]);
    fn space(&self) -> Option<SinkSpace>;
    fn take_closed(&mut self) -> Vec<ClosedFile>;
    fn close(&mut self) -> Step<'_, ()>;
}

impl<S: Sink> AnySink for S {
    fn prepare(&mut self) -> Step<'_, Option<RunNumber>> {
        Box::pin(Sink::prepare(self))
    }

    fn begin<'a>(&'a mut self, run: &'a RunFacts) -> Step<'a, ()> {
        Box::pin(Sink::begin(self, run))
    }

    fn write<'a>(&'a mut self, event: &'a Event) -> Step<'a, ()> {
        Box::pin(Sink::write(self, event))
    }

    fn commit(&mut self) -> Step<'_, ()> {
        Box::pin(Sink::commit(self))
    }

    fn note_episodes(&mut self, episodes: &[Episode]) {
        Sink::note_episodes(self, episodes);
    }

    fn note_changes(&mut self, changes: &[OwingChange]) {
        Sink::note_changes(self, changes);
    }

    fn space(&self) -> Option<SinkSpace> {
        Sink::space(self)
    }

    fn take_closed(&mut self) -> Vec<ClosedFile> {
        Sink::take_closed(self)
    }

    fn close(&mut self) -> Step<'_, ()> {
        Box::pin(Sink::close(self))
    }
}
