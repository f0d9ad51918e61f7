//! A finding: a fact about the host, a verdict on its value for event building, the reason, and a
//! remedy.

use serde_json::{Value, json};

use evb_net::host::Fact;

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

/// The judgement of a rule on a fact that is known.
#[derive(Clone, Debug)]
pub(super) struct Judgement {
    value: String,
    data: Value,
    verdict: Verdict,
    why: Option<String>,
    addition: String,
    command: Option<String>,
}

impl Judgement {
    /// Creates a judgement without a verdict from the fact, as text for people and as JSON for
    /// machines.
    pub(super) fn new(value: impl Into<String>, data: Value) -> Self {
        let (why, addition, command) = (None, String::new(), None);
        Self { value: value.into(), data, verdict: Verdict::Unknown, why, addition, command }
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

    /// Replaces the rule's reason why the fact matters.
    pub(super) fn because(self, why: impl Into<String>) -> Self {
        Self { why: Some(why.into()), ..self }
    }

    /// Adds to the reason why the fact matters.
    pub(super) fn also(self, addition: impl Into<String>) -> Self {
        Self { addition: addition.into(), ..self }
    }
}

impl Finding {
    /// Creates a finding; `why` is the usual reason why the fact matters. An error says why the
    /// fact could not be read.
    pub(super) fn of(
        subject: Subject,
        name: &'static str,
        why: &'static str,
        judged: Fact<Judgement>,
    ) -> Self {
        let unavailable = judged.is_err();
        let judgement = judged.unwrap_or_else(|reason| {
            Judgement::new(format!("not available, which stops no run: {reason}"), Value::Null)
        });
        let Judgement { value, data, verdict, command, .. } = judgement;
        let why = judgement.why.unwrap_or_else(|| why.to_owned()) + &judgement.addition;
        Self { subject, name, value, data, verdict, why, command, unavailable }
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
