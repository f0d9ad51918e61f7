//! Names of peers and messages for log lines and reasons.

use crate::{id::Peer, wire::control::Message};

/// Returns a text from a peer without control characters, shortened to fit a log line.
pub(super) fn short(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(200).collect()
}

/// Returns the name of a peer's role.
pub(super) fn role(peer: Peer) -> &'static str {
    match peer {
        Peer::Supervisor => "supervisor",
        Peer::Source(_) => "source",
        Peer::Builder(_) => "builder",
    }
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
    }
}
