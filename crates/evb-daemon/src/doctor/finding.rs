//! A finding: what is so, how good that is for event building, why, and what improves it.

use serde_json::{Value, json};

use evb_net::host::Unavailable;

/// How good a fact is for event building.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Verdict {
    /// Nothing to do.
    Good,
    /// The fact is not known, or nothing follows from it.
    Unknown,
    /// evb works, and would work better.
    Better,
    /// evb does not keep its promises.
    Bad,
}

impl Verdict {
    /// In words.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Unknown => "unknown",
            Self::Better => "could be better",
            Self::Bad => "bad",
        }
    }
}

/// What a finding is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Subject {
    /// The host as a whole.
    Host,
    /// Its sockets.
    Sockets,
    /// A network device.
    Device(String),
    /// The way to a peer.
    Path(String),
    /// The configuration on this host.
    Configuration,
}

impl Subject {
    /// The group that people and machines find it in.
    pub(super) fn group(&self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Sockets => "sockets",
            Self::Device(_) => "device",
            Self::Path(_) => "path",
            Self::Configuration => "configuration",
        }
    }

    /// The device's or peer's name.
    pub(super) fn name(&self) -> Option<&str> {
        match self {
            Self::Device(name) | Self::Path(name) => Some(name),
            _ => None,
        }
    }
}

/// What is so, how good, why, and what improves it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Finding {
    /// What it is about.
    pub(super) subject: Subject,
    /// Its name in all outputs.
    pub(super) name: &'static str,
    /// What is so, for people.
    pub(super) value: String,
    /// The same, for machines.
    pub(super) data: Value,
    /// How good that is.
    pub(super) verdict: Verdict,
    /// Why it matters for event building.
    pub(super) why: String,
    /// What improves it.
    pub(super) command: Option<String>,
    /// Whether the fact could not be read at all.
    pub(super) unavailable: bool,
}

impl Finding {
    /// A fact, not yet judged, with the reason why it matters.
    pub(super) fn new(
        subject: Subject,
        name: &'static str,
        value: impl Into<String>,
        why: impl Into<String>,
    ) -> Self {
        Self {
            subject,
            name,
            value: value.into(),
            data: Value::Null,
            verdict: Verdict::Unknown,
            why: why.into(),
            command: None,
            unavailable: false,
        }
    }

    /// A fact that cannot be read.
    pub(super) fn missing(
        subject: Subject,
        name: &'static str,
        reason: &Unavailable,
        why: impl Into<String>,
    ) -> Self {
        let value = format!("not available: {reason}");
        Self { unavailable: true, ..Self::new(subject, name, value, why) }
    }

    /// The same for machines.
    pub(super) fn data(self, data: Value) -> Self {
        Self { data, ..self }
    }

    /// Nothing to do.
    pub(super) fn good(self) -> Self {
        Self { verdict: Verdict::Good, ..self }
    }

    /// Works, but would work better after `command`.
    pub(super) fn better(self, command: Option<String>) -> Self {
        Self { verdict: Verdict::Better, command, ..self }
    }

    /// Breaks a promise, until `command` mends it.
    pub(super) fn bad(self, command: Option<String>) -> Self {
        Self { verdict: Verdict::Bad, command, ..self }
    }

    /// For machines.
    pub(super) fn json(&self) -> Value {
        let (device, peer) = match &self.subject {
            Subject::Device(name) => (Some(name), None),
            Subject::Path(name) => (None, Some(name)),
            _ => (None, None),
        };
        json!({
            "group": self.subject.group(),
            "device": device,
            "peer": peer,
            "name": self.name,
            "value": self.value,
            "data": self.data,
            "available": !self.unavailable,
            "verdict": self.verdict.words(),
            "why": self.why,
            "command": self.command,
        })
    }
}
