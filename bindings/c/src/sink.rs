//! [`evb_sink`]: the destination of a builder's events: the program's callbacks, event files, or
//! nothing.

mod callbacks;

use std::{
    ffi::c_char,
    mem::MaybeUninit,
    path::PathBuf,
    sync::{Mutex, PoisonError},
};

use evb_rs::{
    event::Event,
    file::{Episode, FsyncPolicy, OwingChange, WriterOptions},
    id::RunNumber,
    sink::{FileSink, RunFacts, Sink, SinkError, SinkSpace},
    units::Bytes,
};

use crate::{
    border,
    error::{Failure, evb_code, evb_error},
    handle::{self, Named},
    structs::{self, Sized0},
    text,
};

pub(crate) use callbacks::Reason;
use callbacks::{CallbackSink, evb_sink_callbacks};

/// A sink that no builder has yet.
pub struct evb_sink {
    _opaque: [u8; 0],
}

/// Settings of event files. Set all fields to zero, then `struct_size` and `directory`, then what
/// differs from the defaults.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct evb_file_options {
    /// Size of the struct.
    pub struct_size: usize,
    /// Directory of the files, which evb creates if necessary.
    pub directory: *const c_char,
    /// Largest size of a file in bytes; 0: 2 GiB.
    pub rotate_at: u64,
    /// 0: accepted events survive a killed process; 1: they survive a power cut, because each
    /// commit waits for the disk.
    pub fsync: u32,
    /// Must be 0.
    pub reserved: u32,
}

// SAFETY: null pointers and numbers may be zero, and the first field is the size.
unsafe impl Sized0 for evb_file_options {}

/// The sinks that a program can choose.
pub(crate) enum AnySink {
    Callbacks(CallbackSink),
    Files(Box<FileSink>),
    Null,
}

/// A sink in the table of handles, until a builder takes it.
struct Waiting(Mutex<Option<AnySink>>);

impl Named for Waiting {
    const NAME: &'static str = "sink";
}

impl Sink for AnySink {
    async fn prepare(&mut self) -> Result<Option<RunNumber>, SinkError> {
        match self {
            Self::Files(sink) => sink.prepare().await,
            Self::Callbacks(_) | Self::Null => Ok(None),
        }
    }

    async fn begin(&mut self, run: &RunFacts) -> Result<(), SinkError> {
        match self {
            Self::Callbacks(sink) => sink.begin(run),
            Self::Files(sink) => sink.begin(run).await,
            Self::Null => Ok(()),
        }
    }

    async fn write(&mut self, event: &Event) -> Result<(), SinkError> {
        match self {
            Self::Callbacks(sink) => sink.write(event),
            Self::Files(sink) => sink.write(event).await,
            Self::Null => Ok(()),
        }
    }

    async fn commit(&mut self) -> Result<(), SinkError> {
        match self {
            Self::Callbacks(sink) => sink.commit(),
            Self::Files(sink) => sink.commit().await,
            Self::Null => Ok(()),
        }
    }

    fn note_episodes(&mut self, episodes: &[Episode]) {
        if let Self::Files(sink) = self {
            sink.note_episodes(episodes);
        }
    }

    fn note_changes(&mut self, changes: &[OwingChange]) {
        if let Self::Files(sink) = self {
            sink.note_changes(changes);
        }
    }

    fn space(&self) -> Option<SinkSpace> {
        match self {
            Self::Callbacks(_) | Self::Null => None,
            Self::Files(sink) => sink.space(),
        }
    }

    async fn close(&mut self) -> Result<(), SinkError> {
        match self {
            Self::Callbacks(sink) => sink.close(),
            Self::Files(sink) => sink.close().await,
            Self::Null => Ok(()),
        }
    }
}

/// Takes a sink out of the table, so that its handle is used up.
pub(crate) fn take(sink: *mut evb_sink) -> Result<AnySink, Failure> {
    let waiting = handle::remove::<_, Waiting>(sink)?;
    let taken = waiting.0.lock().unwrap_or_else(PoisonError::into_inner).take();
    taken.ok_or_else(|| {
        Failure::invalid("the sink is already that of another builder", "create a sink for each builder")
    })
}

/// Enters a sink into the table.
fn create(
    name: &'static str,
    sink: Option<&mut MaybeUninit<*mut evb_sink>>,
    error: Option<&mut MaybeUninit<evb_error>>,
    make: impl FnOnce() -> Result<AnySink, Failure>,
) -> evb_code {
    border::enter(name, error, || {
        let sink = sink.ok_or_else(|| Failure::null("sink"))?;
        sink.write(handle::insert(Waiting(Mutex::new(Some(make()?)))));
        Ok(())
    })
}

/// Creates a sink that calls the program with each event. With EVB_OK, evb has taken `user` over,
/// and calls `drop` exactly once. Thread safety: any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evb_sink_create(
    callbacks: *const evb_sink_callbacks,
    sink: Option<&mut MaybeUninit<*mut evb_sink>>,
    error: Option<&mut MaybeUninit<evb_error>>,
) -> evb_code {
    create("evb_sink_create", sink, error, || {
        // SAFETY: the caller passes a valid struct.
        let callbacks = unsafe { structs::read("callbacks", callbacks) }?;
        Ok(AnySink::Callbacks(CallbackSink::new(callbacks)?))
    })
}

/// Creates a sink that writes event files, which `evb_file.hpp`, `evbd` and Python read. Thread
/// safety: any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evb_sink_create_files(
    options: *const evb_file_options,
    sink: Option<&mut MaybeUninit<*mut evb_sink>>,
    error: Option<&mut MaybeUninit<evb_error>>,
) -> evb_code {
    create("evb_sink_create_files", sink, error, || {
        // SAFETY: the caller passes a valid struct and a valid text.
        let (options, directory) = unsafe {
            let options = structs::read("options", options)?;
            (options, PathBuf::from(text::required("options.directory", options.directory)?))
        };
        let mut writer = WriterOptions::default();
        if options.rotate_at != 0 {
            writer.rotate_at = Bytes::new(options.rotate_at);
        }
        writer.fsync = match (options.fsync, options.reserved) {
            (0, 0) => FsyncPolicy::None,
            (1, 0) => FsyncPolicy::Commit,
            (other, 0) => {
                return Err(Failure::invalid(format!("`options.fsync` is {other}"), "set it to 0 or 1"));
            }
            _ => {
                return Err(Failure::invalid("`options.reserved` is not 0", structs::CLEAR_FIRST));
            }
        };
        Ok(AnySink::Files(Box::new(FileSink::new(directory, writer))))
    })
}

/// Creates a sink that accepts every event and keeps none. Thread safety: any thread.
#[unsafe(no_mangle)]
pub extern "C" fn evb_sink_create_null(
    sink: Option<&mut MaybeUninit<*mut evb_sink>>,
    error: Option<&mut MaybeUninit<evb_error>>,
) -> evb_code {
    create("evb_sink_create_null", sink, error, || Ok(AnySink::Null))
}

/// Frees a sink that no builder has taken. Thread safety: any thread.
#[unsafe(no_mangle)]
pub extern "C" fn evb_sink_free(sink: *mut evb_sink, error: Option<&mut MaybeUninit<evb_error>>) -> evb_code {
    border::enter("evb_sink_free", error, || handle::free::<_, Waiting>(sink))
}
