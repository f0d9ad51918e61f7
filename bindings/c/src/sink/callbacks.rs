//! [`evb_sink_callbacks`]: a sink that consists of the program's functions.

use std::ffi::{c_char, c_void};

use evb_rs::{
    event::Event,
    sink::{RunFacts, SinkError},
};

use crate::{
    border::{self, Callback},
    error::Failure,
    event::{self, evb_event},
    structs::Sized0,
    text,
};

/// Size of the array into which a callback may write its reason, in bytes, with the NUL at its end.
pub const EVB_CALLBACK_REASON_SIZE: usize = 256;

/// Answer of a sink callback.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum evb_sink_answer {
    /// The call has done its work.
    EVB_SINK_OK = 0,
    /// The sink will not accept the event later either. As the answer of `write`, this event is
    /// lost; of `commit`, all events since the last commit; of `begin`, the builder ends. The
    /// ledger names lost events with `reason`.
    EVB_SINK_LOST = 1,
    /// The sink may accept the events later. The builder holds all events since the last commit and
    /// offers them again; meanwhile, they occupy slots.
    EVB_SINK_PASSING = 2,
}

const OK: u32 = evb_sink_answer::EVB_SINK_OK as u32;
const LOST: u32 = evb_sink_answer::EVB_SINK_LOST as u32;
const PASSING: u32 = evb_sink_answer::EVB_SINK_PASSING as u32;

/// Facts about a run, for a sink. Valid during the callback.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct evb_run {
    /// The run's epoch.
    pub epoch: u64,
    /// Ids of the run's sources, ascending.
    pub sources: *const u16,
    /// Number of sources.
    pub source_count: usize,
    /// The run's number.
    pub run: u32,
    /// Id of the builder that has the sink.
    pub builder: u16,
}

/// A sink made of callbacks. evb calls them on the sink's own thread, one at a time, so they may
/// wait for a disk. Each returns an `evb_sink_answer`, and may write a reason of up to
/// EVB_CALLBACK_REASON_SIZE bytes for an answer other than EVB_SINK_OK. All but `write` may be
/// NULL.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct evb_sink_callbacks {
    /// Size of the struct.
    pub struct_size: usize,
    /// First argument of the callbacks. It must be usable on other threads.
    pub user: *mut c_void,
    /// Begins a run.
    pub begin: Option<
        unsafe extern "C-unwind" fn(user: *mut c_void, run: *const evb_run, reason: *mut c_char) -> u32,
    >,
    /// Takes one event, which is valid until the callback returns (see `evb_event_keep`).
    pub write: Option<
        unsafe extern "C-unwind" fn(user: *mut c_void, event: *const evb_event, reason: *mut c_char) -> u32,
    >,
    /// Makes all events since the last commit safe. Events are accepted when it has returned
    /// EVB_SINK_OK: only then do the sources forget their fragments.
    pub commit: Option<unsafe extern "C-unwind" fn(user: *mut c_void, reason: *mut c_char) -> u32>,
    /// Closes the sink after the run.
    pub close: Option<unsafe extern "C-unwind" fn(user: *mut c_void, reason: *mut c_char) -> u32>,
    /// Frees `user`. Called exactly once, on any thread, after the last call of the others.
    pub drop: Option<unsafe extern "C-unwind" fn(user: *mut c_void)>,
}

// SAFETY: null pointers may be zero, and the first field is the size.
unsafe impl Sized0 for evb_sink_callbacks {}

/// The array into which a callback writes its reason.
pub(crate) struct Reason([c_char; EVB_CALLBACK_REASON_SIZE]);

impl Default for Reason {
    fn default() -> Self {
        Self([0; EVB_CALLBACK_REASON_SIZE])
    }
}

impl Reason {
    pub(crate) fn as_mut_ptr(&mut self) -> *mut c_char {
        self.0.as_mut_ptr()
    }

    pub(crate) fn bytes(&self) -> [u8; EVB_CALLBACK_REASON_SIZE] {
        self.0.map(|byte| byte as u8)
    }
}

/// Calls the sink callbacks of a program.
pub(crate) struct CallbackSink(evb_sink_callbacks);

// SAFETY: the program permits evb to call the callbacks with `user` on another thread.
unsafe impl Send for CallbackSink {}

impl CallbackSink {
    pub(crate) fn new(callbacks: evb_sink_callbacks) -> Result<Self, Failure> {
        if callbacks.write.is_none() {
            return Err(Failure::null("callbacks.write"));
        }
        Ok(Self(callbacks))
    }

    pub(crate) fn begin(&self, run: &RunFacts) -> Result<(), SinkError> {
        let Some(begin) = self.0.begin else { return Ok(()) };
        let sources: Vec<u16> = run.sources.iter().map(|source| source.number()).collect();
        let facts = evb_run {
            epoch: run.epoch.number(),
            sources: sources.as_ptr(),
            source_count: sources.len(),
            run: run.run.number(),
            builder: run.builder.number(),
        };
        // SAFETY: the program passed this callback for this `user`; the other pointers are valid.
        self.call("begin", |user, reason| unsafe { begin(user, &raw const facts, reason) })
    }

    pub(crate) fn write(&self, event: &Event) -> Result<(), SinkError> {
        let Some(write) = self.0.write else { return Ok(()) };
        let lent = event::Lent::new(event);
        // SAFETY: the program passed this callback for this `user`; the other pointers are valid.
        self.call("write", |user, reason| unsafe { write(user, lent.as_event(), reason) })
    }

    pub(crate) fn commit(&self) -> Result<(), SinkError> {
        let Some(commit) = self.0.commit else { return Ok(()) };
        // SAFETY: the program passed this callback for this `user`; the other pointer is valid.
        self.call("commit", |user, reason| unsafe { commit(user, reason) })
    }

    pub(crate) fn close(&self) -> Result<(), SinkError> {
        let Some(close) = self.0.close else { return Ok(()) };
        // SAFETY: the program passed this callback for this `user`; the other pointer is valid.
        self.call("close", |user, reason| unsafe { close(user, reason) })
    }

    /// Makes a call, and translates the answer.
    fn call(
        &self,
        name: &str,
        callback: impl FnOnce(*mut c_void, *mut c_char) -> u32,
    ) -> Result<(), SinkError> {
        let mut reason = Reason::default();
        let answer = border::call(Callback::Sink, || callback(self.0.user, reason.as_mut_ptr()));
        let given = text::written(&reason.bytes());
        let said = || {
            if given.is_empty() {
                format!(
                    "the sink's callback `{name}` failed, and wrote no reason: look at the output of the program that this builder runs in"
                )
            } else {
                given
            }
        };
        match answer {
            OK => Ok(()),
            LOST => Err(SinkError::lost(said())),
            PASSING => Err(SinkError::passing(said())),
            other => Err(SinkError::lost(format!(
                "the sink's callback {name} returned {other}, which is no evb_sink_answer; return EVB_SINK_OK, EVB_SINK_LOST or EVB_SINK_PASSING"
            ))),
        }
    }
}

impl Drop for CallbackSink {
    fn drop(&mut self) {
        if let Some(drop) = self.0.drop {
            // SAFETY: the program passed this callback for this `user`, and this runs once.
            border::call(Callback::Release, || unsafe { drop(self.0.user) });
        }
    }
}
