//! The kinds of traffic that share a host's link, and their shares. They are the classes of CBQ
//! (Floyd, Jacobson 1995) as Linux's HTB has them: a guaranteed rate, a ceiling up to which a class
//! borrows what others leave, and a priority.

use std::str::FromStr;

use evb_config::{ClassEntry, ClassesConfig};
use evb_core::units::{Rate, UnitError};

/// A class's share of the link, in the bytes that tc counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Share {
    /// Rate that the class always gets.
    pub(crate) guaranteed: Rate,
    /// Rate that the class gets at most.
    pub(crate) ceiling: Rate,
    /// Order in which classes borrow; smaller numbers come first.
    pub(crate) priority: u8,
}

/// A kind of traffic that shares the link with the event data.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TrafficClass {
    /// Kind of the traffic.
    pub(crate) kind: Kind,
    /// Share of the link.
    pub(crate) share: Share,
    /// Differentiated services code points that belong to it.
    pub(crate) dscp: Vec<u8>,
    /// The `SO_PRIORITY` that belongs to it.
    pub(crate) socket_priority: Option<u32>,
}

/// The kinds of traffic besides the event data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// Traffic of supervisor and peers, grants and acknowledgements of a builder: small and urgent.
    Control,
    /// Metrics and logs: small, and may wait.
    Monitoring,
    /// All other traffic.
    Other,
}

impl Kind {
    /// Returns the word on the command line.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Control => "control",
            Self::Monitoring => "monitoring",
            Self::Other => "other",
        }
    }

    /// Returns the minor number of the kind's class.
    pub(crate) fn minor(self) -> u16 {
        match self {
            Self::Control => 3,
            Self::Monitoring => 4,
            Self::Other => 5,
        }
    }
}

/// The changes that the command line makes to a class; the rest keeps its defaults.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ClassOption {
    kind: Kind,
    guaranteed: Option<Rate>,
    ceiling: Option<Rate>,
    priority: Option<u8>,
    dscp: Option<Vec<u8>>,
    socket_priority: Option<u32>,
}

/// The reason why a text describes no class.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClassOptionError {
    /// There is no such class.
    #[error("`{0}` is not a class: write control, monitoring or other")]
    Kind(String),
    /// There is no such key, or no `=`.
    #[error("`{0}` is not one of rate=…, ceiling=…, prio=…, dscp=…, priority=…")]
    Key(String),
    /// A rate has no unit or no number.
    #[error("{0}")]
    Rate(#[from] UnitError),
    /// A number is out of its range.
    #[error("`{0}`: prio is 0 to 7, dscp is 0 to 63 (several: 46+48), priority is a number below 2^32")]
    Number(String),
}

impl FromStr for ClassOption {
    type Err = ClassOptionError;

    /// Parses `control,rate=10 Mbit/s,ceiling=50 Mbit/s,prio=0,dscp=46+48,priority=6`, where all
    /// but the first part are optional.
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

/// The shares of the data and of the other classes in a link.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sharing {
    /// Share of all event data together.
    pub(crate) data: Share,
    /// Other classes, one of each kind.
    pub(crate) classes: Vec<TrafficClass>,
}

impl Sharing {
    /// Returns the default shares. Control is guaranteed a twentieth of the link and is served
    /// first. Monitoring and other traffic have a hundredth each and come after the data, which has
    /// the rest. Network control has the code point CS6, monitoring CS2 (RFC 4594).
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

    /// Returns the shares in `[shaping.classes]`, whose rates are line bytes; `in_frames` converts
    /// them to those that tc counts.
    pub(crate) fn of_config(classes: &ClassesConfig, in_frames: impl Fn(Rate) -> Rate) -> Self {
        let share = |class: &ClassEntry| Share {
            guaranteed: in_frames(class.guaranteed),
            ceiling: in_frames(class.ceiling),
            priority: class.priority,
        };
        let class = |kind, class: &ClassEntry| TrafficClass {
            kind,
            share: share(class),
            // Unmarked packets may be of any class, so that they identify none.
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

    /// Applies the command line's changes, whose rates are `converted` to the bytes that tc counts.
    /// A class that is guaranteed more takes it from the data.
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
