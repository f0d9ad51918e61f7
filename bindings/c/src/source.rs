//! [`evb_source`]: a readout computer's end of the event builder.

use std::{
    ffi::{c_char, c_void},
    mem::MaybeUninit,
    ptr, slice,
    sync::Arc,
};

use evb_rs::{
    Source,
    source::{SourceConfig, TryPushError},
};

use crate::{
    border,
    error::{Failure, evb_code, evb_error, evb_fault},
    handle::{self, Named},
    options::evb_source_options,
    outcome::evb_outcome,
    payload::{self, evb_fragment},
    readout::{Failures, OnDemand, evb_readout},
    structs, text,
    wait::{wait, wait_for},
};

/// A handle to a source: it keeps each fragment until the event's builder has asked for it and the
/// builder's sink has accepted the event. The source goes on to the end of its run, or until
/// `evb_source_abort`, even if the handle is freed.
pub struct evb_source {
    _opaque: [u8; 0],
}

/// A source in the table of handles.
pub(crate) struct OpenSource {
    source: Source,
    /// Largest payload of a fragment, in bytes.
    largest: u64,
    /// Failures of the readout callback, if the source has one.
    failures: Option<Arc<Failures>>,
}

impl Named for OpenSource {
    const NAME: &'static str = "source";
}

impl OpenSource {
    pub(crate) fn new(source: Source, largest: u64, failures: Option<Arc<Failures>>) -> Self {
        Self { source, largest, failures }
    }

    /// Pushes fragments in their order until one is refused, and returns the number of those that
    /// were taken.
    ///
    /// # Safety
    /// The payloads must be readable, and remain so until their `release`.
    unsafe fn push(&self, given: &[evb_fragment]) -> (usize, Result<(), Failure>) {
        /// Number of fragments that are pushed together; it limits the memory of a call.
        const TOGETHER: usize = 256;
        let mut taken = 0;
        for some in given.chunks(TOGETHER) {
            let mut fragments = Vec::with_capacity(some.len());
            let mut refused = Ok(());
            for one in some {
                // SAFETY: the caller vouches for the payloads.
                match unsafe { payload::fragment(one, self.largest) } {
                    Ok(fragment) => fragments.push(fragment),
                    Err(failure) => {
                        refused = Err(failure);
                        break;
                    }
                }
            }
            let count = fragments.len();
            let pushed = wait(self.source.push_many(&mut fragments));
            taken += count - fragments.len();
            payload::leave(fragments);
            if let Err(failure) = pushed.map_err(Failure::from).and(refused) {
                return (taken, Err(failure));
            }
        }
        (taken, Ok(()))
    }
}

/// Returns the source of a handle.
fn source_of(source: *const evb_source) -> Result<Arc<OpenSource>, Failure> {
    handle::get(source)
}

/// Registers at the supervisor and starts a source on a thread of its own; waits until the
/// supervisor has accepted the source, at most `start_timeout_ms`. The program pushes the
/// fragments. Thread safety: any thread, except in a readout, release or drop callback.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evb_source_connect(
    options: *const evb_source_options,
    source: Option<&mut MaybeUninit<*mut evb_source>>,
    error: Option<&mut MaybeUninit<evb_error>>,
) -> evb_code {
    border::enter("evb_source_connect", error, || {
        border::may_wait()?;
        let source = source.ok_or_else(|| Failure::null("source"))?;
        // SAFETY: the caller passes a valid struct with valid texts.
        let config = unsafe { config(options) }?;
        let largest = config.max_fragment.count();
        let connected = wait(Source::connect(config))?;
        source.write(handle::insert(OpenSource::new(connected, largest, None)));
        Ok(())
    })
}

/// Connects like `evb_source_connect`, with readout that makes each fragment when evb asks for it.
/// evb takes `readout->user` over, whatever the function returns, and calls `drop` exactly once.
/// Thread safety: any thread, except in a readout, release or drop callback.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evb_source_connect_on_demand(
    options: *const evb_source_options,
    readout: *const evb_readout,
    source: Option<&mut MaybeUninit<*mut evb_source>>,
    error: Option<&mut MaybeUninit<evb_error>>,
) -> evb_code {
    border::enter("evb_source_connect_on_demand", error, || {
        // SAFETY: the caller passes a valid struct with valid callbacks.
        let mut readout = unsafe { OnDemand::take(readout) }?;
        border::may_wait()?;
        let source = source.ok_or_else(|| Failure::null("source"))?;
        // SAFETY: the caller passes a valid struct with valid texts.
        let config = unsafe { config(options) }?;
        let largest = config.max_fragment.count();
        readout.limit(largest);
        let failures = Some(readout.failures());
        let connected = wait(Source::on_demand(config, readout))?;
        source.write(handle::insert(OpenSource::new(connected, largest, failures)));
        Ok(())
    })
}

/// # Safety
/// The pointer must be NULL, or lead to a struct of the stated size with valid texts.
unsafe fn config(options: *const evb_source_options) -> Result<SourceConfig, Failure> {
    // SAFETY: the caller vouches for struct and texts.
    unsafe { structs::read("options", options).and_then(|options| options.config()) }
}

/// Fills `event` with the first event that the source has a part in: 1 in a new run, a later one in
/// a run that was under way when the source joined. Thread safety: any thread.
#[unsafe(no_mangle)]
pub extern "C" fn evb_source_first_event(
    source: *const evb_source,
    event: Option<&mut MaybeUninit<u64>>,
    error: Option<&mut MaybeUninit<evb_error>>,
) -> evb_code {
    border::enter("evb_source_first_event", error, || {
        let event = event.ok_or_else(|| Failure::null("event"))?;
        event.write(source_of(source)?.source.first_event().number());
        Ok(())
    })
}

/// Copies a payload and pushes it as the fragment of `event`; waits while the backlog is full,
/// which is the back-pressure on readout. A fragment of an inhibited or closed event is no error:
/// evb drops and counts it. Returns EVB_ENDED when the run is over. Thread safety: any number of
/// threads may push into one source; not in a readout, release or drop callback.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evb_source_push(
    source: *mut evb_source,
    event: u64,
    timestamp: u64,
    data: *const c_void,
    size: usize,
    error: Option<&mut MaybeUninit<evb_error>>,
) -> evb_code {
    border::enter("evb_source_push", error, || {
        border::may_wait()?;
        let source = source_of(source)?;
        let fragment = evb_fragment { event, timestamp, data, size, release: None, owner: ptr::null_mut() };
        // SAFETY: the caller passes readable bytes, which are copied.
        unsafe { source.push(slice::from_ref(&fragment)) }.1
    })
}

/// Pushes a fragment like `evb_source_push`, without copying its payload: `release` must be set.
/// With EVB_OK, evb has taken the payload over, and calls `release` exactly once. Otherwise the
/// payload stays with the caller. Thread safety: any number of threads may push into one source;
/// not in a readout, release or drop callback.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evb_source_push_owned(
    source: *mut evb_source,
    fragment: Option<&evb_fragment>,
    error: Option<&mut MaybeUninit<evb_error>>,
) -> evb_code {
    border::enter("evb_source_push_owned", error, || {
        border::may_wait()?;
        let source = source_of(source)?;
        let fragment = fragment.ok_or_else(|| Failure::null("fragment"))?;
        if fragment.release.is_none() {
            let remedy = "set `release`, or copy the payload with evb_source_push";
            return Err(Failure::invalid("`fragment.release` is NULL", remedy));
        }
        // SAFETY: the caller passes a readable payload, and keeps it until `release`.
        unsafe { source.push(slice::from_ref(fragment)) }.1
    })
}

/// Pushes a fragment if the backlog has room at this moment, else returns EVB_FULL. With EVB_OK,
/// evb has taken the fragment over; otherwise it stays with the caller. Thread safety: any thread,
/// also in callbacks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evb_source_try_push(
    source: *mut evb_source,
    fragment: Option<&evb_fragment>,
    error: Option<&mut MaybeUninit<evb_error>>,
) -> evb_code {
    border::enter("evb_source_try_push", error, || {
        let source = source_of(source)?;
        let fragment = fragment.ok_or_else(|| Failure::null("fragment"))?;
        // SAFETY: the caller passes a readable payload, and keeps it until `release`.
        let fragment = unsafe { payload::fragment(fragment, source.largest) }?;
        source.source.try_push(fragment).map_err(|error| {
            let failure = match &error {
                TryPushError::Full(_) => {
                    let id = source.source.id();
                    let reason = format!(
                        "the backlog of source {id} is full, because builders take its fragments too slowly, so this one was not taken"
                    );
                    let remedy = "push the fragment again later, or wait with evb_source_push";
                    Failure::new(evb_code::EVB_FULL, evb_fault::EVB_FAULT_NONE, reason, remedy)
                }
                TryPushError::Refused { reason, .. } => Failure::from(*reason),
                _ => Failure::ended(),
            };
            payload::leave(error);
            failure
        })
    })
}

/// Pushes `count` fragments in their order, each copied or taken over as its `release` says; waits
/// while the backlog is full. Many small fragments cost much less than by single calls. Fills
/// `pushed`, which may be NULL, with the number of fragments that evb has taken over: the first
/// ones. After an error, the others stay with the caller, and the first of them is the cause.
/// Thread safety: any number of threads may push into one source; not in a readout, release or drop
/// callback.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evb_source_push_many(
    source: *mut evb_source,
    fragments: *const evb_fragment,
    count: usize,
    pushed: Option<&mut MaybeUninit<usize>>,
    error: Option<&mut MaybeUninit<evb_error>>,
) -> evb_code {
    let mut taken = 0;
    let code = border::enter("evb_source_push_many", error, || {
        border::may_wait()?;
        let source = source_of(source)?;
        if count == 0 {
            return Ok(());
        }
        if fragments.is_null() || !fragments.is_aligned() {
            return Err(Failure::invalid("`fragments` is NULL or not aligned", "pass a valid pointer"));
        }
        let bytes = count.checked_mul(size_of::<evb_fragment>());
        let end = bytes.filter(|bytes| isize::try_from(*bytes).is_ok());
        if end.and_then(|bytes| fragments.addr().checked_add(bytes)).is_none() {
            let reason = format!("`count` is {count}, more fragments than memory can hold");
            return Err(Failure::invalid(reason, "pass the number of fragments at `fragments`"));
        }
        // SAFETY: the array has a possible size, and the caller vouches for its fragments.
        let (count, result) = unsafe { source.push(slice::from_raw_parts(fragments, count)) };
        taken = count;
        result
    });
    if let Some(pushed) = pushed {
        pushed.write(taken);
    }
    code
}

/// Asks the supervisor to end the run: it takes no more triggers, and every event under way is
/// built or named in the ledger. `cause` is a text for the log. Thread safety: any thread, also in
/// callbacks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evb_source_request_run_end(
    source: *mut evb_source,
    cause: *const c_char,
    error: Option<&mut MaybeUninit<evb_error>>,
) -> evb_code {
    border::enter("evb_source_request_run_end", error, || {
        // SAFETY: the caller passes a valid text.
        let cause = unsafe { text::required("cause", cause) }?;
        source_of(source)?.source.request_run_end(cause);
        Ok(())
    })
}

/// Waits until the run is over, at most `timeout_ms` milliseconds or EVB_FOREVER, and fills
/// `outcome`, which may be NULL. Thread safety: any number of threads may wait; not in a callback.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evb_source_finished(
    source: *const evb_source,
    timeout_ms: u64,
    outcome: *mut evb_outcome,
    error: Option<&mut MaybeUninit<evb_error>>,
) -> evb_code {
    border::enter("evb_source_finished", error, || {
        border::may_wait_for_end()?;
        // SAFETY: the caller passes NULL or a struct with its size.
        unsafe { structs::check("outcome", outcome) }?;
        let source = source_of(source)?;
        let ended =
            wait_for(source.source.finished(), timeout_ms)?.map_err(|error| Failure::from(&*error))?;
        // SAFETY: as above.
        unsafe { structs::write("outcome", outcome, &evb_outcome::from(&ended)) }?;
        source.failures.as_ref().map_or(Ok(()), |failures| failures.check(source.source.id()))
    })
}

/// Ends the source at once, as if its process were killed: events that lack its fragments are
/// incomplete. Calls that wait return EVB_ENDED or EVB_ABORTED. A readout callback that runs is not
/// interrupted: the source ends when it returns. Thread safety: any thread, also in callbacks.
#[unsafe(no_mangle)]
pub extern "C" fn evb_source_abort(
    source: *mut evb_source,
    error: Option<&mut MaybeUninit<evb_error>>,
) -> evb_code {
    border::enter("evb_source_abort", error, || {
        source_of(source)?.source.abort();
        Ok(())
    })
}

/// Frees a handle; the source goes on. Thread safety: any thread. Calls with the same handle on
/// other threads end as they would without this call.
#[unsafe(no_mangle)]
pub extern "C" fn evb_source_free(
    source: *mut evb_source,
    error: Option<&mut MaybeUninit<evb_error>>,
) -> evb_code {
    border::enter("evb_source_free", error, || handle::free::<_, OpenSource>(source))
}
