//! Names of peers and messages for log lines and reasons.

#[cfg(test)]
mod tests;

use super::RunPlan;
pub(super) use crate::id::ranges;
use crate::{
    id::Peer,
    wire::control::{MAX_REASON, Message, plain},
};

/// Most peers that are listed with their names.
const FEW: usize = 5;

/// Returns peers as ranges of ids by role: `sources 1-4, 7, builder 2`. The peers of a role must
/// ascend.
pub(super) fn names(peers: &[Peer]) -> String {
    let sources = peers.iter().filter_map(|peer| match peer {
        Peer::Source(id) => Some(id.number()),
        _ => None,
    });
    let builders = peers.iter().filter_map(|peer| match peer {
        Peer::Builder(id) => Some(id.number()),
        _ => None,
    });
    let (sources, builders): (Vec<u16>, Vec<u16>) = (sources.collect(), builders.collect());
    let of_role = |(role, ids): (&str, Vec<u16>)| match ids.len() {
        0 => None,
        1 => Some(format!("{role} {}", ids[0])),
        _ => Some(format!("{role}s {}", ranges(ids))),
    };
    [("source", sources), ("builder", builders)]
        .into_iter()
        .filter_map(of_role)
        .collect::<Vec<_>>()
        .join(", ")
}

/// Returns a text from a peer without control characters, shortened to fit a log line.
pub(super) fn short(text: &str) -> String {
    plain(text, 200)
}

/// Returns a peer's reason for refusing or leaving, limited in length and without control
/// characters. The result is never empty: a peer may send a reason that is.
pub(super) fn reason_of(text: &str) -> String {
    let reason = plain(text, MAX_REASON);
    if reason.trim().is_empty() { "it gave no reason".to_owned() } else { reason }
}

/// Returns peers with their names in the plan if they are few and any has a name; else as [`names`]
/// does.
pub(super) fn names_in(plan: &RunPlan, peers: &[Peer]) -> String {
    if peers.len() > FEW || peers.iter().all(|peer| plan.name_of(*peer).is_empty()) {
        return names(peers);
    }
    peers.iter().map(|peer| plan.named(*peer)).collect::<Vec<_>>().join(", ")
}

/// Returns the names of peers, from `names`, with their reasons, if there are any. Peers with the
/// same reason, as those of one process, are named together.
pub(super) fn with_reasons(peers: &[(Peer, String)], names: impl Fn(&[Peer]) -> String) -> String {
    let mut all: Vec<(&str, Vec<Peer>)> = Vec::new();
    for (peer, reason) in peers {
        match all.iter_mut().find(|(known, _)| known == reason) {
            Some((_, same)) => same.push(*peer),
            None => all.push((reason, vec![*peer])),
        }
    }
    // Those without a reason are the last.
    all.sort_by_key(|(reason, _)| reason.is_empty());
    let sentences = all.into_iter().map(|(reason, peers)| match reason {
        "" => names(&peers),
        reason => format!("{} ({reason})", names(&peers)),
    });
    sentences.collect::<Vec<_>>().join(", ")
}

/// Returns the name of a peer's role.
pub(super) fn role(peer: Peer) -> &'static str {
    match peer {
        Peer::Supervisor => "supervisor",
        Peer::Source(_) => "source",
        Peer::Builder(_) => "builder",
    }
}

/// Returns the reason why a peer that sent such a message is turned out.
pub(super) fn not_its_to_send(message: &Message, peer: Peer) -> String {
    format!("it sent a message that no {} may send ({})", role(peer), kind(message))
}

/// Returns the name of a message's kind.
pub(super) fn kind(message: &Message) -> &'static str {
    match message {
        Message::Roster(_) => "a roster",
        Message::Decisions(_) => "decisions",
        Message::Assignments(_) => "assignments",
        Message::Completions(_) => "completions",
        Message::Heartbeat(_) => "a heartbeat",
        Message::Stop(_) => "a stop message",
        Message::Finish(_) => "a finish message",
        Message::Report(_) => "a report",
        Message::RunEnd(_) => "a run-end message",
        Message::Triggers(_) => "triggers",
        Message::Ready(_) => "a ready message",
        Message::Accounted(_) => "an accounted message",
        Message::Accepted(_) => "an accepted message",
        Message::Holdings(_) => "holdings",
        Message::Begin(_) => "a begin message",
        Message::Begun(_) => "a begun message",
        Message::Leaving(_) => "a leaving message",
        Message::Readout(_) => "the state of a readout",
        Message::Alignment(_) => "doubts about clocks",
        Message::ReadingsWanted(_) => "a question for timestamps",
        Message::Readings(_) => "timestamps",
        Message::Learn(_) => "a learn message",
        Message::Episodes(_) => "episodes",
        Message::Changes(_) => "changes of sources",
    }
}
