//! A finding: a fact about the host, a verdict on its value for event building, the reason, and a
//! remedy.

use serde_json::{Value, json};

use evb_net::host::Unavailable;

/// The verdict on a fact's value for event building.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Verdict {
    /// Nothing needs to be done.
    Good,
    /// The fact is unknown, or no verdict follows from it.
    Unknown,
    /// evb works with this fact, and would work better after a change.
    Better,
    /// evb cannot work reliably because of this fact.
    Bad,
}

impl Verdict {
    /// Returns the verdict in words.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Unknown => "unknown",
            Self::Better => "could be better",
            Self::Bad => "bad",
        }
    }
}

/// The subject of a finding.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Subject {
    /// The host as a whole.
    Host,
    /// The sockets of this host.
    Sockets,
    /// A network device.
    Device(String),
    /// The network path to a peer.
    Path(String),
    /// The fit between this host and the configuration.
    Configuration,
}

impl Subject {
    /// Returns the name of the group that contains findings on this subject in the text and in
    /// JSON.
    pub(super) fn group(&self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Sockets => "sockets",
            Self::Device(_) => "device",
            Self::Path(_) => "path",
            Self::Configuration => "configuration",
        }
    }

    /// Returns the name of the device or of the peer; `None` for other subjects.
    pub(super) fn name(&self) -> Option<&str> {
        match self {
            Self::Device(name) | Self::Path(name) => Some(name),
            _ => None,
        }
    }
}

/// A fact about the host, with its verdict, the reason and a remedy.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Finding {
    /// Subject of the finding.
    pub(super) subject: Subject,
    /// Name of the fact, equal in text and JSON.
    pub(super) name: &'static str,
    /// The fact as text for people.
    pub(super) value: String,
    /// The fact as JSON for machines.
    pub(super) data: Value,
    /// Verdict on the fact's value for event building.
    pub(super) verdict: Verdict,
    /// Reason why the fact matters for event building.
    pub(super) why: String,
    /// Shell command that improves the fact; `None` if no command can.
    pub(super) command: Option<String>,
    /// True if the fact could not be read.
    pub(super) unavailable: bool,
}

impl Finding {
    /// Creates a finding without a verdict; `why` is the reason why the fact matters.
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

    /// Creates a finding for a fact that could not be read.
    pub(super) fn missing(
        subject: Subject,
        name: &'static str,
        reason: &Unavailable,
        why: impl Into<String>,
    ) -> Self {
        let value = format!("not available: {reason}");
        Self { unavailable: true, ..Self::new(subject, name, value, why) }
    }

    /// Adds the fact as JSON for machines.
    pub(super) fn data(self, data: Value) -> Self {
        Self { data, ..self }
    }

    /// Sets the verdict that nothing needs to be done.
    pub(super) fn good(self) -> Self {
        Self { verdict: Verdict::Good, ..self }
    }

    /// Sets the verdict that evb works, and would work better after `command`.
    pub(super) fn better(self, command: Option<String>) -> Self {
        Self { verdict: Verdict::Better, command, ..self }
    }

    /// Sets the verdict that evb cannot work reliably until `command` changes the fact.
    pub(super) fn bad(self, command: Option<String>) -> Self {
        Self { verdict: Verdict::Bad, command, ..self }
    }

    /// Returns the finding as JSON.
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
