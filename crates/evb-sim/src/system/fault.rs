//! [`Fault`]: faults of a scenario, and what operators do meanwhile.

use core::{fmt, time::Duration};

use evb_core::id::{BuilderId, Peer, SourceId};

use super::{disk::DiskState, weather::Weather};

/// A fault, or an action of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A process is killed, and another one is started.
    Kill {
        /// Peer whose process is killed.
        who: Peer,
        /// Time until the next process is started.
        down: Duration,
    },
    /// A host loses its power. Its peers are not notified, and its clock restarts.
    Reboot {
        /// Peer whose host it is.
        who: Peer,
        /// Time until it is back.
        down: Duration,
    },
    /// A process does nothing; its connections stay.
    Freeze {
        /// Peer whose process freezes.
        who: Peer,
        /// Duration.
        length: Duration,
    },
    /// A host is off the network.
    Cut {
        /// Peer whose host it is.
        who: Peer,
        /// Duration.
        length: Duration,
    },
    /// A source and a builder do not reach each other, but both reach the supervisor.
    Split {
        /// The source.
        source: SourceId,
        /// The builder.
        builder: BuilderId,
        /// Duration.
        length: Duration,
    },
    /// The datagrams of a source's present lanes are all lost, although their connections stay.
    Deaf {
        /// The source.
        who: Peer,
    },
    /// One connection of a host is reset.
    Reset {
        /// Peer whose host it is.
        who: Peer,
        /// Number that picks one of the open connections.
        pick: u64,
    },
    /// Messages between the supervisor and a peer are delayed.
    Stall {
        /// The peer.
        who: Peer,
        /// Duration.
        length: Duration,
    },
    /// A disk has a fault: a builder's, or the supervisor's with the journal.
    Disk {
        /// Peer whose disk it is.
        who: Peer,
        /// State of the disk.
        state: DiskState,
        /// Duration.
        length: Duration,
    },
    /// The network is worse than usual.
    Storm {
        /// State of the network.
        weather: Weather,
        /// Duration.
        length: Duration,
    },
    /// Many triggers arrive at once.
    Triggers {
        /// Number of triggers.
        count: u64,
    },
    /// A builder is added to the run.
    Add {
        /// The builder.
        builder: BuilderId,
    },
    /// A builder is removed from the run, and added again.
    Remove {
        /// The builder.
        builder: BuilderId,
        /// Time until it is added again.
        back: Duration,
    },
    /// The run is paused.
    Pause {
        /// Duration of the pause.
        length: Duration,
    },
    /// The run is stopped before its end.
    Stop,
}

impl Fault {
    /// Returns the fault's kind in one word.
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

    /// Returns its duration.
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

    /// Returns the same fault with another duration, if it has one.
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

    /// Returns the peer whose host or process it concerns.
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

/// A fault and the time at which it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Planned {
    /// Time after the run was opened.
    pub at: Duration,
    /// The run of the scenario, counted from 0.
    pub run: u32,
    /// The fault.
    pub fault: Fault,
}

impl fmt::Display for Planned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at {:?} of run {}: {:?}", self.at, self.run + 1, self.fault)
    }
}
