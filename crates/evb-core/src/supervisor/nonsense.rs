//! [`Nonsense`]: the reason why a journal entry is refused. An entry's checksum proves that it is
//! intact, not that it makes sense, so every number is checked before it is used.

use super::journal::What;
use crate::{
    id::{BuilderId, Epoch},
    time::Instant,
    wire::{control::MalformedMessage, journal::Entry},
};

/// A limit that no run's counts reach: at 1 MHz it takes 142 years. Sums of thousands of counts
/// below it do not overflow.
pub(super) const BEYOND_ALL_RUNS: u64 = 1 << 52;

/// The same limit for 32-bit counts: incarnations and roster versions.
const TOO_OFTEN: u32 = 1 << 31;

/// The longest text that is read from the journal, in bytes; it becomes part of reports and
/// verdicts.
const MAX_TEXT: usize = 1 << 14;

/// The longest `host:port` that is passed on.
pub(super) const MAX_LISTEN: usize = 300;

/// The earliest time in use: zero in [`Totals`](crate::wire::journal::Totals) means that something
/// has not happened.
pub(super) const EARLIEST: Instant = Instant::from_nanos(1);

/// The reason why an entry is refused.
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

/// Returns a number of events or the like, if a run can have that many.
pub(super) fn count(value: u64) -> Result<u64, Nonsense> {
    if value < BEYOND_ALL_RUNS {
        Ok(value)
    } else {
        nonsense(format!("{value} is larger than any possible count"))
    }
}

/// Returns the sum of these counts.
pub(super) fn total(counts: impl IntoIterator<Item = u64>) -> Result<u64, Nonsense> {
    counts.into_iter().try_fold(0, |sum, value| count(sum + count(value)?))
}

/// Returns the number of an incarnation or of a roster version.
pub(super) fn ordinal(number: u32) -> Result<u32, Nonsense> {
    if number < TOO_OFTEN {
        Ok(number)
    } else {
        nonsense(format!("{number} is larger than any possible incarnation or roster version"))
    }
}

/// Returns an epoch that can have successors.
pub(super) fn epoch(number: u64) -> Result<Epoch, Nonsense> {
    let room = number.checked_add(BEYOND_ALL_RUNS).is_some();
    if room { Ok(Epoch::new(number)) } else { nonsense("the epoch is larger than any possible one") }
}

/// Returns the id of a builder, whether it takes part in the run or not.
pub(super) fn builder_id(number: u32) -> Result<BuilderId, Nonsense> {
    u16::try_from(number).map(BuilderId::new).or_else(|_| nonsense("a builder id is above 65535"))
}

/// Returns a text, shortened for reports.
pub(super) fn text(text: &str) -> String {
    text[..text.floor_char_boundary(MAX_TEXT)].to_owned()
}

/// Returns a builder's address.
pub(super) fn listen(address: &str) -> Result<String, Nonsense> {
    if address.len() <= MAX_LISTEN {
        Ok(address.to_owned())
    } else {
        nonsense("the address of a builder is too long")
    }
}

/// Returns an entry's content and time.
pub(super) fn content(entry: &Entry) -> Result<(&What, Instant), Nonsense> {
    let Some(what) = &entry.what else { return nonsense("the entry is empty, or of a later version") };
    if entry.at_ns >= 1 << 62 {
        return nonsense("the time is later than any possible one");
    }
    Ok((what, Instant::from_nanos(entry.at_ns).max(EARLIEST)))
}
