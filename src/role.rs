//! Common parts of the roles: the threads on which they run, and the end of a run.

mod turn_counters;
mod busy_poll;
pub(crate) mod facts;
mod link;
mod entry;
mod decline;
mod wakes;
mod greetings;
mod workers;
mod handle;

use std::{io, time::Duration};

use evb_core::{
    alignment::{ClockError, CounterError},
    lane::LaneError,
    quantities::{SAME_RELEASE, split_remedy, time},
    session::RoleFault,
    units::Bytes,
    wire::control::MalformedMessage,
};
use evb_net::{
    control::{ConnectError, LinkError},
    host,
    pacing::Transport,
    resolve::ResolveError,
};
pub use evb_shaper::cost::packet_cost;

pub(crate) use busy_poll::BusyPoll;
pub(crate) use decline::decline;
pub(crate) use entry::{AdmittedRole, JoinOutcome};
pub use evb_core::session::RunOutcome;
pub use evb_net::host::is_forked_child;
pub(crate) use greetings::Greetings;
pub(crate) use handle::{RoleHandle, RoleThread, hand_over};
pub(crate) use link::{Access, SupervisorLink, classify};
pub use turn_counters::TurnCounters;
pub(crate) use wakes::Wakes;

/// Number of control messages that a role takes in before it acts on them, so that a flood of
/// messages cannot use up memory.
pub(crate) const MESSAGES: usize = 64;

/// Words for a program that uses evb in a forked child.
pub(crate) const FORKED: &str = "this process was forked from one that uses evb, whose threads it does not have; use evb in the parent, or \
                                 start a new program";

/// Time to empty a port's queue below which cores are kept awake: a core takes up to some 100 µs to
/// leave its sleep on each side of a grant, and meanwhile the port falls idle.
pub const BRISK: Duration = Duration::from_millis(1);

/// Keeps this machine's cores awake if `asked` says so; if `asked` is `None`, decides by comparing
/// a port's `queue` with [`BRISK`].
pub(crate) fn keep_awake(asked: Option<bool>, queue: Duration) -> Option<host::Awake> {
    if !asked.unwrap_or(queue > Duration::ZERO && queue < BRISK) {
        return None;
    }
    let awake = host::keep_awake();
    if let Err(error) = &awake {
        tracing::info!(%error, "this process cannot keep its cores awake between packets, so it may work more slowly, but it loses no data: {error}; to change that, allow its user to write to /dev/cpu_dma_latency");
    }
    awake.ok()
}

/// Reason for which a role could not go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RoleError {
    /// This process is a forked child of one that has used evb.
    #[error("{}", FORKED)]
    Forked,
    /// The supervisor could not be reached, or refused the role.
    #[error("cannot join the run: {0}")]
    Join(#[from] ConnectError),
    /// The address to listen on is not local, or it is taken.
    #[error(
        "cannot listen on {address}: {reason}; give a free address of this host, or stop the program that uses this one"
    )]
    Listen {
        /// The address that cannot be listened on.
        address: String,
        /// The operating system's error.
        reason: io::Error,
    },
    /// An address that cannot be resolved.
    #[error(transparent)]
    Resolve(#[from] ResolveError),
    /// The supervisor sent bytes that are no control message.
    #[error("the supervisor broke the protocol: {0}")]
    Supervisor(#[from] LinkError),
    /// The control connection broke during the run, and the role could not connect again.
    #[error(
        "lost the supervisor ({}), and could not register again within {}: {}; {}, then start this role again; {held}",
        split_remedy(cause).0,
        time(*tried),
        split_remedy(last).0,
        split_remedy(last).1.unwrap_or("if the supervisor is down, start it")
    )]
    Abandoned {
        /// Reason for which the connection broke.
        cause: String,
        /// Time for which the role tried to register again.
        tried: Duration,
        /// Result of the last attempt to register.
        last: String,
        /// Number of events or fragments that this role still holds, in words.
        held: String,
    },
    /// The supervisor sent a malformed message.
    #[error("the supervisor broke the protocol: {0}; {SAME_RELEASE}")]
    Malformed(#[from] MalformedMessage),
    /// The supervisor sent a roster that contradicts earlier information.
    #[error("the supervisor broke the protocol: {0}; {SAME_RELEASE}")]
    Roster(String),
    /// A peer's lane cannot begin.
    #[error(
        "a connection (lane) of this role cannot begin, because its other side, which the lines above name, broke the protocol: {0}; {SAME_RELEASE}"
    )]
    Lane(#[from] LaneError),
    /// The source's trigger counter cannot be.
    #[error(
        "the trigger counter of this source's boards cannot be as its configuration says: {0}; correct `counter` of this source"
    )]
    Counter(#[from] CounterError),
    /// The source has a trigger counter, and readout on demand.
    #[error(
        "this source makes fragments on demand, of the events that evb names, so it has no trigger counter; leave `counter` out, or push fragments"
    )]
    CounterOnDemand,
    /// The sink could not begin.
    #[error(
        "this builder's sink cannot begin, so the builder takes no part in the run: {}; {}, then start the builder again",
        split_remedy(.0).0,
        split_remedy(.0).1.unwrap_or("repair the sink's directory or program, or give another `sink` in the configuration")
    )]
    Sink(String),
    /// The sink's thread is gone: the sink has panicked.
    #[error(
        "this builder's sink crashed, which is a fault of the sink; this builder ends, and other builders build its events: correct the sink, then start the builder again"
    )]
    SinkGone,
    /// The operating system refused a thread, a timer or a runtime.
    #[error("{}", of_system(.0))]
    System(#[from] io::Error),
    /// The builder's memory would exceed its limit.
    #[error(
        "this builder needs {needed} of memory for its slots (each has room for the largest event, the sum of max_fragment of all sources, and over UDP also for data out of order), more than its limit of {limit}; lower `slots` or `max_fragment`, or raise `memory`"
    )]
    Memory {
        /// Memory for full slots and for bytes that arrive out of order.
        needed: Bytes,
        /// The limit.
        limit: Bytes,
    },
    /// The configured transport is not part of this build.
    #[error(
        "this program was built without UDP: build it with the feature `udp` of evb, or set the transport to TCP on all sides"
    )]
    NoUdp,
    /// A quantity of the source's clock is out of range.
    #[error("this source's clock cannot be used: {0}; correct `clock` in its configuration")]
    Clock(#[from] ClockError),
    /// The task that started the role did not wait until the role had joined.
    #[error(
        "the program that started this role stopped waiting before the role had joined the run: let the program wait longer, or see in the log why the role could not join"
    )]
    Unwanted,
    /// The embedding program aborted the role.
    #[error("the program that embeds this role aborted it; start it again if that was not intended")]
    Aborted,
    /// The role's thread ended without a result, which is a defect of evb.
    #[error(
        "this role's thread ended without a result, which is a fault of evb: start the role again, and report this with its log"
    )]
    Vanished,
}

impl From<RoleFault> for RoleError {
    fn from(fault: RoleFault) -> Self {
        match fault {
            RoleFault::Abandoned { cause, tried, last, held } => Self::Abandoned { cause, tried, last, held },
            RoleFault::Malformed(fault) => Self::Malformed(fault),
            RoleFault::Roster(problem) => Self::Roster(problem),
            RoleFault::Memory { needed, limit } => Self::Memory { needed, limit },
            RoleFault::SinkGone => Self::SinkGone,
            // The connecting task has reported the details.
            RoleFault::NotJoined(_) | RoleFault::Unreadable(_) => Self::Vanished,
        }
    }
}

/// Returns the words for an error of the operating system. The words of evb have their own remedy.
fn of_system(error: &io::Error) -> String {
    if error.get_ref().is_some() {
        return error.to_string();
    }
    format!(
        "the operating system refused this role a thread, a timer, a socket or a file: {error}; raise the limits of this process, which `ulimit -a` shows, then start it again"
    )
}

/// Refuses a transport that is not part of this build.
pub(crate) fn check_transport(transport: Transport) -> Result<(), RoleError> {
    let is_built = cfg!(feature = "udp") || transport == Transport::Tcp;
    if is_built { Ok(()) } else { Err(RoleError::NoUdp) }
}
