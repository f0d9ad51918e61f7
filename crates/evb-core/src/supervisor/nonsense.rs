//! [`Nonsense`]: the reason why a journal entry is refused. The checksum of an entry proves that
//! the entry is undamaged, not that its content is valid; so every number is checked before it is
//! used.

use super::journal::What;
use crate::{
    id::{BuilderId, Epoch},
    time::Instant,
    wire::{
        control::{MalformedMessage, is_address},
        journal::Entry,
    },
};

/// Upper limit of counts, which no run reaches: at 1 MHz, it takes 35 years. Sums of 16 383
/// counts below the limit do not overflow.
pub(super) const BEYOND_ALL_RUNS: u64 = 1 << 50;

/// Upper limit of 32-bit counts: incarnations and roster versions.
const TOO_OFTEN: u32 = 1 << 31;

/// Longest text that is read from the journal, in bytes. Texts from the journal become part of
/// reports and verdicts.
const MAX_TEXT: usize = 1 << 14;

/// Earliest time that is used for an occurrence: in [`Totals`](crate::wire::journal::Totals), zero
/// means that it has not happened.
pub(super) const EARLIEST: Instant = Instant::from_nanos(1);

/// The reason why a journal entry is refused.
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

/// Returns `value` if a run can have that many events, or that many of anything else that is
/// counted.
pub(super) fn count(value: u64) -> Result<u64, Nonsense> {
    if value < BEYOND_ALL_RUNS {
        Ok(value)
    } else {
        nonsense(format!("{value} is larger than any possible count"))
    }
}

/// Returns the sum of `counts`, if each of them and the sum are possible.
pub(super) fn total(counts: impl IntoIterator<Item = u64>) -> Result<u64, Nonsense> {
    counts.into_iter().try_fold(0, |sum, value| count(sum + count(value)?))
}

/// Returns the number of an incarnation or of a roster version, if it is possible.
pub(super) fn ordinal(number: u32) -> Result<u32, Nonsense> {
    if number < TOO_OFTEN {
        Ok(number)
    } else {
        nonsense(format!("{number} is larger than any possible incarnation or roster version"))
    }
}

/// Returns the epoch with that number, if there is room for later epochs.
pub(super) fn epoch(number: u64) -> Result<Epoch, Nonsense> {
    let room = number.checked_add(BEYOND_ALL_RUNS).is_some();
    if room { Ok(Epoch::new(number)) } else { nonsense("the epoch is larger than any possible one") }
}

/// Returns the id of a builder, which need not take part in the run.
pub(super) fn builder_id(number: u32) -> Result<BuilderId, Nonsense> {
    u16::try_from(number).map(BuilderId::new).or_else(|_| nonsense("a builder id is above 65535"))
}

/// Returns the text, shortened to at most `MAX_TEXT` bytes.
pub(super) fn text(text: &str) -> String {
    text[..text.floor_char_boundary(MAX_TEXT)].to_owned()
}

/// Returns a builder's address, which is empty before the builder has registered.
pub(super) fn listen(address: &str) -> Result<String, Nonsense> {
    if address.is_empty() || is_address(address) {
        Ok(address.to_owned())
    } else {
        nonsense("the address of a builder is not host:port")
    }
}

/// Returns the content and the time of an entry, if the time is possible.
pub(super) fn content(entry: &Entry) -> Result<(&What, Instant), Nonsense> {
    let Some(what) = &entry.what else { return nonsense("the entry is empty, or of a later version") };
    if entry.at_ns >= 1 << 62 {
        return nonsense("the time is later than any possible one");
    }
    Ok((what, Instant::from_nanos(entry.at_ns).max(EARLIEST)))
}
