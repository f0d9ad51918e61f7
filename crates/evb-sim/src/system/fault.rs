//! [`Fault`]: what goes wrong in a scenario, and what people do meanwhile.

use core::{fmt, time::Duration};

use evb_core::id::{BuilderId, Peer, SourceId};

use super::{disk::DiskState, weather::Weather};

/// What goes wrong, or what people do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A process is killed, and another one is started.
    Kill {
        /// Whose.
        who: Peer,
        /// So much later.
        down: Duration,
    },
    /// A host loses its power. Nobody hears of it, and its clock begins anew.
    Reboot {
        /// Whose.
        who: Peer,
        /// For so long.
        down: Duration,
    },
    /// A process does nothing; its connections stay.
    Freeze {
        /// Whose.
        who: Peer,
        /// For so long.
        length: Duration,
    },
    /// A host is off the network.
    Cut {
        /// Whose.
        who: Peer,
        /// For so long.
        length: Duration,
    },
    /// A source and a builder do not reach each other; the supervisor they do.
    Split {
        /// Which source.
        source: SourceId,
        /// Which builder.
        builder: BuilderId,
        /// For so long.
        length: Duration,
    },
    /// The datagrams of a source's present lanes get nowhere any more, though their connections
    /// live.
    Deaf {
        /// Whose.
        who: Peer,
    },
    /// One connection of a host is reset.
    Reset {
        /// Whose.
        who: Peer,
        /// Which, counted over those that are open.
        pick: u64,
    },
    /// What the supervisor and a peer say to each other is held up.
    Stall {
        /// Whose.
        who: Peer,
        /// For so long.
        length: Duration,
    },
    /// A disk is not well: a builder's, or the supervisor's with the journal.
    Disk {
        /// Whose.
        who: Peer,
        /// How it is.
        state: DiskState,
        /// For so long.
        length: Duration,
    },
    /// The network is worse than usual.
    Storm {
        /// How it is.
        weather: Weather,
        /// For so long.
        length: Duration,
    },
    /// So many triggers come at once.
    Triggers {
        /// How many.
        count: u64,
    },
    /// A builder is added to the run.
    Add {
        /// Which.
        builder: BuilderId,
    },
    /// A builder is removed from the run, and added again.
    Remove {
        /// Which.
        builder: BuilderId,
        /// So much later.
        back: Duration,
    },
    /// The run is paused.
    Pause {
        /// For so long.
        length: Duration,
    },
    /// The run is stopped before its end.
    Stop,
}

impl Fault {
    /// One word for its kind.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Kill { .. } => "kill",
            Self::Reboot { .. } => "reboot",
            Self::Freeze { .. } => "freeze",
            Self::Cut { .. } => "cut",
            Self::Split { .. } => "split",
            Self::Deaf { .. } => "deaf",
            Self::Reset { .. } => "reset",
            Self::Stall { .. } => "stall",
            Self::Disk { state: DiskState::Well | DiskState::Slow(_), .. } => "slow disk",
            Self::Disk { state: DiskState::Full, .. } => "full disk",
            Self::Disk { state: DiskState::Failing, .. } => "failing disk",
            Self::Disk { state: DiskState::Hanging, .. } => "hanging disk",
            Self::Storm { .. } => "storm",
            Self::Triggers { .. } => "triggers",
            Self::Add { .. } => "add",
            Self::Remove { .. } => "remove",
            Self::Pause { .. } => "pause",
            Self::Stop => "stop",
        }
    }

    /// How long it lasts.
    pub fn length(&self) -> Duration {
        match *self {
            Self::Kill { down: length, .. }
            | Self::Reboot { down: length, .. }
            | Self::Freeze { length, .. }
            | Self::Cut { length, .. }
            | Self::Split { length, .. }
            | Self::Stall { length, .. }
            | Self::Disk { length, .. }
            | Self::Storm { length, .. }
            | Self::Pause { length }
            | Self::Remove { back: length, .. } => length,
            Self::Reset { .. }
            | Self::Deaf { .. }
            | Self::Triggers { .. }
            | Self::Add { .. }
            | Self::Stop => Duration::ZERO,
        }
    }

    /// The same, and it lasts so long, if it lasts at all.
    #[must_use]
    pub fn lasting(mut self, new: Duration) -> Self {
        match &mut self {
            Self::Kill { down: length, .. }
            | Self::Reboot { down: length, .. }
            | Self::Freeze { length, .. }
            | Self::Cut { length, .. }
            | Self::Split { length, .. }
            | Self::Stall { length, .. }
            | Self::Disk { length, .. }
            | Self::Storm { length, .. }
            | Self::Pause { length }
            | Self::Remove { back: length, .. } => *length = new,
            Self::Reset { .. }
            | Self::Deaf { .. }
            | Self::Triggers { .. }
            | Self::Add { .. }
            | Self::Stop => {}
        }
        self
    }

    /// Whose host or process it is about.
    pub fn who(&self) -> Option<Peer> {
        match *self {
            Self::Kill { who, .. }
            | Self::Reboot { who, .. }
            | Self::Freeze { who, .. }
            | Self::Cut { who, .. }
            | Self::Deaf { who }
            | Self::Reset { who, .. }
            | Self::Stall { who, .. }
            | Self::Disk { who, .. } => Some(who),
            Self::Split { source, .. } => Some(Peer::Source(source)),
            Self::Add { builder } | Self::Remove { builder, .. } => Some(Peer::Builder(builder)),
            Self::Storm { .. } | Self::Triggers { .. } | Self::Pause { .. } | Self::Stop => None,
        }
    }
}

/// A fault, and when it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Planned {
    /// After the run was opened.
    pub at: Duration,
    /// In which run of the scenario, from 0.
    pub run: u32,
    /// What.
    pub fault: Fault,
}

impl fmt::Display for Planned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at {:?} of run {}: {:?}", self.at, self.run + 1, self.fault)
    }
}
