//! [`LinkPlan`]: how traffic classes share a host's link, as configured and checked.

use evb_core::{index::ClassIndex, units::Rate};

use crate::pace::Pace;

/// The class of a source's connection to the supervisor; its lanes are in the first.
pub const CONTROL_CLASS: ClassIndex = ClassIndex::new(1);

/// A traffic class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Class {
    /// Name in configurations and reports.
    pub name: String,
    /// Rate that it gets at any load of the others. With `None`, it is a hundredth of the link, so
    /// that no class starves.
    pub guaranteed: Option<Rate>,
    /// Rate that it never exceeds, even on an idle link. `None` stands for the link's.
    pub ceiling: Option<Rate>,
    /// Rank in serving the rate that the guarantees leave: lower numbers before higher ones, equals
    /// in the ratio of their guarantees.
    pub priority: u8,
}

/// A link, and the classes that share it. Rates count the bytes that the link's counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkPlan {
    link: Option<Pace>,
    classes: Vec<PlannedClass>,
}

/// A class whose rates are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PlannedClass {
    pub(crate) name: String,
    pub(crate) guaranteed: Rate,
    pub(crate) ceiling: Option<Rate>,
    pub(crate) priority: u8,
}

/// Reason why classes cannot share a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkPlanError {
    /// There is no class.
    NoClass,
    /// More is guaranteed than there is.
    Overcommitted {
        /// Σ of the guarantees, a hundredth of the link for each class that states none.
        guaranteed: Rate,
        /// Rate of the link.
        link: Rate,
    },
    /// A class is promised more than it may take.
    AboveCeiling {
        /// Name of the class.
        class: String,
        /// Its guarantee.
        guaranteed: Rate,
        /// Its ceiling.
        ceiling: Rate,
    },
}

impl core::fmt::Display for LinkPlanError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::NoClass => write!(f, "the link has no traffic class; it needs at least one"),
            Self::Overcommitted { guaranteed, link } => write!(
                f,
                "the guaranteed rates of the classes add up to {guaranteed}, but the link carries only {link} (a class \
                 without a guaranteed rate counts a hundredth of the link): lower them"
            ),
            Self::AboveCeiling { class, guaranteed, ceiling } => write!(
                f,
                "class `{class}` is guaranteed {guaranteed} and may take at most {ceiling}: raise its ceiling or lower its guarantee"
            ),
        }
    }
}

impl core::error::Error for LinkPlanError {}

/// Guarantee of a class that states none, in hundredths of the link.
const LEAST_HUNDREDTHS: u64 = 1;

impl LinkPlan {
    /// Returns a plan without a limit, with one class.
    pub fn unlimited() -> Self {
        let all = PlannedClass {
            name: "data".to_owned(),
            guaranteed: Rate::from_bits_per_second(u64::MAX),
            ceiling: None,
            priority: 0,
        };
        Self { link: None, classes: vec![all] }
    }

    /// Classes on a link of that rate; its burst pays for the executor's lateness.
    ///
    /// # Errors
    /// [`LinkPlanError`]: guarantees that cannot be kept.
    pub fn new(link: Pace, classes: Vec<Class>) -> Result<Self, LinkPlanError> {
        let least = Rate::from_bits_per_second(link.rate.bits_per_second() / 100 * LEAST_HUNDREDTHS);
        let planned = classes.into_iter().map(|class| {
            let Class { name, guaranteed, ceiling, priority } = class;
            let usual = ceiling.map_or(least, |ceiling| ceiling.min(least));
            PlannedClass { name, guaranteed: guaranteed.unwrap_or(usual), ceiling, priority }
        });
        let classes: Vec<_> = planned.collect();
        let above = classes.iter().find(|class| class.ceiling.is_some_and(|top| top < class.guaranteed));
        if let Some(PlannedClass { name, guaranteed, ceiling: Some(ceiling), .. }) = above.cloned() {
            return Err(LinkPlanError::AboveCeiling { class: name, guaranteed, ceiling });
        }
        let none = Rate::from_bits_per_second(0);
        let guaranteed = classes.iter().fold(none, |sum, class| sum + class.guaranteed);
        match classes.len() {
            0 => Err(LinkPlanError::NoClass),
            _ if guaranteed > link.rate => Err(LinkPlanError::Overcommitted { guaranteed, link: link.rate }),
            _ => Ok(Self { link: Some(link), classes }),
        }
    }

    /// Returns the pace of the link, if it is limited.
    pub fn link(&self) -> Option<&Pace> {
        self.link.as_ref()
    }

    /// The classes' names and guarantees, in order.
    pub fn guarantees(&self) -> impl Iterator<Item = (&str, Rate)> {
        self.classes.iter().map(|class| (class.name.as_str(), class.guaranteed))
    }

    pub(crate) fn classes(&self) -> &[PlannedClass] {
        &self.classes
    }
}
