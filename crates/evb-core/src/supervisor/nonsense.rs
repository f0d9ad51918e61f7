//! [`Nonsense`]: why an entry of a journal is refused. An entry's checksum tells that it was written so, and not that it makes
//! sense: every number is checked before it is counted with.

use super::journal::What;
use crate::{
    id::{BuilderId, Epoch},
    time::Instant,
    wire::{control::MalformedMessage, journal::Entry},
};

/// No run counts so far: at 1 MHz it takes 142 years. Sums of thousands of counts below it do not overflow.
pub(super) const BEYOND_ALL_RUNS: u64 = 1 << 52;

/// The same for what is counted in 32 bits: lives of processes and versions of the roster.
const TOO_OFTEN: u32 = 1 << 31;

/// The longest text that is read, in bytes; reports and verdicts are made of it.
const MAX_TEXT: usize = 1 << 14;

/// The longest `host:port` that is passed on.
pub(super) const MAX_LISTEN: usize = 300;

/// Zero says in [`Totals`](crate::wire::journal::Totals) that something has not been.
pub(super) const EARLIEST: Instant = Instant::from_nanos(1);

/// What is wrong with an entry.
#[derive(Debug)]
pub(super) struct Nonsense(pub(super) String);

impl From<MalformedMessage> for Nonsense {
    fn from(error: MalformedMessage) -> Self {
        Self(error.to_string())
    }
}

pub(super) fn nonsense<T>(problem: impl Into<String>) -> Result<T, Nonsense> {
    Err(Nonsense(problem.into()))
}

/// Returns a number of events or the like, if a run can have so many.
pub(super) fn count(value: u64) -> Result<u64, Nonsense> {
    if value < BEYOND_ALL_RUNS { Ok(value) } else { nonsense(format!("{value} is beyond all counts")) }
}

/// Returns how many these are together.
pub(super) fn total(counts: impl IntoIterator<Item = u64>) -> Result<u64, Nonsense> {
    counts.into_iter().try_fold(0, |sum, value| count(sum + count(value)?))
}

/// Returns the number of a life of a process, or of a roster.
pub(super) fn ordinal(number: u32) -> Result<u32, Nonsense> {
    if number < TOO_OFTEN { Ok(number) } else { nonsense(format!("{number} is beyond all counts")) }
}

/// Returns an epoch that others can come after.
pub(super) fn epoch(number: u64) -> Result<Epoch, Nonsense> {
    let room = number.checked_add(BEYOND_ALL_RUNS).is_some();
    if room { Ok(Epoch::new(number)) } else { nonsense("an epoch beyond all epochs") }
}

/// Returns the id of a builder, of the run or not.
pub(super) fn builder_id(number: u32) -> Result<BuilderId, Nonsense> {
    u16::try_from(number).map(BuilderId::new).or_else(|_| nonsense("no such builder"))
}

/// Returns as much of a text as reports bear.
pub(super) fn text(text: &str) -> String {
    text[..text.floor_char_boundary(MAX_TEXT)].to_owned()
}

/// Returns where a builder is reached.
pub(super) fn listen(address: &str) -> Result<String, Nonsense> {
    if address.len() <= MAX_LISTEN { Ok(address.to_owned()) } else { nonsense("an address without end") }
}

/// Returns what an entry is about, and when that was.
pub(super) fn content(entry: &Entry) -> Result<(&What, Instant), Nonsense> {
    let Some(what) = &entry.what else { return nonsense("it is empty, or of a later version") };
    if entry.at_ns >= 1 << 62 {
        return nonsense("a time beyond all clocks");
    }
    Ok((what, Instant::from_nanos(entry.at_ns).max(EARLIEST)))
}
