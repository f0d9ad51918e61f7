//! [`Admission`]: the check of connections by which sources open lanes at a builder.

#[cfg(test)]
mod tests;

use core::time::Duration;

use super::RunIdentity;
use crate::{
    id::{BuilderId, Incarnation, Peer, SourceId},
    wire::control::{Hello, Reason, Refusal},
};

/// Most handshakes in progress at one listener; further connections wait in the kernel's queue
/// (docs/reference/protocol.md CONN-7).
pub const GREETINGS: usize = 64;

/// Longest time that a handshake may take (docs/reference/protocol.md CONN-6).
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// Time after which a listener with too many handshakes closes one that is not complete, beside the
/// round trips that a handshake takes. Hundreds of silent connections must not keep a peer out for
/// the full time limit of each.
const GREETING_PATIENCE: Duration = Duration::from_millis(250);

/// Number of round trips of a handshake with a key, from its first message to the welcome, and one
/// for a packet that is lost.
const GREETING_ROUND_TRIPS: u32 = 3;

/// Longest round trip that a listener waits for. A stranger can pretend any.
const LONGEST_ROUND_TRIP: Duration = Duration::from_millis(400);

/// Returns the time after which a listener with too many handshakes closes one that is not
/// complete. `round_trip` is that of its connection.
/// Requirements: docs/reference/protocol.md CONN-7.
pub fn greeting_patience(round_trip: Duration) -> Duration {
    GREETING_PATIENCE + GREETING_ROUND_TRIPS * round_trip.min(LONGEST_ROUND_TRIP)
}

/// Time without an acknowledgement after which the kernel closes a control connection.
pub const CONTROL_UNACKNOWLEDGED: Duration = Duration::from_secs(10);

/// Time for which sent bytes may lack an acknowledgement before the kernel closes the connection of
/// a lane.
pub const LANE_UNACKNOWLEDGED: Duration = Duration::from_secs(5);

/// The rule for opening a lane at a builder: only sources of the builder's run may open one, and
/// only to the builder's present incarnation.
#[derive(Clone, Debug)]
pub struct Admission {
    /// Id of the builder.
    pub builder: BuilderId,
    /// Run of the builder.
    pub identity: RunIdentity,
    /// Incarnation of the builder.
    pub incarnation: Incarnation,
    /// True if the builder's lanes use datagrams.
    pub datagrams: bool,
}

impl Admission {
    /// Returns the lane of a source that may open it: the source's position in `sources`, which are
    /// ascending.
    /// Requirements: docs/reference/protocol.md CONN-8, CONN-9, CONN-19.
    ///
    /// # Errors
    /// Returns a [`Refusal`] for the peer and for the log if the source may not open the lane.
    pub fn check(&self, hello: &Hello, sources: &[SourceId]) -> Result<usize, Refusal> {
        let because = |reason, detail: String| Err(Refusal::because(reason, detail));
        let ours = Peer::Builder(self.builder);
        let Some(theirs) = hello.from_peer() else {
            return because(Reason::Malformed, "its first message does not say which role it is: install the same release of evb on both hosts".to_owned());
        };
        if hello.to_peer() != Some(ours) {
            let wanted = hello.to_peer().map_or_else(|| "another role".to_owned(), |peer| peer.to_string());
            return because(
                Reason::WrongId,
                format!(
                    "this is {ours}, but {theirs} wants {wanted}: check the addresses in the configuration"
                ),
            );
        }
        let Peer::Source(source) = theirs else {
            return because(
                Reason::WrongRole,
                format!("{ours} takes data from sources only: check the addresses in the configuration"),
            );
        };
        if hello.datagrams != self.datagrams {
            let (wanted, has) = (transport(hello.datagrams), transport(self.datagrams));
            return because(
                Reason::Configuration,
                format!(
                    "{ours} takes data over {has}, but {theirs} wants {wanted}: set the same `network.transport` for both"
                ),
            );
        }
        let RunIdentity { id, run, .. } = self.identity;
        if hello.known_run() != Some(id) {
            let (own, wanted) = (id.short(), hello.run_id.short());
            let detail = format!(
                "{ours} is in run {run} ({own}), but {theirs} is in the run {wanted}; it tries again by itself, and if that does not help, start both again"
            );
            return because(Reason::Run, detail);
        }
        let Ok(lane) = sources.binary_search(&source) else {
            let detail = format!(
                "source {source} is not in this run of {ours}: check that both have the same configuration"
            );
            return because(Reason::UnknownPeer, detail);
        };
        if hello.to_incarnation != self.incarnation.number() {
            let (own, wanted) = (self.incarnation, hello.to_incarnation);
            let detail = format!(
                "{ours} was started again in this run (as process {own} of it), but this connection is for its process {wanted}; the source connects to the new one by itself, so nothing needs to be done"
            );
            return because(Reason::Incarnation, detail);
        }
        Ok(lane)
    }
}

fn transport(datagrams: bool) -> &'static str {
    if datagrams { "UDP" } else { "TCP" }
}
