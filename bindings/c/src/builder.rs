//! [`evb_builder`]: collects the fragments of its events and hands the events to a sink.

use std::{ffi::c_char, mem::MaybeUninit, sync::Arc};

use evb_rs::Builder;

use crate::{
    border,
    error::{Failure, evb_code, evb_error},
    handle::{self, Named},
    options::evb_builder_options,
    outcome::evb_outcome,
    sink::{self, evb_sink},
    structs, text,
    wait::{wait, wait_for},
};

/// A handle to a builder. The builder goes on to the end of its run, or until `evb_builder_abort`,
/// even if the handle is freed.
pub struct evb_builder {
    _opaque: [u8; 0],
}

/// A builder in the table of handles.
struct OpenBuilder(Builder);

impl Named for OpenBuilder {
    const NAME: &'static str = "builder";
}

/// Returns the builder of a handle.
fn builder_of(builder: *const evb_builder) -> Result<Arc<OpenBuilder>, Failure> {
    handle::get(builder)
}

/// Listens for sources, registers at the supervisor, and builds every event into `sink`, on threads
/// of its own; waits until the supervisor has accepted the builder, at most `start_timeout_ms`. The
/// handle `sink` is used up, whatever the function returns. Thread safety: any thread, except in a
/// readout, release or drop callback.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evb_builder_connect(
    options: *const evb_builder_options,
    sink: *mut evb_sink,
    builder: Option<&mut MaybeUninit<*mut evb_builder>>,
    error: Option<&mut MaybeUninit<evb_error>>,
) -> evb_code {
    border::enter("evb_builder_connect", error, || {
        let sink = sink::take(sink)?;
        border::may_wait()?;
        let builder = builder.ok_or_else(|| Failure::null("builder"))?;
        // SAFETY: the caller passes a valid struct with valid texts.
        let config = unsafe { structs::read("options", options).and_then(|options| options.config()) }?;
        let connected = wait(Builder::connect(config, sink))?;
        builder.write(handle::insert(OpenBuilder(connected)));
        Ok(())
    })
}

/// Fills `address` with the address at which the builder listens, such as "127.0.0.1:40123", cut
/// off at `size` bytes with the NUL. Thread safety: any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evb_builder_address(
    builder: *const evb_builder,
    address: *mut c_char,
    size: usize,
    error: Option<&mut MaybeUninit<evb_error>>,
) -> evb_code {
    border::enter("evb_builder_address", error, || {
        let text = builder_of(builder)?.0.address().to_string();
        // SAFETY: the caller passes `size` writable bytes.
        unsafe { text::copy("address", &text, address, size) }
    })
}

/// Asks the supervisor to end the run: it takes no more triggers, and every event under way is
/// built or named in the ledger. `cause` is a text for the log. Thread safety: any thread, also in
/// callbacks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evb_builder_request_run_end(
    builder: *mut evb_builder,
    cause: *const c_char,
    error: Option<&mut MaybeUninit<evb_error>>,
) -> evb_code {
    border::enter("evb_builder_request_run_end", error, || {
        // SAFETY: the caller passes a valid text.
        let cause = unsafe { text::required("cause", cause) }?;
        builder_of(builder)?.0.request_run_end(cause);
        Ok(())
    })
}

/// Waits until the run is over, at most `timeout_ms` milliseconds or EVB_FOREVER, and fills
/// `outcome`, which may be NULL. Then the sink has accepted every event, or the ledger names it.
/// Thread safety: any number of threads may wait; not in a callback.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evb_builder_finished(
    builder: *const evb_builder,
    timeout_ms: u64,
    outcome: *mut evb_outcome,
    error: Option<&mut MaybeUninit<evb_error>>,
) -> evb_code {
    border::enter("evb_builder_finished", error, || {
        border::may_wait_for_end()?;
        // SAFETY: the caller passes NULL or a struct with its size.
        unsafe { structs::check("outcome", outcome) }?;
        let builder = builder_of(builder)?;
        let ended = wait_for(builder.0.finished(), timeout_ms)?.map_err(|error| Failure::from(&*error))?;
        // SAFETY: as above.
        unsafe { structs::write("outcome", outcome, &evb_outcome::from(&ended)) }
    })
}

/// Ends the builder at once, as if its process were killed. Events that its sink has not accepted
/// go to other builders. A sink callback that runs is not interrupted. Thread safety: any thread,
/// also in callbacks.
#[unsafe(no_mangle)]
pub extern "C" fn evb_builder_abort(
    builder: *mut evb_builder,
    error: Option<&mut MaybeUninit<evb_error>>,
) -> evb_code {
    border::enter("evb_builder_abort", error, || {
        builder_of(builder)?.0.abort();
        Ok(())
    })
}

/// Frees a handle; the builder goes on. Thread safety: any thread. Calls with the same handle on
/// other threads end as they would without this call.
#[unsafe(no_mangle)]
pub extern "C" fn evb_builder_free(
    builder: *mut evb_builder,
    error: Option<&mut MaybeUninit<evb_error>>,
) -> evb_code {
    border::enter("evb_builder_free", error, || handle::free::<_, OpenBuilder>(builder))
}
