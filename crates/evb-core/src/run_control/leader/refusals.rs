//! Texts of refusals.

use crate::{
    id::Peer,
    ledger::Annotation,
    run_control::{Refusal, SystemError},
    supervisor::{NotReady, TooFew},
};

/// Advice where a request comes too late for its run.
pub(super) const NEXT_RUN: &str = "ask again when the next run is open, which `evbd ctl status` shows";

pub(super) fn refusal(request: &str, error: SystemError) -> Refusal {
    let SystemError { refused_by, reason, remedy } = error;
    Refusal { request: request.to_owned(), refused_by, reason, remedy }
}

/// Returns who keeps a run from beginning, why, and what to do. `named` returns a peer with its
/// name.
pub(super) fn not_ready(missing: &NotReady, named: impl Fn(Peer) -> String) -> SystemError {
    let names = |peers: &[Peer]| peers.iter().map(|peer| named(*peer)).collect::<Vec<_>>().join(", ");
    match missing {
        NotReady::Missing(missing) => {
            let peers: Vec<Peer> = missing.iter().map(|(peer, _)| *peer).collect();
            let known = missing.iter().filter(|(_, reason)| !reason.is_empty());
            let reasons: Vec<String> = known
                .map(|(peer, reason)| match peers.len() {
                    1 => reason.clone(),
                    _ => format!("{} ({reason})", named(*peer)),
                })
                .collect();
            let have = if peers.len() == 1 { "it has" } else { "they have" };
            let told = if reasons.is_empty() { String::new() } else { format!(": {}", reasons.join(", ")) };
            let reason = format!("{have} not registered with the supervisor{told}");
            SystemError::new(names(&peers), reason, start_them(&peers) + ", then start the run")
        }
        NotReady::TooFew(TooFew { group, present, at_least }) => SystemError::new(
            format!("group {group}"),
            format!("{present} of at least {at_least} sources take part"),
            "see in `evbd ctl status` which are missing, start or include them, or lower `at_least`, then start the run",
        ),
        NotReady::Refused { peer, reason } => SystemError::new(
            named(*peer),
            reason.clone(),
            "correct that on its host, where the end of its log has the details, then start the run",
        ),
        NotReady::Silent(peers) => SystemError::new(
            names(peers),
            "did not prepare for the run in time",
            "look in the log of each, and whether a disk of the builders or an `on_start` of the sources hangs, then start the run again",
        ),
        NotReady::NoNumber(peer) => {
            let reason =
                "its storage knows run 4294967295, the largest possible number, so there is no next one";
            let remedy = "move the files of that run elsewhere, or set `run.number` to a free number, then configure, and start the run";
            SystemError::new(named(*peer), reason, remedy)
        }
        NotReady::Unconnected(peers) => SystemError::new(
            names(peers),
            "not connected to all builders yet",
            "wait some seconds, because sources try again by themselves, or check the network from there to the builders, then start the run",
        ),
        NotReady::NoReadout(peers) => SystemError::new(
            names(peers),
            "no front end is connected",
            "start the readout programs, or set `require_readout = \"warn\"` in [control], then start the run",
        ),
        NotReady::Vetoed(reason) => {
            SystemError::new("the supervisor", reason.clone(), "remove that cause, then start the run")
        }
        NotReady::Begun => SystemError::new("the run", "it has begun already", "nothing needs to be done"),
    }
}

/// Returns how to start the missing peers, and how to go on without missing builders.
fn start_them(peers: &[Peer]) -> String {
    let role = |peer: &Peer| peer.to_string().replace(' ', ":");
    let mut remedy = match peers {
        [peer] => format!("start it on its host with `evbd run CONFIG --role {}`", role(peer)),
        _ => {
            let roles: Vec<String> = peers.iter().map(role).collect();
            format!(
                "start each on its host with `evbd run CONFIG --role ROLE`, ROLE being {}",
                roles.join(" or ")
            )
        }
    };
    let builders: Vec<&Peer> = peers.iter().filter(|peer| matches!(peer, Peer::Builder(_))).collect();
    match builders.as_slice() {
        [] => {}
        [Peer::Builder(id)] => {
            remedy += &format!(", or go on without builder {id}: `evbd ctl remove-builder {id}`");
        }
        _ => remedy += ", or go on without missing builders: `evbd ctl remove-builder ID` removes one",
    }
    remedy
}

/// Returns true if a start may succeed when missing peers have registered and connected, or when a
/// recovered run goes on.
pub(super) fn may_pass(reason: &NotReady) -> bool {
    matches!(reason, NotReady::Missing(_) | NotReady::Unconnected(_) | NotReady::TooFew(_) | NotReady::Begun)
}

/// Refuses an annotation that exceeds the limits of its length.
pub(super) fn too_long(annotation: &Annotation) -> Refusal {
    let reason = format!(
        "its kind has {} bytes (at most {} are allowed), and its comment {} (at most {})",
        annotation.kind.len(),
        Annotation::MAX_KIND,
        annotation.comment.len(),
        Annotation::MAX_COMMENT
    );
    refusal("start", SystemError::new("the run", reason, "shorten what is too long, and start again"))
}
