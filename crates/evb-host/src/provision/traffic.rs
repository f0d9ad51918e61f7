//! The kinds of traffic that share a host's link, and their shares. The kinds of traffic are the
//! classes of CBQ (Floyd, Jacobson 1995) in the form of Linux's HTB: each has a guaranteed rate, a
//! ceiling up to which it borrows unused rate of other classes, and a priority.

use std::str::FromStr;

use evb_config::{ClassEntry, ClassesConfig};
use evb_core::units::{Rate, UnitError};

/// A class's share of the link, in bytes of L2 frames, which tc counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Share {
    /// Rate that the class always gets.
    pub(crate) guaranteed: Rate,
    /// Largest rate of the class.
    pub(crate) ceiling: Rate,
    /// Order in which classes borrow unused rate; smaller numbers come first.
    pub(crate) priority: u8,
}

/// A kind of traffic that shares the link with the event data.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TrafficClass {
    /// Kind of the traffic.
    pub(crate) kind: Kind,
    /// Share of the link.
    pub(crate) share: Share,
    /// Differentiated services code points that identify packets of this traffic.
    pub(crate) dscp: Vec<u8>,
    /// The `SO_PRIORITY` that identifies sockets of this traffic; `None`: no priority does.
    pub(crate) socket_priority: Option<u32>,
}

/// The kinds of traffic other than the event data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// Small and urgent traffic: messages between supervisor and peers, and a builder's grants and
    /// acknowledgements.
    Control,
    /// Metrics and logs: small traffic that is not urgent.
    Monitoring,
    /// All traffic of this host that is neither event data, control nor monitoring.
    Other,
}

impl Kind {
    /// Returns the word for this kind of traffic on the command line.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Control => "control",
            Self::Monitoring => "monitoring",
            Self::Other => "other",
        }
    }

    /// Returns the minor number of the class for this kind of traffic.
    pub(crate) fn minor(self) -> u16 {
        match self {
            Self::Control => 3,
            Self::Monitoring => 4,
            Self::Other => 5,
        }
    }
}

/// The changes that the command line makes to a traffic class; all other properties keep their
/// defaults.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ClassOption {
    kind: Kind,
    guaranteed: Option<Rate>,
    ceiling: Option<Rate>,
    priority: Option<u8>,
    dscp: Option<Vec<u8>>,
    socket_priority: Option<u32>,
}

/// The reason why a text is not a valid description of a class.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClassOptionError {
    /// The text names an unknown traffic class.
    #[error("`{0}` is not a class: write control, monitoring or other")]
    Kind(String),
    /// A part of the text has an unknown key, or no `=`.
    #[error("`{0}` is not a key of a class: write rate=…, ceiling=…, prio=…, dscp=… or priority=…")]
    Key(String),
    /// A rate has no unit or no number.
    #[error("{0}")]
    Rate(#[from] UnitError),
    /// A number is out of its range.
    #[error("`{0}` is out of range: write prio 0 to 7, dscp 0 to 63 (several: 46+48), priority below 2^32")]
    Number(String),
}

impl FromStr for ClassOption {
    type Err = ClassOptionError;

    /// Parses a description such as `control,rate=10 Mbit/s,ceiling=50
    /// Mbit/s,prio=0,dscp=46+48,priority=6`, where all but the first part are optional.
    fn from_str(text: &str) -> Result<Self, ClassOptionError> {
        let mut parts = text.split(',').map(str::trim);
        let name = parts.next().unwrap_or_default();
        let kinds = [Kind::Control, Kind::Monitoring, Kind::Other];
        let kind = kinds.into_iter().find(|kind| kind.word() == name);
        let mut option = Self {
            kind: kind.ok_or_else(|| ClassOptionError::Kind(name.to_owned()))?,
            guaranteed: None,
            ceiling: None,
            priority: None,
            dscp: None,
            socket_priority: None,
        };
        for part in parts {
            let number = || ClassOptionError::Number(part.to_owned());
            let (key, value) = part.split_once('=').ok_or_else(|| ClassOptionError::Key(part.to_owned()))?;
            match key.trim() {
                "rate" => option.guaranteed = Some(value.trim().parse()?),
                "ceiling" => option.ceiling = Some(value.trim().parse()?),
                "prio" => {
                    let priority = value.trim().parse().ok().filter(|priority| *priority <= 7);
                    option.priority = Some(priority.ok_or_else(number)?);
                }
                "dscp" => {
                    let point = |text: &str| text.trim().parse().ok().filter(|point| *point <= 63);
                    let points: Option<Vec<u8>> = value.split('+').map(point).collect();
                    option.dscp = Some(points.ok_or_else(number)?);
                }
                "priority" => option.socket_priority = Some(value.trim().parse().map_err(|_| number())?),
                _ => return Err(ClassOptionError::Key(part.to_owned())),
            }
        }
        Ok(option)
    }
}

/// The shares of the event data and of the other traffic classes in a link.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sharing {
    /// Share of all event data together.
    pub(crate) data: Share,
    /// Other traffic classes, one for each kind.
    pub(crate) classes: Vec<TrafficClass>,
}

impl Sharing {
    /// Returns the default shares. Control traffic is guaranteed a twentieth of the link and is
    /// served first. Monitoring and other traffic are guaranteed a hundredth each and come after
    /// the event data, which is guaranteed the rest. Control traffic has the code point CS6
    /// (network control), monitoring CS2 (RFC 4594).
    pub(crate) fn of_link(link: Rate) -> Self {
        let percent =
            |share: u64| Rate::from_bits_per_second((link.bits_per_second() / 100 * share).max(1_000));
        let class = |kind, guaranteed, ceiling, priority, dscp: &[u8]| TrafficClass {
            kind,
            share: Share { guaranteed, ceiling, priority },
            dscp: dscp.to_vec(),
            socket_priority: None,
        };
        Self {
            data: Share { guaranteed: percent(93), ceiling: link, priority: 1 },
            classes: vec![
                class(Kind::Control, percent(5), link, 0, &[48]),
                class(Kind::Monitoring, percent(1), percent(20), 2, &[16]),
                class(Kind::Other, percent(1), link, 3, &[]),
            ],
        }
    }

    /// Returns the shares in `[shaping.classes]`; `in_frames` converts their rates from line bytes
    /// to L2 frames, which tc counts.
    pub(crate) fn of_config(classes: &ClassesConfig, in_frames: impl Fn(Rate) -> Rate) -> Self {
        let share = |class: &ClassEntry| Share {
            guaranteed: in_frames(class.guaranteed),
            ceiling: in_frames(class.ceiling),
            priority: class.priority,
        };
        let class = |kind, class: &ClassEntry| TrafficClass {
            kind,
            share: share(class),
            // Unmarked packets have the code point 0, so that it does not identify a class.
            dscp: class.dscp.filter(|dscp| *dscp > 0).into_iter().collect(),
            socket_priority: class.socket_priority.filter(|priority| *priority > 0),
        };
        Self {
            data: share(&classes.data),
            classes: vec![
                class(Kind::Control, &classes.control),
                class(Kind::Monitoring, &classes.monitoring),
                class(Kind::Other, &classes.other),
            ],
        }
    }

    /// Applies the command line's changes; `converted` converts their rates to L2 frames, which tc
    /// counts. If the command line raises the guaranteed rate of a class, the guaranteed rate of
    /// the event data decreases.
    pub(crate) fn change(&mut self, options: &[ClassOption], converted: impl Fn(Rate) -> Rate) {
        for option in options {
            for class in self.classes.iter_mut().filter(|class| class.kind == option.kind) {
                let share = &mut class.share;
                share.guaranteed = option.guaranteed.map_or(share.guaranteed, &converted);
                share.ceiling = option.ceiling.map_or(share.ceiling, &converted).max(share.guaranteed);
                share.priority = option.priority.unwrap_or(share.priority);
                class.dscp = option.dscp.clone().unwrap_or_else(|| class.dscp.clone());
                class.socket_priority = option.socket_priority.or(class.socket_priority);
            }
        }
    }
}
