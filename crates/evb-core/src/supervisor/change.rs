//! [`RunChange`], and the reasons why an operator may not change or begin a run now.

use core::fmt;

use super::{
    TooFew,
    peer_names::{names, with_reasons},
};
use crate::{
    id::{BuilderId, EventId, Peer, SourceId},
    units::Frequency,
    wire::control::{MAX_BUILDERS, MAX_OUTSTANDING},
};

/// A change to a run that is under way.
#[derive(Clone, Debug, PartialEq)]
pub enum RunChange {
    /// Take no triggers until the run is resumed.
    Pause,
    /// Take triggers again.
    Resume,
    /// Set the mean rate of the run's own trigger.
    SetRate(Frequency),
    /// Let a further builder take part.
    AddBuilder(BuilderId),
    /// Give a builder no more events, and let it leave.
    RemoveBuilder(BuilderId),
    /// Take the present timestamps of a source as the right ones.
    Learn(SourceId),
    /// Exclude sources from events, or include them again.
    Owe(OwingRequest),
}

/// An operator's request to exclude sources, or to include them again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwingRequest {
    /// The sources. Those that are excluded or included already are left as they are.
    pub sources: Vec<SourceId>,
    /// True to exclude the sources, false to include them.
    pub excludes: bool,
    /// First event to which the change applies; `None`: the next event that is decided.
    pub from: Option<EventId>,
    /// The operator's reason.
    pub why: String,
}

/// Error: the supervisor has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the run is over, so it takes no more commands")]
pub struct RunOver;

/// Reason for which a held run does not begin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BeginError {
    /// A source or builder is missing, or the run has begun already.
    #[error(transparent)]
    NotReady(#[from] NotReady),
    /// The supervisor has ended.
    #[error(transparent)]
    Over(#[from] RunOver),
}

/// Reason why a run cannot begin now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotReady {
    /// The listed peers have not registered, or have left; each with the reason that it gave, if it
    /// gave one.
    Missing(Vec<(Peer, String)>),
    /// The listed sources are not connected to all builders yet.
    Unconnected(Vec<Peer>),
    /// The listed sources have no readout: none of their front ends is connected.
    NoReadout(Vec<Peer>),
    /// Too few sources of a group are connected to all builders and included.
    TooFew(TooFew),
    /// A peer cannot take part in the run, or left while the run began.
    Refused {
        /// The peer.
        peer: Peer,
        /// The reason that the peer gave.
        reason: String,
    },
    /// The listed peers did not prepare for the first event in time.
    Silent(Vec<Peer>),
    /// The storage of that builder knows the last run number that exists.
    NoNumber(Peer),
    /// The program that leads the run does not permit it, for this reason.
    Vetoed(String),
    /// The run has begun or ended already.
    Begun,
}

impl NotReady {
    /// Returns the reason and what to do. `names` returns the names of peers.
    pub(super) fn told(&self, names: impl Fn(&[Peer]) -> String) -> String {
        match self {
            Self::Missing(absent) => format!(
                "these have not registered with the supervisor: {}; start them on their hosts",
                with_reasons(absent, names)
            ),
            Self::Unconnected(peers) => format!(
                "these are not connected to all builders yet: {}; they try again by themselves, so wait some seconds, and if it lasts, check the network from them to the builders",
                names(peers)
            ),
            Self::NoReadout(peers) => {
                format!("no front end is connected to {}: start the readout programs", names(peers))
            }
            Self::TooFew(too_few) => too_few.to_string(),
            Self::Refused { peer, reason } => format!(
                "{} cannot take part: {reason}; correct that on its host, where the end of its log has the details",
                names(core::slice::from_ref(peer))
            ),
            Self::Silent(peers) => format!(
                "{} did not prepare for the run in time: look in the log of each, and whether a disk of the builders or an `on_start` of the sources hangs",
                names(peers)
            ),
            Self::NoNumber(peer) => format!(
                "there is no next run number, because the storage of {} knows run 4294967295, the largest possible number: move the files of that run elsewhere, or set `run.number` to a free number",
                names(core::slice::from_ref(peer))
            ),
            Self::Vetoed(reason) => format!("the run may not begin: {reason}; remove that cause"),
            Self::Begun => "the run has begun already; nothing needs to be done".to_owned(),
        }
    }
}

impl fmt::Display for NotReady {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.told(names))
    }
}

impl core::error::Error for NotReady {}

/// Reason why an operator's change of a run is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    /// The run has not begun, or no longer takes triggers.
    #[error("no run is under way; start one first with `evbd ctl start`")]
    NotRunning,
    /// The run is paused already.
    #[error("the run is paused already; `evbd ctl resume` continues it")]
    Paused,
    /// The run is not paused.
    #[error("the run is not paused; nothing needs to be done")]
    NotPaused,
    /// The run's trigger has no rate that could be changed.
    #[error(
        "the trigger of this run has no rate; for a rate, configure a trigger with `kind = \"periodic\"` or `\"poisson\"`"
    )]
    NoRate,
    /// The timestamps of that source are not compared.
    #[error(
        "the timestamps of source {0} are not compared; give it and another source a `clock` in the configuration"
    )]
    NoClock(SourceId),
    /// The run has no source with that id.
    #[error("the run has no source {0}; `evbd ctl status` lists its sources")]
    UnknownSource(SourceId),
    /// The source to be excluded is excluded already.
    #[error(
        "source {0} is excluded already; nothing needs to be done, and `evbd ctl include source {0}` lets it take part again"
    )]
    Excluded(SourceId),
    /// The source to be included is not excluded.
    #[error(
        "source {0} is not excluded; nothing needs to be done, and `evbd ctl status` lists those that are"
    )]
    NotExcluded(SourceId),
    /// Too few sources of a group take part, and the run would take no triggers.
    #[error(transparent)]
    TooFew(TooFew),
    /// No other source would owe fragments.
    #[error(
        "every other source is excluded, expendable or sporadic (`owes = \"none\"`), so events without source {0} could be empty; stop the run, or include another source first"
    )]
    LastSource(SourceId),
    /// The change should apply to an event that is decided already.
    #[error(
        "event {from} is past or under way already, and the next one is event {next}; give that or a later one, or leave out `from`"
    )]
    PastEvent {
        /// The event from which on the change should apply.
        from: EventId,
        /// The next event to be decided.
        next: EventId,
    },
    /// The builder to be added is part of the run already.
    #[error("builder {0} is part of the run already; nothing needs to be done")]
    KnownBuilder(BuilderId),
    /// The builder to be added was removed, and has not left the run yet.
    #[error("builder {0} is leaving the run; add it when it has left, which `evbd ctl status` shows")]
    LeavingBuilder(BuilderId),
    /// The run has no builder with that id, or the builder is leaving already.
    #[error(
        "the run has no builder {0} that could leave; `evbd ctl status` lists its builders, and nothing needs to be done for one that is leaving already"
    )]
    UnknownBuilder(BuilderId),
    /// The builder to be removed is the last one.
    #[error("builder {0} is the last one of the run; stop the run, or add another builder first")]
    LastBuilder(BuilderId),
    /// The run has as many builders as it can have: sources keep a lane to each builder, in sets of
    /// a fixed size.
    #[error(
        "a run has at most {MAX_BUILDERS} builders in all, also counting those that have left; stop the run, and let this one take part in the next"
    )]
    TooManyBuilders,
    /// With one more builder, more events could be outstanding than a run allows. The limit exists
    /// because one message tells sources of all outstanding events when a builder is lost.
    #[error(
        "with one more builder of {0} slots, more than {MAX_OUTSTANDING} events could be under way, the most of a run, also counting builders that have left; stop the run, and start the next with fewer `slots`"
    )]
    TooManyOutstanding(u32),
}
