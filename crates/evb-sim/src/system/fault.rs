//! [`Fault`]: the faults of a scenario, and the actions of operators in it.

use core::{fmt, time::Duration};

use evb_core::id::{BuilderId, Peer, SourceId};

use super::{conditions::Conditions, disk::DiskState};

/// A fault, or an action of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A process is killed, and a new process is started later.
    Kill {
        /// Peer whose process is killed.
        who: Peer,
        /// Time until the next process is started.
        down: Duration,
    },
    /// A host loses its power. The peers of the host are not notified, and its clock restarts.
    Reboot {
        /// Peer whose host loses its power.
        who: Peer,
        /// Time until the host is back.
        down: Duration,
    },
    /// A process is frozen: it does nothing, but its connections stay open.
    Freeze {
        /// Peer whose process freezes.
        who: Peer,
        /// Duration of the freeze.
        length: Duration,
    },
    /// A process is sometimes late by milliseconds, and then handles all that has arrived at once.
    Late {
        /// Peer whose process is late.
        who: Peer,
        /// Longest delay.
        by: Duration,
        /// Mean number of times that the process runs between two delays.
        every: u64,
        /// Duration of the fault.
        length: Duration,
    },
    /// The readout of a source delivers nothing, and loses what it reads out meanwhile.
    Mute {
        /// The source.
        who: Peer,
        /// True if its front end closes the connection as well.
        is_gone: bool,
        /// Time until it delivers again.
        length: Duration,
    },
    /// A host is disconnected from the network.
    Cut {
        /// Peer whose host is disconnected.
        who: Peer,
        /// Time until the host is connected again.
        length: Duration,
    },
    /// The network between a source and a builder is interrupted, while both can still reach the
    /// supervisor.
    Split {
        /// The source.
        source: SourceId,
        /// The builder.
        builder: BuilderId,
        /// Duration of the interruption.
        length: Duration,
    },
    /// All datagrams of a source's present lanes are lost, although the TCP connections of the
    /// lanes stay open.
    Deaf {
        /// The source.
        who: Peer,
    },
    /// One connection of a host is reset.
    Reset {
        /// Peer whose host has the connection.
        who: Peer,
        /// Number that selects one of the host's open connections, modulo their count.
        pick: u64,
    },
    /// Messages between the supervisor and a peer are delayed.
    Stall {
        /// The peer.
        who: Peer,
        /// Duration of the delay.
        length: Duration,
    },
    /// The disk of a builder, or the supervisor's disk with the journal, has a fault.
    Disk {
        /// Peer whose disk has the fault.
        who: Peer,
        /// State of the disk during the fault.
        state: DiskState,
        /// Duration of the disk fault.
        length: Duration,
    },
    /// The network treats its traffic worse than usual for some time.
    Storm {
        /// State of the network during the fault.
        weather: Conditions,
        /// Duration of the bad network conditions.
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
    /// A builder is removed from the run, and added again later.
    Remove {
        /// The builder.
        builder: BuilderId,
        /// Time until the builder is added again.
        back: Duration,
    },
    /// A source is excluded from the events, and included again later.
    Exclude {
        /// The source.
        source: SourceId,
        /// Number of events between the last decided one and the first without the source; 0: the
        /// next event has none, and earlier ones do not wait.
        ahead: u64,
        /// Time until the source is included again.
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
    /// Returns the name of the kind of fault, in one or two words.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Kill { .. } => "kill",
            Self::Reboot { .. } => "reboot",
            Self::Freeze { .. } => "freeze",
            Self::Late { .. } => "late",
            Self::Mute { is_gone: false, .. } => "silent readout",
            Self::Mute { is_gone: true, .. } => "dead readout",
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
            Self::Exclude { ahead: 0, .. } => "exclude",
            Self::Exclude { .. } => "exclude later",
            Self::Pause { .. } => "pause",
            Self::Stop => "stop",
        }
    }

    /// Returns the duration of the fault; zero for a fault without a duration.
    pub fn length(&self) -> Duration {
        match *self {
            Self::Kill { down: length, .. }
            | Self::Reboot { down: length, .. }
            | Self::Freeze { length, .. }
            | Self::Late { length, .. }
            | Self::Mute { length, .. }
            | Self::Cut { length, .. }
            | Self::Split { length, .. }
            | Self::Stall { length, .. }
            | Self::Disk { length, .. }
            | Self::Storm { length, .. }
            | Self::Pause { length }
            | Self::Exclude { back: length, .. }
            | Self::Remove { back: length, .. } => length,
            Self::Reset { .. }
            | Self::Deaf { .. }
            | Self::Triggers { .. }
            | Self::Add { .. }
            | Self::Stop => Duration::ZERO,
        }
    }

    /// Returns the fault with its duration replaced by `new`, if it has a duration.
    #[must_use]
    pub fn lasting(mut self, new: Duration) -> Self {
        match &mut self {
            Self::Kill { down: length, .. }
            | Self::Reboot { down: length, .. }
            | Self::Freeze { length, .. }
            | Self::Late { length, .. }
            | Self::Mute { length, .. }
            | Self::Cut { length, .. }
            | Self::Split { length, .. }
            | Self::Stall { length, .. }
            | Self::Disk { length, .. }
            | Self::Storm { length, .. }
            | Self::Pause { length }
            | Self::Exclude { back: length, .. }
            | Self::Remove { back: length, .. } => *length = new,
            Self::Reset { .. }
            | Self::Deaf { .. }
            | Self::Triggers { .. }
            | Self::Add { .. }
            | Self::Stop => {}
        }
        self
    }

    /// Returns the peer whose host or process the fault affects, if there is one.
    pub fn who(&self) -> Option<Peer> {
        match *self {
            Self::Kill { who, .. }
            | Self::Reboot { who, .. }
            | Self::Freeze { who, .. }
            | Self::Late { who, .. }
            | Self::Mute { who, .. }
            | Self::Cut { who, .. }
            | Self::Deaf { who }
            | Self::Reset { who, .. }
            | Self::Stall { who, .. }
            | Self::Disk { who, .. } => Some(who),
            Self::Split { source, .. } | Self::Exclude { source, .. } => Some(Peer::Source(source)),
            Self::Add { builder } | Self::Remove { builder, .. } => Some(Peer::Builder(builder)),
            Self::Storm { .. } | Self::Triggers { .. } | Self::Pause { .. } | Self::Stop => None,
        }
    }
}

/// A fault and the time at which it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Planned {
    /// Time from the opening of the run to the begin of the fault.
    pub at: Duration,
    /// Number of the run in the scenario, counted from 0.
    pub run: u32,
    /// The fault.
    pub fault: Fault,
}

impl fmt::Display for Planned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at {:?} of run {}: {:?}", self.at, self.run + 1, self.fault)
    }
}
