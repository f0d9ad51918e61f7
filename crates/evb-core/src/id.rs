//! Ids of events, peers and runs. Each kind of id is a type of its own, so that the compiler finds
//! mix-ups.

use core::{fmt, num::ParseIntError, str::FromStr};
use std::borrow::Cow;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::rng::Rng;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name($inner);

        impl $name {
            /// Wraps a plain number as an id.
            pub const fn new(number: $inner) -> Self {
                Self(number)
            }

            /// Returns the plain number, for messages and display.
            pub const fn number(self) -> $inner {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = ParseIntError;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                text.parse().map(Self)
            }
        }
    };
}

id! {
    /// An event's trigger number, which all fragments of the event carry. Event ids have no gaps:
    /// 1, 2, 3, …
    ///
    /// ```
    /// use evb_core::id::EventId;
    ///
    /// let third = EventId::FIRST.next().next();
    /// assert_eq!(third.number(), 3);
    /// assert_eq!("3".parse(), Ok(third));
    /// ```
    EventId(u64)
}
id! {
    /// The id of a readout source.
    ///
    /// ```
    /// use evb_core::id::SourceId;
    ///
    /// // Crate 3 has the sources 33 to 48.
    /// let sources: Vec<SourceId> = (33..=48).map(SourceId::new).collect();
    /// assert_eq!(sources[0].to_string(), "33");
    /// ```
    SourceId(u16)
}
id! {
    /// The id of a builder.
    ///
    /// A builder's id does not pass for a source's id:
    ///
    /// ```compile_fail
    /// use evb_core::id::{BuilderId, SourceId};
    ///
    /// let source: SourceId = BuilderId::new(1);
    /// ```
    BuilderId(u16)
}
id! {
    /// The run number that people use in the logbook.
    ///
    /// ```
    /// use evb_core::id::RunNumber;
    ///
    /// let last = RunNumber::new(41);
    /// let next = RunNumber::new(last.number() + 1);
    /// assert_eq!(format!("run{:06}.log", next.number()), "run000042.log");
    /// ```
    RunNumber(u32)
}
id! {
    /// A number that is new for every start of a run. The epoch distinguishes the run's messages
    /// and event records from those of every other run.
    ///
    /// ```
    /// use evb_core::id::Epoch;
    ///
    /// // Of two copies of an event, the one of the later epoch counts.
    /// let (before, after) = (Epoch::new(1_763_000_000), Epoch::new(1_763_000_900));
    /// assert_eq!(before.max(after), after);
    /// ```
    Epoch(u64)
}
id! {
    /// The incarnation of a source or builder within a run: the supervisor numbers the successive
    /// processes of that source or builder from 1. An unknown incarnation is 0.
    ///
    /// ```
    /// use evb_core::id::Incarnation;
    ///
    /// let (first, now) = (Incarnation::new(1), Incarnation::new(3));
    /// let restarts = now.number() - first.number();
    /// assert_eq!(restarts, 2);
    /// ```
    Incarnation(u32)
}

/// The identity of a run: a number of 128 bits that is made once, when the run is created, and that
/// no other run has. The supervisor's journal keeps it, so the run has the same id after a restart
/// or takeover of the supervisor.
///
/// A run has its id for programs and its [`RunNumber`] for people. Where people need the id, its
/// first 8 hexadecimal digits suffice ([`Self::short`]).
///
/// ```
/// use evb_core::id::RunId;
///
/// let id = RunId::new(0x5eed_cafe_0000_0000_0000_0000_0000_0001);
/// assert_eq!(id.short().to_string(), "5eedcafe");
/// assert_eq!(id.to_string(), "5eedcafe000000000000000000000001");
/// assert_eq!(id.to_string().parse(), Ok(id));
/// assert_eq!(RunId::from_bytes(id.to_bytes()), id);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId(u128);

/// The first 8 hexadecimal digits of a [`RunId`], for people.
///
/// ```
/// use evb_core::id::RunId;
///
/// assert_eq!(RunId::new(1 << 127).short().to_string(), "80000000");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShortRunId(u32);

/// Reason why a text is no [`RunId`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the run id cannot be read; write all of its 32 hexadecimal digits")]
pub struct ParseRunIdError;

impl RunId {
    /// The id of a run whose id is unknown, for example of a run in files of format 1.
    pub const UNKNOWN: Self = Self(0);

    /// Wraps a number as an id.
    pub const fn new(number: u128) -> Self {
        Self(number)
    }

    /// Returns the id of a run that was created without one. It follows from the run's epoch and
    /// number, so that every process finds the same id.
    pub const fn derived(epoch: Epoch, run: RunNumber) -> Self {
        let mut rng = Rng::new(epoch.0 ^ (run.0 as u64).rotate_left(40));
        Self((rng.next_u64() as u128) << 64 | rng.next_u64() as u128 | 1)
    }

    /// Returns false for [`Self::UNKNOWN`].
    pub const fn is_known(self) -> bool {
        self.0 != 0
    }

    /// Returns the id of which these are the bytes, the most significant first.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(u128::from_be_bytes(bytes))
    }

    /// Returns the bytes of the id, in the order of its hexadecimal digits.
    pub const fn to_bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }

    /// Returns the first 8 hexadecimal digits.
    pub const fn short(self) -> ShortRunId {
        ShortRunId((self.0 >> 96) as u32)
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl Serialize for RunId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for RunId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <Cow<'de, str>>::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

impl FromStr for RunId {
    type Err = ParseRunIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.len() == 32 && text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            true => u128::from_str_radix(text, 16).map(Self).map_err(|_| ParseRunIdError),
            false => Err(ParseRunIdError),
        }
    }
}

impl ShortRunId {
    /// Returns the digits of which these are the bytes, the most significant first.
    pub const fn from_bytes(bytes: [u8; 4]) -> Self {
        Self(u32::from_be_bytes(bytes))
    }

    /// Returns the digits as bytes, the most significant first.
    pub const fn to_bytes(self) -> [u8; 4] {
        self.0.to_be_bytes()
    }
}

impl fmt::Display for ShortRunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

impl EventId {
    /// The first event of every run.
    pub const FIRST: Self = Self(1);

    /// Returns the next event id.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// A process's part in a run: its role and id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Peer {
    /// The supervisor; a run has exactly one supervisor.
    Supervisor,
    /// A readout source.
    Source(SourceId),
    /// A builder.
    Builder(BuilderId),
}

impl Peer {
    /// Returns the peer with its name in parentheses; without them if the name is empty.
    ///
    /// ```
    /// use evb_core::id::{Peer, SourceId};
    ///
    /// let peer = Peer::Source(SourceId::new(3));
    /// assert_eq!(peer.named("TPC crate 1"), "source 3 (TPC crate 1)");
    /// assert_eq!(peer.named(""), "source 3");
    /// ```
    pub fn named(self, name: &str) -> String {
        if name.is_empty() { self.to_string() } else { format!("{self} ({name})") }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Supervisor => f.write_str("supervisor"),
            Self::Source(id) => write!(f, "source {id}"),
            Self::Builder(id) => write!(f, "builder {id}"),
        }
    }
}

/// Most runs of consecutive ids that a text lists.
const LISTED: usize = 10;

/// Lists ascending numbers as text. Three or more consecutive numbers are listed as a range. After
/// ten runs of consecutive numbers, the text states only how many numbers are left.
///
/// ```
/// assert_eq!(evb_core::id::ranges([1_u16, 2, 3, 4, 7, 8]), "1-4, 7, 8");
/// ```
pub fn ranges(numbers: impl IntoIterator<Item = impl Into<u64>>) -> String {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for number in numbers.into_iter().map(Into::into) {
        match runs.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(number) => *last = number,
            _ => runs.push((number, number)),
        }
    }
    let listed = runs.iter().take(LISTED).map(|(first, last)| match last - first {
        0 => first.to_string(),
        1 => format!("{first}, {last}"),
        _ => format!("{first}-{last}"),
    });
    let mut text = listed.collect::<Vec<_>>().join(", ");
    let size = |(first, last): &(u64, u64)| u128::from(last - first) + 1;
    let more: u128 = runs.iter().skip(LISTED).map(size).sum();
    if more > 0 {
        text += &format!(", and {more} more");
    }
    text
}
