//! Common parts of the roles: their own threads, and the end of a run.

mod beats;
mod busy_poll;
pub(crate) mod facts;
mod link;
mod entry;
mod greetings;

use std::{future::Future, io, time::Duration};

use evb_core::{lane::LaneError, session::RoleFault, units::Bytes, wire::control::MalformedMessage};
use evb_net::{
    control::{ConnectError, LinkError},
    host,
    pacing::Transport,
    resolve::ResolveError,
    security::{PARCEL_OVERHEAD, tag::TAG_LENGTH},
};
use evb_shaper::cost::PacketCost;
use tokio::sync::{mpsc, oneshot, watch};

pub use beats::Beats;
pub(crate) use busy_poll::BusyPoll;
pub(crate) use entry::{Beginning, Entry};
pub use evb_core::session::RunOutcome;
pub(crate) use greetings::Greetings;
pub(crate) use link::{Access, SupervisorLink, classify};

/// Control messages that a role takes in before it acts on them; bounds what a flood of them can
/// pile up.
pub(crate) const MESSAGES: usize = 64;

/// Time to empty a port's queue below which cores are kept awake: a core takes up to some 100 µs to
/// leave its sleep on each side of a grant, and meanwhile the port falls idle.
pub const BRISK: Duration = Duration::from_millis(1);

/// Keeps this machine's cores awake if configured, or else if a port's queue empties in less than
/// [`BRISK`].
pub(crate) fn keep_awake(asked: Option<bool>, queue: Duration) -> Option<host::Awake> {
    if !asked.unwrap_or(queue > Duration::ZERO && queue < BRISK) {
        return None;
    }
    let awake = host::keep_awake();
    if let Err(error) = &awake {
        tracing::info!(%error, "cores may sleep between packets, and grants are late by what it takes to wake them; allow writing to /dev/cpu_dma_latency");
    }
    awake.ok()
}

/// A request to a role that it ask for the end of the run.
#[derive(Clone, Debug)]
pub(crate) struct StopRequest(mpsc::Sender<String>);

impl StopRequest {
    /// Creates a request and the driver's end of it.
    pub(crate) fn new() -> (Self, mpsc::Receiver<String>) {
        let (sender, receiver) = mpsc::channel(1);
        (Self(sender), receiver)
    }

    /// Sends the request; repeated requests have no effect.
    pub(crate) fn send(&self, cause: &str) {
        // The channel is full after an earlier request, and closed when the role is over.
        let _ = self.0.try_send(cause.to_owned());
    }
}

/// Reason for which a role could not go on.
#[derive(Debug, thiserror::Error)]
pub enum RoleError {
    /// The supervisor could not be reached, or refused us.
    #[error("cannot join the run: {0}")]
    Join(#[from] ConnectError),
    /// The address to listen on is not local, or it is taken.
    #[error("cannot listen on {address}: {reason}; is another evbd running there?")]
    Listen {
        /// The address.
        address: String,
        /// The system's error.
        reason: io::Error,
    },
    /// An address that cannot be resolved.
    #[error(transparent)]
    Resolve(#[from] ResolveError),
    /// The supervisor sent bytes that are no control message.
    #[error("the supervisor broke the protocol: {0}")]
    Supervisor(#[from] LinkError),
    /// The control connection broke during the run, and no new one succeeded.
    #[error("lost the supervisor ({cause}), and could not register again within {tried:.1?}: {last}; {held}")]
    Abandoned {
        /// Reason for which the connection broke.
        cause: String,
        /// Time for which the role tried to register again.
        tried: Duration,
        /// Result of the last try.
        last: String,
        /// Events or fragments that this role still holds.
        held: String,
    },
    /// The supervisor sent a malformed message.
    #[error("the supervisor broke the protocol: {0}")]
    Malformed(#[from] MalformedMessage),
    /// The supervisor sent a roster that contradicts what this role knows.
    #[error("the supervisor broke the protocol: {0}")]
    Roster(String),
    /// A peer's lane cannot begin.
    #[error("a lane cannot begin: {0}")]
    Lane(#[from] LaneError),
    /// The sink could not begin.
    #[error("the sink cannot begin: {0}")]
    Sink(String),
    /// The sink's thread is gone: the sink has panicked.
    #[error("the sink's thread is gone: the sink panicked; this builder ends, and others build what it had")]
    SinkGone,
    /// The system refused a thread, a timer or a runtime.
    #[error("the system refused: {0}")]
    System(#[from] io::Error),
    /// Builder memory would exceed its limit.
    #[error(
        "slots × Σ max_fragment, and over UDP what may come out of order, are {needed}, more than this builder's memory limit of {limit}: lower `slots` or `max_fragment`, or raise `memory`"
    )]
    Memory {
        /// Memory for full slots and for bytes that arrive out of order.
        needed: Bytes,
        /// The limit.
        limit: Bytes,
    },
    /// The task that started it did not wait until it had joined.
    #[error("nobody waits for it any more")]
    Unwanted,
    /// The role's thread ended without a result, which is a defect of evb.
    #[error("the role ended without saying why")]
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
            // The task that connected has reported the details.
            RoleFault::NotJoined(_) | RoleFault::Unreadable(_) => Self::Vanished,
        }
    }
}

/// The end of a role's run, for the tasks that wait for it.
pub(crate) type Ending = watch::Receiver<Option<Result<RunOutcome, std::sync::Arc<RoleError>>>>;

/// Waits until the role has ended.
pub(crate) async fn ended(ending: &mut Ending) -> Result<RunOutcome, std::sync::Arc<RoleError>> {
    let ended = ending.wait_for(Option::is_some).await;
    let vanished = || Err(std::sync::Arc::new(RoleError::Vanished));
    ended.map_or_else(|_| vanished(), |end| end.clone().unwrap_or_else(vanished))
}

/// The value that a role hands to its starter once it has joined, and the channel that confirms the
/// receipt: see [`hand_over`].
pub(crate) type Joined<T> = (T, oneshot::Sender<()>);

/// Runs a role on a thread and runtime of its own, pinned to `core` if given, so that it shares no
/// core with others and no blocking readout or sink can delay it. Waits until it has joined;
/// returns the value that it handed over and a watch of its end.
///
/// # Errors
/// The reason for which it ended before it had joined.
pub(crate) async fn on_own_thread<T, F>(
    name: String,
    core: Option<usize>,
    role: impl FnOnce(oneshot::Sender<Joined<T>>) -> F + Send + 'static,
) -> Result<(T, Ending), RoleError>
where
    T: Send + 'static,
    F: Future<Output = Result<RunOutcome, RoleError>>,
{
    let (joined, has_joined) = oneshot::channel();
    let (early, ended_early) = oneshot::channel();
    let (end, ending) = watch::channel(None);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    std::thread::Builder::new().name(name.clone()).spawn(move || {
        if let Some(core) = core
            && let Err(error) = host::pin_to_core(core)
        {
            tracing::warn!(role = name.as_str(), core, %error, "cannot pin to that core; running on any");
        }
        let outcome = runtime.block_on(role(joined));
        if let Err(error) = &outcome {
            match error {
                RoleError::Unwanted => tracing::debug!(role = name.as_str(), "not wanted any more"),
                // The ledger states what this costs.
                _ => tracing::warn!(role = name.as_str(), %error, "ended by an error"),
            }
        }
        let shared = match outcome {
            Ok(outcome) => Ok(outcome),
            // A task that still waits for the role to join gets the error itself, and no other task
            // can ask for it.
            Err(error) => match early.send(error) {
                Ok(()) => return,
                Err(error) => Err(std::sync::Arc::new(error)),
            },
        };
        end.send_replace(Some(shared));
    })?;
    let Ok((what, taken)) = has_joined.await else {
        return Err(ended_early.await.unwrap_or(RoleError::Vanished));
    };
    // This must happen before the role goes on: its end is reported through `ending` from now on.
    drop(ended_early);
    let _ = taken.send(());
    Ok((what, ending))
}

/// Returns the cost of lane bytes on the wire, including the tags that protect them if they are
/// protected.
pub fn packet_cost(transport: Transport, mtu: u32, cell: Bytes, is_protected: bool) -> PacketCost {
    let (cost, tag) = match transport {
        Transport::Tcp => (PacketCost::tcp(mtu, cell), PARCEL_OVERHEAD),
        Transport::Udp => (PacketCost::udp(mtu, cell), TAG_LENGTH),
    };
    if is_protected { cost.tagged(Bytes::new(tag as u64)) } else { cost }
}

/// Tells the starter of a role that it has joined, and waits until the starter has received this.
/// Without the receipt, a starter that is gone would leave a role in the run that has no owner.
pub(crate) async fn hand_over<T>(joined: oneshot::Sender<Joined<T>>, what: T) -> Result<(), RoleError> {
    let (taken, is_taken) = oneshot::channel();
    joined.send((what, taken)).map_err(|_| RoleError::Unwanted)?;
    is_taken.await.map_err(|_| RoleError::Unwanted)
}

#[cfg(test)]
mod tests;
