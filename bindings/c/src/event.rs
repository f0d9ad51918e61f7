//! [`evb_event`]: a built event, and its fragments without a copy.

use std::{
    ffi::{CStr, c_char, c_void},
    mem::MaybeUninit,
    sync::Arc,
};

use evb_rs::event::{Alignment, Event, FragmentView, MissingSource};

use crate::{
    border,
    error::{Failure, evb_code, evb_error},
    handle::{self, Named},
};

/// A built event. Inside a sink callback, evb passes an event that is valid until the callback
/// returns. `evb_event_keep` makes a handle of it that stays valid until `evb_event_free`.
pub struct evb_event {
    _opaque: [u8; 0],
}

/// A fragment of a built event. The payload is valid as long as its event.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct evb_fragment_view {
    /// The detector's own timestamp, in its ticks.
    pub timestamp: u64,
    /// CRC-64/NVME of the payload, which the builder has checked.
    pub checksum: u64,
    /// Payload bytes; never NULL.
    pub data: *const c_void,
    /// Number of payload bytes.
    pub size: usize,
    /// Id of the source.
    pub source: u16,
    /// Agreement of the timestamp with the others of the event: an `evb_alignment`.
    pub alignment: u8,
    /// Number of packets of the fragment that were lost before they reached the source.
    pub lost_packets: u32,
}

/// State of a fragment that says whether it belongs to its event, by its timestamp.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum evb_alignment {
    /// The timestamp was not compared: the source has no clock, or no other source has one.
    EVB_ALIGNMENT_UNCHECKED = 0,
    /// The fragment belongs to the event.
    EVB_ALIGNMENT_AGREES = 1,
    /// The fragment's time is not that of the event.
    EVB_ALIGNMENT_DISAGREES = 2,
    /// The clock is still being learnt, or no clock is there to compare it with.
    EVB_ALIGNMENT_UNKNOWN = 3,
    /// The fragment was built into another event, and a repair moved it to this one, to which it
    /// belongs.
    EVB_ALIGNMENT_MOVED = 4,
}

/// Identity of a run, which no other run has.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct evb_run_id {
    /// Bytes in the order of the 32 hexadecimal digits.
    pub bytes: [u8; 16],
}

/// Reason why a source has no fragment in an event. A later version of evb may give other codes.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum evb_cause {
    /// The cause is not known.
    EVB_CAUSE_UNKNOWN = 0,
    /// The source was not connected to the supervisor or counted as down.
    EVB_CAUSE_DOWN = 1,
    /// The source was up and did not announce a fragment until the event's deadline.
    EVB_CAUSE_SILENT = 2,
    /// No readout delivered data to the source.
    EVB_CAUSE_NO_READOUT = 3,
    /// The fragment reached evb, which could not take it.
    EVB_CAUSE_REFUSED = 4,
    /// The fragment arrived with a wrong checksum.
    EVB_CAUSE_DAMAGED = 5,
    /// The lane broke before the fragment had arrived.
    EVB_CAUSE_LOST_IN_NETWORK = 6,
    /// The run ended before the fragment had arrived.
    EVB_CAUSE_GIVEN_UP = 7,
    /// An operator excluded the source while the event waited for its fragment.
    EVB_CAUSE_RELEASED = 8,
    /// Packets of the fragment were lost before they reached the source.
    EVB_CAUSE_LOST_PACKETS = 9,
    /// An operator had excluded the source from the run.
    EVB_CAUSE_EXCLUDED = 16,
    /// The source is expendable: events are complete without it.
    EVB_CAUSE_EXPENDABLE = 17,
}

/// An event with its fragments in a list, so that a caller finds each by its index.
pub(crate) struct Indexed<E> {
    event: E,
    fragments: Vec<evb_fragment_view>,
}

/// An event that a program keeps.
type Kept = Indexed<Event>;

// SAFETY: the pointers in `fragments` lead to the payload memory of `event`, which is shared
// between threads and does not change.
unsafe impl Send for Kept {}
// SAFETY: as above.
unsafe impl Sync for Kept {}

impl Named for Kept {
    const NAME: &'static str = "event";
}

/// An event inside a callback.
pub(crate) type Lent<'a> = Indexed<&'a Event>;

impl<'a> Lent<'a> {
    pub(crate) fn new(event: &'a Event) -> Self {
        Self { event, fragments: event.fragments().map(view).collect() }
    }

    /// Returns the event as a callback sees it. The pointer is valid as long as `self` is.
    pub(crate) fn as_event(&self) -> *const evb_event {
        std::ptr::from_ref(self).cast()
    }
}

fn view(fragment: FragmentView<'_>) -> evb_fragment_view {
    evb_fragment_view {
        timestamp: fragment.timestamp.ticks(),
        checksum: fragment.checksum.number(),
        data: fragment.payload.as_ptr().cast(),
        size: fragment.payload.len(),
        source: fragment.source.number(),
        alignment: state(fragment.alignment) as u8,
        lost_packets: fragment.lost_packets,
    }
}

fn state(alignment: Alignment) -> evb_alignment {
    match alignment {
        Alignment::Unchecked => evb_alignment::EVB_ALIGNMENT_UNCHECKED,
        Alignment::Agrees => evb_alignment::EVB_ALIGNMENT_AGREES,
        Alignment::Disagrees => evb_alignment::EVB_ALIGNMENT_DISAGREES,
        Alignment::Unknown => evb_alignment::EVB_ALIGNMENT_UNKNOWN,
        Alignment::Moved => evb_alignment::EVB_ALIGNMENT_MOVED,
    }
}

/// Calls `body` with the event and its fragments; returns `otherwise` if there is no such event.
///
/// # Safety
/// The pointer must be NULL, a handle of evb, or an event that evb passed to the callback that
/// runs.
unsafe fn look<T: Copy>(
    name: &'static str,
    event: *const evb_event,
    otherwise: T,
    body: impl FnOnce(&Event, &[evb_fragment_view]) -> T,
) -> T {
    border::enter_or(name, otherwise, || {
        if event.is_null() {
            return otherwise;
        }
        if handle::is_handle(event.addr()) {
            let kept: Option<Arc<Kept>> = handle::get(event).ok();
            return kept.map_or(otherwise, |kept| body(&kept.event, &kept.fragments));
        }
        // SAFETY: evb made this pointer from a `Lent` that lives until the callback returns.
        let lent = unsafe { &*event.cast::<Lent<'_>>() };
        body(lent.event, &lent.fragments)
    })
}

/// Returns the event id, which is the trigger number; 0 if `event` is no event. Thread safety: any
/// thread, while the event is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evb_event_id(event: *const evb_event) -> u64 {
    // SAFETY: the caller passes an event.
    unsafe { look("evb_event_id", event, 0, |event, _| event.id.number()) }
}

/// Returns the number of the event's run; 0 if `event` is no event. Thread safety: any thread,
/// while the event is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evb_event_run(event: *const evb_event) -> u32 {
    // SAFETY: the caller passes an event.
    unsafe { look("evb_event_run", event, 0, |event, _| event.run.number()) }
}

/// Fills `id` with the identity of the event's run. Returns false, and leaves `id` alone, if it is
/// not known or `event` is no event. Thread safety: any thread, while the event is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evb_event_run_id(
    event: *const evb_event,
    id: Option<&mut MaybeUninit<evb_run_id>>,
) -> bool {
    let find = |event: &Event, _: &[evb_fragment_view]| event.run_id.is_known().then_some(event.run_id);
    // SAFETY: the caller passes an event.
    let found = unsafe { look("evb_event_run_id", event, None, find) };
    let (Some(found), Some(id)) = (found, id) else { return false };
    id.write(evb_run_id { bytes: found.to_bytes() });
    true
}

/// Returns the time of the event's trigger in nanoseconds since 1970-01-01 UTC, on the scale of the
/// run, which does not depend on the builder; 0 if it is not known or `event` is no event. Thread
/// safety: any thread, while the event is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evb_event_utc(event: *const evb_event) -> u64 {
    // SAFETY: the caller passes an event.
    unsafe { look("evb_event_utc", event, 0, |event, _| event.utc.as_nanos()) }
}

/// Returns the epoch of the event's run; 0 if `event` is no event. Thread safety: any thread, while
/// the event is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evb_event_epoch(event: *const evb_event) -> u64 {
    // SAFETY: the caller passes an event.
    unsafe { look("evb_event_epoch", event, 0, |event, _| event.epoch.number()) }
}

/// Returns the id of the builder that built the event; 0 if `event` is no event. Thread safety: any
/// thread, while the event is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evb_event_builder(event: *const evb_event) -> u16 {
    // SAFETY: the caller passes an event.
    unsafe { look("evb_event_builder", event, 0, |event, _| event.builder.number()) }
}

/// Returns the number of payload bytes of all fragments. Thread safety: any thread, while the event
/// is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evb_event_size(event: *const evb_event) -> u64 {
    let sum = |_: &Event, fragments: &[evb_fragment_view]| fragments.iter().map(|f| f.size as u64).sum();
    // SAFETY: the caller passes an event.
    unsafe { look("evb_event_size", event, 0, sum) }
}

/// Returns the number of fragments. Thread safety: any thread, while the event is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evb_event_fragment_count(event: *const evb_event) -> usize {
    // SAFETY: the caller passes an event.
    unsafe { look("evb_event_fragment_count", event, 0, |_, fragments| fragments.len()) }
}

/// Fills `fragment` with the fragment at `index`, in the order of the source ids. Returns false,
/// and leaves `fragment` alone, if the event has no such fragment. Thread safety: any thread, while
/// the event is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evb_event_fragment(
    event: *const evb_event,
    index: usize,
    fragment: Option<&mut MaybeUninit<evb_fragment_view>>,
) -> bool {
    let find = |_: &Event, fragments: &[evb_fragment_view]| fragments.get(index).copied();
    // SAFETY: the caller passes an event.
    let found = unsafe { look("evb_event_fragment", event, None, find) };
    fill(found, fragment)
}

/// Fills `fragment` with the fragment of the source with this id. Returns false, and leaves
/// `fragment` alone, if the event has none from that source. Thread safety: any thread, while the
/// event is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evb_event_fragment_of(
    event: *const evb_event,
    source: u16,
    fragment: Option<&mut MaybeUninit<evb_fragment_view>>,
) -> bool {
    let find = |_: &Event, fragments: &[evb_fragment_view]| {
        let found = fragments.binary_search_by_key(&source, |fragment| fragment.source);
        found.ok().map(|index| fragments[index])
    };
    // SAFETY: the caller passes an event.
    let found = unsafe { look("evb_event_fragment_of", event, None, find) };
    fill(found, fragment)
}

fn fill(found: Option<evb_fragment_view>, fragment: Option<&mut MaybeUninit<evb_fragment_view>>) -> bool {
    let (Some(found), Some(fragment)) = (found, fragment) else { return false };
    fragment.write(found);
    true
}

/// Returns the number of sources that owe the event a fragment and did not contribute one; 0 for a
/// complete event. Thread safety: any thread, while the event is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evb_event_missing_count(event: *const evb_event) -> usize {
    // SAFETY: the caller passes an event.
    unsafe { look("evb_event_missing_count", event, 0, |event, _| event.missing.len()) }
}

/// Fills `source` with the id of the missing source at `index`. Returns false, and leaves `source`
/// alone, if there is none. Thread safety: any thread, while the event is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evb_event_missing(
    event: *const evb_event,
    index: usize,
    source: Option<&mut MaybeUninit<u16>>,
) -> bool {
    // SAFETY: the caller passes an event.
    let found = unsafe { entry("evb_event_missing", event, index, |event| &event.missing) };
    fill_source(found, source)
}

/// Returns the cause of the missing source at `index`, an `evb_cause` or a code of a later version
/// of evb; `EVB_CAUSE_UNKNOWN` if there is no such source. Thread safety: any thread, while the
/// event is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evb_event_missing_cause(event: *const evb_event, index: usize) -> u32 {
    // SAFETY: the caller passes an event.
    let found = unsafe { entry("evb_event_missing_cause", event, index, |event| &event.missing) };
    code_of(found)
}

/// Returns the number of sources that do not owe the event a fragment, because they are excluded or
/// expendable, and did not contribute one. Thread safety: any thread, while the event is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evb_event_absent_count(event: *const evb_event) -> usize {
    // SAFETY: the caller passes an event.
    unsafe { look("evb_event_absent_count", event, 0, |event, _| event.absent.len()) }
}

/// Fills `source` with the id of the absent source at `index`. Returns false, and leaves `source`
/// alone, if there is none. Thread safety: any thread, while the event is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evb_event_absent(
    event: *const evb_event,
    index: usize,
    source: Option<&mut MaybeUninit<u16>>,
) -> bool {
    // SAFETY: the caller passes an event.
    let found = unsafe { entry("evb_event_absent", event, index, |event| &event.absent) };
    fill_source(found, source)
}

/// Returns the cause of the absent source at `index`, an `evb_cause` or a code of a later version
/// of evb; `EVB_CAUSE_UNKNOWN` if there is no such source. Thread safety: any thread, while the
/// event is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evb_event_absent_cause(event: *const evb_event, index: usize) -> u32 {
    // SAFETY: the caller passes an event.
    let found = unsafe { entry("evb_event_absent_cause", event, index, |event| &event.absent) };
    code_of(found)
}

/// Returns an entry of one of the event's lists of sources.
///
/// # Safety
/// As for [`look`].
unsafe fn entry(
    name: &'static str,
    event: *const evb_event,
    index: usize,
    list: impl FnOnce(&Event) -> &Vec<MissingSource>,
) -> Option<MissingSource> {
    // SAFETY: the caller keeps the promise of `look`.
    unsafe { look(name, event, None, |event, _| list(event).get(index).copied()) }
}

fn fill_source(found: Option<MissingSource>, source: Option<&mut MaybeUninit<u16>>) -> bool {
    let (Some(found), Some(source)) = (found, source) else { return false };
    source.write(found.source.number());
    true
}

fn code_of(found: Option<MissingSource>) -> u32 {
    found.map_or(0, |missing| u32::from(missing.cause.code()))
}

/// Returns a cause in words, such as "silent until the deadline"; "of a later version" for a code
/// that this version of evb does not know. The text is valid for ever. Thread safety: any thread.
#[unsafe(no_mangle)]
pub extern "C" fn evb_cause_text(cause: u32) -> *const c_char {
    let text = border::enter_or("evb_cause_text", c"", || {
        let known = CAUSES.iter().find(|(code, _)| *code as u32 == cause);
        known.map_or(c"of a later version", |(_, words)| words)
    });
    text.as_ptr()
}

const CAUSES: [(evb_cause, &CStr); 12] = [
    (evb_cause::EVB_CAUSE_UNKNOWN, c"unknown"),
    (evb_cause::EVB_CAUSE_DOWN, c"down"),
    (evb_cause::EVB_CAUSE_SILENT, c"silent until the deadline"),
    (evb_cause::EVB_CAUSE_NO_READOUT, c"no readout"),
    (evb_cause::EVB_CAUSE_REFUSED, c"refused"),
    (evb_cause::EVB_CAUSE_DAMAGED, c"damaged"),
    (evb_cause::EVB_CAUSE_LOST_IN_NETWORK, c"lost in the network"),
    (evb_cause::EVB_CAUSE_GIVEN_UP, c"given up at the end of the run"),
    (evb_cause::EVB_CAUSE_RELEASED, c"released by exclude"),
    (evb_cause::EVB_CAUSE_LOST_PACKETS, c"packets lost before the source"),
    (evb_cause::EVB_CAUSE_EXCLUDED, c"excluded"),
    (evb_cause::EVB_CAUSE_EXPENDABLE, c"expendable"),
];

#[cfg(test)]
mod tests;

/// Keeps an event beyond the callback that got it: fills `kept` with a handle for the functions
/// `evb_event_…`. The payload is not copied. A kept event occupies memory that the builder would
/// use again, so free it soon with `evb_event_free`. Thread safety: any thread, while the event is
/// valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evb_event_keep(
    event: *const evb_event,
    kept: Option<&mut MaybeUninit<*mut evb_event>>,
    error: Option<&mut MaybeUninit<evb_error>>,
) -> evb_code {
    border::enter("evb_event_keep", error, || {
        let kept = kept.ok_or_else(|| Failure::null("kept"))?;
        let mut copy = None;
        // SAFETY: the caller passes an event.
        unsafe {
            look("evb_event_keep", event, (), |event, _| copy = Some(event.clone()));
        }
        let event = copy.ok_or_else(|| Failure::invalid("`event` is not an event", "pass a valid event"))?;
        // The list is made from the copy: it leads to the same payload memory.
        let fragments = event.fragments().map(view).collect();
        kept.write(handle::insert(Kept { event, fragments }));
        Ok(())
    })
}

/// Frees an event that `evb_event_keep` returned. Thread safety: any thread. A call for the same
/// event on another thread finishes first, or gets an event without content.
#[unsafe(no_mangle)]
pub extern "C" fn evb_event_free(
    event: *mut evb_event,
    error: Option<&mut MaybeUninit<evb_error>>,
) -> evb_code {
    border::enter("evb_event_free", error, || {
        let is_lent = !event.is_null() && !handle::is_handle(event.addr());
        if is_lent {
            let remedy = "free only events that evb_event_keep returned";
            return Err(Failure::invalid(
                "`event` is only lent to the callback, and evb itself frees it",
                remedy,
            ));
        }
        handle::free::<_, Kept>(event)
    })
}
