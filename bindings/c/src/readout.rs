//! [`evb_readout`]: readout that makes a fragment when evb asks for it.

use std::{
    ffi::{c_char, c_void},
    ptr,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use evb_rs::{
    fragment::Fragment,
    id::{EventId, SourceId},
    source::Readout,
};

use crate::{
    border::{self, Callback},
    error::{Failure, evb_code, evb_fault},
    payload::{self, evb_fragment},
    sink::Reason,
    structs::{self, Sized0},
    text,
};

/// Answer of a readout callback.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum evb_readout_answer {
    /// There is no fragment: the event will lack this source.
    EVB_READOUT_NONE = 0,
    /// `fragment` is filled, and evb takes it over.
    EVB_READOUT_FRAGMENT = 1,
    /// Readout failed, and `reason` says why: the event will lack this source, and
    /// `evb_source_finished` reports EVB_READOUT.
    EVB_READOUT_FAILED = 2,
}

/// Readout on demand. evb calls `fragment` on the thread of the source, for each event that is
/// assigned to a builder and in the order of the assignments. While the callback runs, the source
/// does nothing else: one that runs for seconds makes the supervisor declare the source down.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct evb_readout {
    /// Size of the struct.
    pub struct_size: usize,
    /// First argument of the callbacks. It must be usable on other threads.
    pub user: *mut c_void,
    /// Makes the fragment of `event`, and returns an `evb_readout_answer`. `fragment` is zeroed
    /// except for its event id. `reason` has EVB_CALLBACK_REASON_SIZE bytes.
    pub fragment: Option<
        unsafe extern "C-unwind" fn(
            user: *mut c_void,
            event: u64,
            fragment: *mut evb_fragment,
            reason: *mut c_char,
        ) -> u32,
    >,
    /// Frees `user`; may be NULL. Called exactly once, on any thread, when evb has made its last
    /// call of `fragment`.
    pub drop: Option<unsafe extern "C-unwind" fn(user: *mut c_void)>,
}

// SAFETY: null pointers may be zero, and the first field is the size.
unsafe impl Sized0 for evb_readout {}

const NONE: u32 = evb_readout_answer::EVB_READOUT_NONE as u32;
const FRAGMENT: u32 = evb_readout_answer::EVB_READOUT_FRAGMENT as u32;
const FAILED: u32 = evb_readout_answer::EVB_READOUT_FAILED as u32;

/// The failures of a readout callback.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    count: AtomicU64,
    first: OnceLock<(EventId, String)>,
}

impl Failures {
    /// Returns an error if the callback has failed.
    pub(crate) fn check(&self, source: SourceId) -> Result<(), Failure> {
        let Some((event, reason)) = self.first.get() else { return Ok(()) };
        let count = self.count.load(Relaxed);
        let events = if count == 1 { "event is" } else { "events are" };
        let reason = format!(
            "{count} {events} incomplete without a fragment of source {source}, whose readout callback failed, first for event {event}: {reason}"
        );
        let remedy = "remove this cause at the readout, or in the callback if the callback itself is wrong, before the next run";
        Err(Failure::new(evb_code::EVB_READOUT, evb_fault::EVB_FAULT_CALLER, reason, remedy))
    }

    fn add(&self, event: EventId, reason: String) {
        self.count.fetch_add(1, Relaxed);
        let _ = self.first.set((event, reason));
    }
}

/// Calls the readout callback of a program.
pub(crate) struct OnDemand {
    callbacks: evb_readout,
    largest: u64,
    failures: Arc<Failures>,
}

// SAFETY: the program permits evb to call the callbacks with `user` on another thread.
unsafe impl Send for OnDemand {}

impl OnDemand {
    /// Takes the program's readout over; `drop` is called when it is dropped.
    ///
    /// # Safety
    /// The pointer must be NULL, or lead to a struct of the stated size with valid callbacks.
    pub(crate) unsafe fn take(from: *const evb_readout) -> Result<Self, Failure> {
        // SAFETY: the caller vouches for the pointer.
        let callbacks = unsafe { structs::read("readout", from) }?;
        let taken = Self { callbacks, largest: u64::MAX, failures: Arc::default() };
        if callbacks.fragment.is_none() {
            return Err(Failure::null("readout.fragment"));
        }
        Ok(taken)
    }

    /// Sets the largest payload of a fragment.
    pub(crate) fn limit(&mut self, largest: u64) {
        self.largest = largest;
    }

    pub(crate) fn failures(&self) -> Arc<Failures> {
        Arc::clone(&self.failures)
    }

    fn ask(&mut self, event: EventId) -> Result<Option<Fragment>, String> {
        let Some(make) = self.callbacks.fragment else { return Ok(None) };
        let (data, owner) = (ptr::null(), ptr::null_mut());
        let mut given =
            evb_fragment { event: event.number(), timestamp: 0, data, size: 0, release: None, owner };
        let mut reason = Reason::default();
        let user = self.callbacks.user;
        // SAFETY: the program passed this callback for this `user`; the other pointers are valid.
        let answer = border::call(Callback::Readout, || unsafe {
            make(user, event.number(), &raw mut given, reason.as_mut_ptr())
        });
        match answer {
            NONE => Ok(None),
            FRAGMENT if given.event != event.number() => {
                Err(format!("it was asked for event {event}, and made a fragment of event {}", given.event))
            }
            // SAFETY: the callback has filled the fragment, whose payload it lends to evb.
            FRAGMENT => match unsafe { payload::fragment(&given, self.largest) } {
                Ok(fragment) => Ok(Some(fragment)),
                Err(failure) => {
                    // evb took the fragment over, so its memory is released.
                    if let Some(release) = given.release {
                        // SAFETY: the program passed this function for this owner, and nothing else
                        // calls it for a fragment that was refused.
                        border::call(Callback::Release, || unsafe { release(given.owner) });
                    }
                    Err(failure.reason)
                }
            },
            FAILED => {
                let said = text::written(&reason.bytes());
                Err(if said.is_empty() { "it wrote no reason".to_owned() } else { said })
            }
            other => Err(format!("it returned {other}, which is no evb_readout_answer")),
        }
    }
}

impl Readout for OnDemand {
    fn fragment(&mut self, event: EventId) -> Option<Fragment> {
        self.ask(event).unwrap_or_else(|reason| {
            self.failures.add(event, reason);
            None
        })
    }
}

impl Drop for OnDemand {
    fn drop(&mut self) {
        if let Some(drop) = self.callbacks.drop {
            // SAFETY: the program passed this callback for this `user`, and this runs once.
            border::call(Callback::Release, || unsafe { drop(self.callbacks.user) });
        }
    }
}
