//! Ids of events, peers and runs. Each kind of id is a type of its own, so that the compiler finds
//! mix-ups.

use core::{fmt, num::ParseIntError, str::FromStr};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
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
///
/// ```
/// use evb_core::id::{BuilderId, Peer, SourceId};
///
/// let absent = [Peer::Source(SourceId::new(3)), Peer::Builder(BuilderId::new(1))];
/// assert_eq!(absent.map(|peer| peer.to_string()), ["source 3", "builder 1"]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Peer {
    /// The supervisor; a run has exactly one supervisor.
    Supervisor,
    /// A readout source.
    Source(SourceId),
    /// A builder.
    Builder(BuilderId),
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
