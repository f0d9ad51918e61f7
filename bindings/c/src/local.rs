//! [`evb_local`]: sources, builders and a supervisor in one process, for tests, examples and
//! readout on a single computer.

use std::{collections::VecDeque, ffi::c_char, mem::MaybeUninit, slice, sync::Arc};

use evb_rs::{
    LocalSystem,
    id::SourceId,
    local::{LocalError, LocalRun},
    supervisor::TriggerKind,
    units::Bytes,
};

use crate::{
    border,
    error::{Failure, evb_code, evb_error},
    handle::{self, Named},
    options,
    outcome::evb_ledger,
    readout::{Failures, OnDemand, evb_readout},
    sink::{self, AnySink, evb_sink},
    source::{OpenSource, evb_source},
    structs::{self, Sized0},
    text,
    wait::{wait, wait_for},
};

/// A handle to a system in this process. The run goes on to its end, or until `evb_local_abort`,
/// even if the handle is freed.
pub struct evb_local {
    _opaque: [u8; 0],
}

/// Kind of trigger of a system in this process.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum evb_trigger {
    /// Events whenever builders have free slots.
    EVB_TRIGGER_AS_FAST_AS_POSSIBLE = 0,
    /// Events when the program calls `evb_local_trigger`.
    EVB_TRIGGER_EXTERNAL = 1,
}

/// Settings of a system in this process. Set all fields to zero, then `struct_size`, `sources` and
/// `builders`, then what differs from the defaults.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct evb_local_options {
    /// Size of the struct.
    pub struct_size: usize,
    /// Number of events after which the run ends; 0: it ends when the program asks for it.
    pub events: u64,
    /// Usual size of a fragment in bytes, from which the number of slots follows; 0: unknown.
    pub fragment_size: u64,
    /// Largest payload of a fragment in bytes; 0: 4 MiB.
    pub max_fragment: u64,
    /// Payload bytes that may wait for the decisions about their events; 0: 256 MiB.
    pub backlog: u64,
    /// Number of sources; their ids are 1, 2, …
    pub sources: u32,
    /// Number of builders; their ids are 1, 2, …
    pub builders: u32,
    /// Kind of trigger, an `evb_trigger`.
    pub trigger: u32,
    /// Transport of the lanes, an `evb_transport`.
    pub transport: u32,
}

// SAFETY: numbers may be zero, and the first field is the size.
unsafe impl Sized0 for evb_local_options {}

/// A system in the table of handles.
struct OpenLocal {
    run: LocalRun,
    /// Largest payload of a fragment, in bytes.
    largest: u64,
    /// Failures of the readout callbacks, in the order of the source ids; empty without callbacks.
    failures: Vec<Arc<Failures>>,
}

impl Named for OpenLocal {
    const NAME: &'static str = "local";
}

/// The largest payload of a fragment by default, in bytes.
const MAX_FRAGMENT: u64 = 4 << 20;

impl evb_local_options {
    /// Returns the system that these options describe.
    fn system(&self) -> Result<LocalSystem, Failure> {
        let count = |name: &str, number: u32| {
            let fault = |_| Failure::invalid(format!("`options.{name}` is {number}"), "use at most 65535");
            u16::try_from(number).map_err(fault)
        };
        let mut system = LocalSystem::new(count("sources", self.sources)?, count("builders", self.builders)?)
            .transport(options::transport(self.transport)?)
            .trigger(self.trigger()?)
            .with_sources(|config| {
                config.max_fragment = Bytes::new(self.largest());
                if self.backlog != 0 {
                    config.backlog = Bytes::new(self.backlog);
                }
            });
        if self.events != 0 {
            system = system.events(self.events);
        }
        if self.fragment_size != 0 {
            system = system.fragments_of(Bytes::new(self.fragment_size));
        }
        Ok(system)
    }

    fn largest(&self) -> u64 {
        if self.max_fragment == 0 { MAX_FRAGMENT } else { self.max_fragment }
    }

    fn trigger(&self) -> Result<TriggerKind, Failure> {
        const FAST: u32 = evb_trigger::EVB_TRIGGER_AS_FAST_AS_POSSIBLE as u32;
        const EXTERNAL: u32 = evb_trigger::EVB_TRIGGER_EXTERNAL as u32;
        match self.trigger {
            FAST => Ok(TriggerKind::AsFastAsPossible),
            EXTERNAL => Ok(TriggerKind::External),
            other => {
                let reason = format!("`options.trigger` is {other}, which is no kind of trigger");
                Err(Failure::invalid(
                    reason,
                    "set it to EVB_TRIGGER_AS_FAST_AS_POSSIBLE or EVB_TRIGGER_EXTERNAL",
                ))
            }
        }
    }
}

/// Starts a system whose sources, builders and supervisor are threads of this process, and waits
/// until all have joined.
///
/// `sinks` has one sink for each builder; NULL stands for sinks that accept everything. The handles
/// are used up, whatever the function returns. `readouts` has one readout for each source, which
/// evb takes over whatever the function returns; NULL means that the program pushes. Thread safety:
/// any thread, except in a readout, release or drop callback.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evb_local_start(
    options: *const evb_local_options,
    sinks: *const *mut evb_sink,
    readouts: *const evb_readout,
    local: Option<&mut MaybeUninit<*mut evb_local>>,
    error: Option<&mut MaybeUninit<evb_error>>,
) -> evb_code {
    border::enter("evb_local_start", error, || {
        // SAFETY: the caller passes a valid struct.
        let options = unsafe { structs::read("options", options) }?;
        // SAFETY: the caller passes NULL, or as many sinks and readouts as there are builders and
        // sources.
        let (sinks, readouts) = unsafe { (take_sinks(&options, sinks)?, take_readouts(&options, readouts)?) };
        border::may_wait()?;
        let local = local.ok_or_else(|| Failure::null("local"))?;
        let system = options.system()?;
        let failures = readouts.iter().flatten().map(OnDemand::failures).collect();
        let run = wait(start(system, sinks, readouts))?;
        local.write(handle::insert(OpenLocal { run, largest: options.largest(), failures }));
        Ok(())
    })
}

/// Starts a system with one sink for each builder, and one readout for each source if there are
/// any.
async fn start(
    system: LocalSystem,
    mut sinks: VecDeque<AnySink>,
    readouts: Option<VecDeque<OnDemand>>,
) -> Result<LocalRun, LocalError> {
    // There is a sink for each builder, and a readout for each source.
    let next_sink = move |_| sinks.pop_front().unwrap_or(AnySink::Null);
    match readouts {
        None => system.start(next_sink).await,
        Some(mut readouts) => {
            let none = || unreachable!("there is a readout for each source");
            let next_readout = move |_| readouts.pop_front().unwrap_or_else(none);
            system.start_on_demand(next_readout, next_sink).await
        }
    }
}

/// # Safety
/// The pointer must be NULL, or lead to a sink for each builder.
unsafe fn take_sinks(
    options: &evb_local_options,
    sinks: *const *mut evb_sink,
) -> Result<VecDeque<AnySink>, Failure> {
    if sinks.is_null() {
        return Ok((0..options.builders.min(u16::MAX.into())).map(|_| AnySink::Null).collect());
    }
    // SAFETY: the caller vouches for the array.
    let handles = unsafe { slice::from_raw_parts(sinks, options.builders as usize) };
    // All handles are used up, even if one of them is wrong.
    let taken: Vec<_> = handles.iter().map(|sink| sink::take(*sink)).collect();
    taken.into_iter().collect()
}

/// # Safety
/// The pointer must be NULL, or lead to a readout for each source.
unsafe fn take_readouts(
    options: &evb_local_options,
    readouts: *const evb_readout,
) -> Result<Option<VecDeque<OnDemand>>, Failure> {
    if readouts.is_null() {
        return Ok(None);
    }
    let take = |index| {
        // SAFETY: the caller vouches for the array.
        unsafe { OnDemand::take(readouts.add(index)) }.map(|mut readout| {
            readout.limit(options.largest());
            readout
        })
    };
    // All readouts are taken over, even if one of them is wrong.
    let taken: Vec<_> = (0..options.sources as usize).map(take).collect();
    taken.into_iter().collect::<Result<_, _>>().map(Some)
}

/// Returns the system of a handle.
fn local_of(local: *const evb_local) -> Result<Arc<OpenLocal>, Failure> {
    handle::get(local)
}

/// Fills `source` with a new handle to the source with this id, which the program frees. Thread
/// safety: any thread.
#[unsafe(no_mangle)]
pub extern "C" fn evb_local_source(
    local: *const evb_local,
    id: u16,
    source: Option<&mut MaybeUninit<*mut evb_source>>,
    error: Option<&mut MaybeUninit<evb_error>>,
) -> evb_code {
    border::enter("evb_local_source", error, || {
        let local = local_of(local)?;
        let source = source.ok_or_else(|| Failure::null("source"))?;
        let index = usize::from(id).checked_sub(1);
        let found = index.and_then(|index| Some((index, local.run.sources().get(index)?)));
        let Some((index, found)) = found else {
            let (id, most) = (SourceId::new(id), local.run.sources().len());
            let reason = format!("the system has no source {id}, as the ids of its sources are 1 to {most}");
            return Err(Failure::invalid(reason, "use one of these ids"));
        };
        let failures = local.failures.get(index).cloned();
        source.write(handle::insert(OpenSource::new(found.clone(), local.largest, failures)));
        Ok(())
    })
}

/// Fills `address` with the address of the supervisor, such as "127.0.0.1:40123", cut off at `size`
/// bytes with the NUL. Thread safety: any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evb_local_address(
    local: *const evb_local,
    address: *mut c_char,
    size: usize,
    error: Option<&mut MaybeUninit<evb_error>>,
) -> evb_code {
    border::enter("evb_local_address", error, || {
        let text = local_of(local)?.run.supervisor().address().to_string();
        // SAFETY: the caller passes `size` writable bytes.
        unsafe { text::copy("address", &text, address, size) }
    })
}

/// Reports `count` external triggers that happened now. The run ignores them unless its trigger is
/// EVB_TRIGGER_EXTERNAL. Thread safety: any thread, except in a readout, release or drop callback.
#[unsafe(no_mangle)]
pub extern "C" fn evb_local_trigger(
    local: *mut evb_local,
    count: u64,
    error: Option<&mut MaybeUninit<evb_error>>,
) -> evb_code {
    border::enter("evb_local_trigger", error, || {
        border::may_wait()?;
        Ok(wait(local_of(local)?.run.supervisor().trigger(count))?)
    })
}

/// Ends the run: it takes no more triggers, and every event under way is built or named in the
/// ledger. `cause` is a text for the ledger. Thread safety: any thread, except in a readout,
/// release or drop callback.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evb_local_request_run_end(
    local: *mut evb_local,
    cause: *const c_char,
    error: Option<&mut MaybeUninit<evb_error>>,
) -> evb_code {
    border::enter("evb_local_request_run_end", error, || {
        border::may_wait()?;
        // SAFETY: the caller passes a valid text.
        let cause = unsafe { text::required("cause", cause) }?;
        wait(local_of(local)?.run.request_run_end(cause));
        Ok(())
    })
}

/// Waits until the ledger is closed and every sink has closed, at most `timeout_ms` milliseconds or
/// EVB_FOREVER, and fills `ledger`, which may be NULL. Thread safety: any number of threads may
/// wait; not in a callback.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evb_local_finished(
    local: *const evb_local,
    timeout_ms: u64,
    ledger: *mut evb_ledger,
    error: Option<&mut MaybeUninit<evb_error>>,
) -> evb_code {
    border::enter("evb_local_finished", error, || {
        border::may_wait_for_end()?;
        // SAFETY: the caller passes NULL or a struct with its size.
        unsafe { structs::check("ledger", ledger) }?;
        let local = local_of(local)?;
        let report = wait_for(local.run.finished(), timeout_ms)??;
        // SAFETY: as above.
        unsafe { structs::write("ledger", ledger, &evb_ledger::from(&*report)) }?;
        (1..)
            .map(SourceId::new)
            .zip(&local.failures)
            .try_for_each(|(source, failures)| failures.check(source))
    })
}

/// Ends all roles at once, as if the process were killed. Callbacks that run are not interrupted.
/// Thread safety: any thread, also in callbacks.
#[unsafe(no_mangle)]
pub extern "C" fn evb_local_abort(
    local: *mut evb_local,
    error: Option<&mut MaybeUninit<evb_error>>,
) -> evb_code {
    border::enter("evb_local_abort", error, || {
        local_of(local)?.run.abort();
        Ok(())
    })
}

/// Frees a handle; the run goes on. Thread safety: any thread. Calls with the same handle on other
/// threads end as they would without this call.
#[unsafe(no_mangle)]
pub extern "C" fn evb_local_free(
    local: *mut evb_local,
    error: Option<&mut MaybeUninit<evb_error>>,
) -> evb_code {
    border::enter("evb_local_free", error, || handle::free::<_, OpenLocal>(local))
}
