//! Ids of events, peers and runs. They are newtypes, so that no two can be mixed up.

use core::{fmt, num::ParseIntError, str::FromStr};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name($inner);

        impl $name {
            /// Wraps a bare number.
            pub const fn new(number: $inner) -> Self {
                Self(number)
            }

            /// Returns the bare number, for wire and display.
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
    /// The trigger number that groups fragments into one event. Event ids are dense: 1, 2, 3, …
    EventId(u64)
}
id! {
    /// The id of a readout source.
    SourceId(u16)
}
id! {
    /// The id of a builder.
    BuilderId(u16)
}
id! {
    /// The run number that people use in the logbook.
    RunNumber(u32)
}
id! {
    /// A number that is new for every start of the supervisor. It tells this epoch of a run from
    /// every other, and is in every message and event record.
    Epoch(u64)
}
id! {
    /// The incarnation of a source or builder within a run: the supervisor counts its processes
    /// from 1. It is 0 while unknown.
    Incarnation(u32)
}

impl EventId {
    /// The first event of every run.
    pub const FIRST: Self = Self(1);

    /// Returns the event after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// A process's part in a run: its role and id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Peer {
    /// The supervisor; a run has exactly one.
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
