//! Who and which: the numbers that name events, peers and runs. Newtypes, so that no two can be mixed up.

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

            /// The bare number, for wire and display.
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
    /// The trigger number that groups fragments into one event. Dense: 1, 2, 3, …
    EventId(u64)
}
id! {
    /// Which readout source.
    SourceId(u16)
}
id! {
    /// Which builder.
    BuilderId(u16)
}
id! {
    /// The run number that people use in the logbook.
    RunNumber(u32)
}
id! {
    /// A number that is fresh for every supervisor start: it tells this life of a run from every other,
    /// and stands in every message and file record.
    Epoch(u64)
}
id! {
    /// Which life of a source or builder within a run: the supervisor counts its processes from 1. 0: not known yet.
    Incarnation(u32)
}

impl EventId {
    /// The first event of every run.
    pub const FIRST: Self = Self(1);

    /// The event after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// A process's part in a run: which role, and which one of it.
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
