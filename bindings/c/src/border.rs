//! The border between C and Rust: no panic crosses it, a forked child gets an error, and functions
//! that wait are refused where they could wait for ever.

mod process;

use std::{
    any::Any,
    cell::Cell,
    panic::{self, AssertUnwindSafe},
};

use crate::error::{ErrorOut, Failure, evb_code, evb_fault, report};

/// The callback of the program that runs on a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Callback {
    /// Readout on demand, on the thread of the source.
    Readout,
    /// A sink, on the sink's thread.
    Sink,
    /// The release of memory, on any thread.
    Release,
}

thread_local! {
    static RUNNING: Cell<Option<Callback>> = const { Cell::new(None) };
}

/// Runs the body of an exported function that can fail, and fills the caller's error.
pub(crate) fn enter(
    name: &'static str,
    error: ErrorOut<'_>,
    body: impl FnOnce() -> Result<(), Failure>,
) -> evb_code {
    let result = guarded(name, || process::check().and_then(|()| body()));
    // A panic while the error is written must not cross the border either.
    panic::catch_unwind(AssertUnwindSafe(|| {
        report(result.flatten().map_err(|failure| failure.in_call(name)), error)
    }))
    .unwrap_or(evb_code::EVB_INTERNAL)
}

/// Runs the body of an exported function that returns a value; returns `otherwise` after a panic,
/// and in a forked child.
pub(crate) fn enter_or<T: Copy>(name: &'static str, otherwise: T, body: impl FnOnce() -> T) -> T {
    guarded(name, || process::check().map_or(otherwise, |()| body())).unwrap_or(otherwise)
}

/// Runs a body, and turns its panic into an error.
fn guarded<T>(name: &'static str, body: impl FnOnce() -> T) -> Result<T, Failure> {
    let body = || {
        #[cfg(feature = "provoke")]
        provoke::panic_if_asked(name);
        body()
    };
    panic::catch_unwind(AssertUnwindSafe(body)).map_err(|panic| {
        let reason = format!("{name} was broken off by a defect of evb: {}", words(&*panic));
        let remedy = "send this text to the authors of evb (the program can still use and free its handles)";
        Failure::new(evb_code::EVB_INTERNAL, evb_fault::EVB_FAULT_EVB, reason, remedy)
    })
}

fn words(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no text")
}

/// Runs a callback of the program, and notes meanwhile that one runs.
pub(crate) fn call<T>(callback: Callback, body: impl FnOnce() -> T) -> T {
    struct Back(Option<Callback>);
    impl Drop for Back {
        fn drop(&mut self) {
            RUNNING.set(self.0);
        }
    }
    let _back = Back(RUNNING.replace(Some(callback)));
    body()
}

/// Refuses a function that waits, if a callback runs that evb itself waits for.
pub(crate) fn may_wait() -> Result<(), Failure> {
    match RUNNING.get() {
        None | Some(Callback::Sink) => Ok(()),
        Some(callback) => Err(waits_in(callback)),
    }
}

/// Refuses a function that waits for the end of a run, if any callback runs: the run waits for the
/// callback.
pub(crate) fn may_wait_for_end() -> Result<(), Failure> {
    RUNNING.get().map_or(Ok(()), |callback| Err(waits_in(callback)))
}

fn waits_in(callback: Callback) -> Failure {
    let reason = match callback {
        Callback::Readout => {
            "the readout callback made this call, which would wait for evb while evb waits for the callback"
        }
        Callback::Sink => {
            "a sink callback made this call, which would wait for the end of the run while the run waits for the callback"
        }
        Callback::Release => {
            "a release or drop callback made this call, which would wait for evb while evb waits for the callback"
        }
    };
    let remedy = "make this call on another thread of the program, outside of callbacks";
    Failure::new(evb_code::EVB_CALLBACK, evb_fault::EVB_FAULT_CALLER, reason, remedy)
}

#[cfg(feature = "provoke")]
mod provoke {
    //! Panics on request, so that tests see each entry turn one into an error.

    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    static ASKED: AtomicBool = AtomicBool::new(false);

    /// Makes each following call of another function panic, or no longer.
    #[unsafe(no_mangle)]
    pub extern "C" fn evb_provoke(on: bool) {
        ASKED.store(on, Relaxed);
    }

    pub(super) fn panic_if_asked(name: &str) {
        assert!(!ASKED.load(Relaxed), "provoked in {name}");
    }
}
