//! [`evb_error`]: the reason for which a function failed, whose fault it is, and what to do.

use std::{ffi::c_char, mem::MaybeUninit};

use crate::text;

/// Size of `evb_error.reason` in bytes, with the NUL at its end.
pub const EVB_REASON_SIZE: usize = 768;

/// Size of `evb_error.remedy` in bytes, with the NUL at its end.
pub const EVB_REMEDY_SIZE: usize = 248;

/// Result of a function.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum evb_code {
    /// The function has done its work.
    EVB_OK = 0,
    /// The backlog of the source has no room at this moment.
    EVB_FULL = 1,
    /// The run is over, or the source has failed: `evb_source_finished` says which.
    EVB_ENDED = 2,
    /// The time limit of a wait has passed.
    EVB_TIMED_OUT = 3,
    /// An argument is wrong: a null pointer, a length, or a field of a struct.
    EVB_INVALID = 4,
    /// A handle has been freed already, or it is of another kind.
    EVB_HANDLE = 5,
    /// The source refuses a fragment.
    EVB_REFUSED = 6,
    /// The supervisor cannot be reached, or it refuses this source or builder.
    EVB_JOIN = 7,
    /// The address to listen on cannot be used.
    EVB_LISTEN = 8,
    /// A peer broke the protocol.
    EVB_PROTOCOL = 9,
    /// The connection to the supervisor is lost, and no new one could be opened in time.
    EVB_LOST = 10,
    /// The sink could not begin, or it is gone.
    EVB_SINK = 11,
    /// The readout callback failed for some events.
    EVB_READOUT = 12,
    /// A builder needs more memory than it may use.
    EVB_MEMORY = 13,
    /// The key file cannot be used.
    EVB_KEY = 14,
    /// The plan of a run is contradictory.
    EVB_PLAN = 15,
    /// The library was built without that ability.
    EVB_UNSUPPORTED = 16,
    /// The operating system refused something.
    EVB_SYSTEM = 17,
    /// The program aborted the source, the builder or the run.
    EVB_ABORTED = 18,
    /// The process is a child that was forked after evb had been used.
    EVB_FORKED = 19,
    /// A function that waits was called in a callback, where it could wait for ever.
    EVB_CALLBACK = 20,
    /// A defect of evb. The handle can still be used and freed.
    EVB_INTERNAL = 21,
}

/// Side whose fault an error is.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum evb_fault {
    /// There is no error.
    EVB_FAULT_NONE = 0,
    /// A program at the other end of a connection.
    EVB_FAULT_PEER = 1,
    /// The program that called the function.
    EVB_FAULT_CALLER = 2,
    /// The person who configured the system.
    EVB_FAULT_OPERATOR = 3,
    /// The operating system or the machine.
    EVB_FAULT_SYSTEM = 4,
    /// evb itself.
    EVB_FAULT_EVB = 5,
}

/// Description of an error. The memory belongs to the caller, and evb keeps no pointer to it, so
/// each thread can have its own. Long texts are cut off.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct evb_error {
    /// The code that the function returned.
    pub code: evb_code,
    /// The side whose fault the error is.
    pub fault: evb_fault,
    /// The reason, as a sentence in English; empty if there is no error.
    pub reason: [c_char; EVB_REASON_SIZE],
    /// The action that helps, as a sentence in English; empty if there is no error.
    pub remedy: [c_char; EVB_REMEDY_SIZE],
}

/// Place for an error, which the caller may leave out.
pub(crate) type ErrorOut<'a> = Option<&'a mut MaybeUninit<evb_error>>;

/// An error on the Rust side of the border.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: evb_code,
    pub(crate) fault: evb_fault,
    pub(crate) reason: String,
    pub(crate) remedy: &'static str,
}

impl Failure {
    pub(crate) fn new(
        code: evb_code,
        fault: evb_fault,
        reason: impl Into<String>,
        remedy: &'static str,
    ) -> Self {
        Self { code, fault, reason: reason.into(), remedy }
    }

    /// Returns the error of a caller who passed a wrong argument.
    pub(crate) fn invalid(reason: impl Into<String>, remedy: &'static str) -> Self {
        Self::new(evb_code::EVB_INVALID, evb_fault::EVB_FAULT_CALLER, reason, remedy)
    }

    /// Returns the error with the name of the called function, if the error is of the call.
    pub(crate) fn in_call(mut self, name: &str) -> Self {
        use evb_code::{EVB_CALLBACK, EVB_ENDED, EVB_FORKED, EVB_HANDLE, EVB_INVALID, EVB_TIMED_OUT};
        let is_of_call = matches!(
            self.code,
            EVB_CALLBACK | EVB_ENDED | EVB_FORKED | EVB_HANDLE | EVB_INVALID | EVB_TIMED_OUT
        );
        if is_of_call {
            self.reason = format!("{name}: {}", self.reason);
        }
        self
    }

    /// Returns the error of a caller who passed NULL for this argument.
    pub(crate) fn null(argument: &str) -> Self {
        Self::invalid(format!("`{argument}` is NULL"), "pass a valid pointer")
    }
}

/// Fills the caller's error, if there is one, and returns the code.
pub(crate) fn report(result: Result<(), Failure>, error: ErrorOut<'_>) -> evb_code {
    let code = result.as_ref().err().map_or(evb_code::EVB_OK, |failure| failure.code);
    let Some(error) = error else { return code };
    let error = error.as_mut_ptr();
    let (fault, reason, remedy) = match &result {
        Ok(()) => (evb_fault::EVB_FAULT_NONE, "", ""),
        Err(failure) => (failure.fault, failure.reason.as_str(), failure.remedy),
    };
    // SAFETY: the pointer comes from a unique reference to a whole `evb_error`, and each field is
    // written without reading it.
    unsafe {
        (&raw mut (*error).code).write(code);
        (&raw mut (*error).fault).write(fault);
        text::write(&raw mut (*error).reason, reason);
        text::write(&raw mut (*error).remedy, remedy);
    }
    code
}
