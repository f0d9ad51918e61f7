//! [`LinkPlan`]: the checked configuration of the traffic classes that share a host's link.

use evb_core::{index::ClassIndex, units::Rate};

use crate::pace::Pace;

/// The class of a source's connection to the supervisor. The source's lanes are in class 0.
pub const CONTROL_CLASS: ClassIndex = ClassIndex::new(1);

/// A traffic class of a link, as configured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Class {
    /// Name of the class in configurations and reports.
    pub name: String,
    /// Rate that the class gets at any load of the other classes. `None` stands for a hundredth of
    /// the link's rate, so that no class starves.
    pub guaranteed: Option<Rate>,
    /// Rate that the class never exceeds, even on an otherwise idle link. `None` stands for the
    /// rate of the link.
    pub ceiling: Option<Rate>,
    /// Priority in sharing the rate that the guarantees leave: lower numbers come before higher
    /// ones, and classes with equal numbers share in the ratio of their guarantees.
    pub priority: u8,
}

/// A link, and the traffic classes that share it. The rates of the classes count the same kind of
/// bytes as the link's rate.
///
/// ```
/// use evb_core::units::Rate;
/// use evb_shaper::{
///     ByteMeasure, Class, LinkPlan, Pace,
///     cost::{CELL, PacketCost},
/// };
///
/// let (cost, rate) =
///     (PacketCost::tcp(1500, CELL), Rate::from_bits_per_second(10_000_000_000));
/// let link = Pace::usual(rate, ByteMeasure::Line, &cost, None);
/// let class = |name: &str| Class { name: name.to_owned(), ..Class::default() };
/// let plan = LinkPlan::new(link, vec![class("data"), class("control")])?;
/// let guarantees: Vec<_> = plan.guarantees().map(|(_, rate)| rate.to_string()).collect();
/// assert_eq!(guarantees, ["100 Mbit/s", "100 Mbit/s"]);
/// # Ok::<(), evb_shaper::LinkPlanError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkPlan {
    link: Option<Pace>,
    classes: Vec<PlannedClass>,
}

/// A traffic class whose missing rates were filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PlannedClass {
    pub(crate) name: String,
    pub(crate) guaranteed: Rate,
    pub(crate) ceiling: Option<Rate>,
    pub(crate) priority: u8,
}

/// Reason why a configuration of traffic classes is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkPlanError {
    /// The list of classes is empty.
    NoClass,
    /// The guaranteed rates of the classes add up to more than the rate of the link.
    Overcommitted {
        /// Sum of the guaranteed rates, with a hundredth of the link for each class without a
        /// guarantee.
        guaranteed: Rate,
        /// Rate of the link.
        link: Rate,
    },
    /// The guaranteed rate of a class is above its ceiling.
    AboveCeiling {
        /// Name of the class.
        class: String,
        /// Guaranteed rate of the class.
        guaranteed: Rate,
        /// Ceiling of the class.
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

/// Guaranteed rate of a class without a configured guarantee, in hundredths of the link's rate.
const LEAST_HUNDREDTHS: u64 = 1;

impl LinkPlan {
    /// Returns a plan of one class on a link without a rate limit.
    pub fn unlimited() -> Self {
        let all = PlannedClass {
            name: "data".to_owned(),
            guaranteed: Rate::from_bits_per_second(u64::MAX),
            ceiling: None,
            priority: 0,
        };
        Self { link: None, classes: vec![all] }
    }

    /// Creates the plan of traffic classes on a link of the given pace. The burst of the pace lets
    /// the sender catch up when it is late.
    ///
    /// # Errors
    /// Returns [`LinkPlanError`] if there is no class or if the guarantees cannot be kept.
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

    /// Returns the pace of the link, if the link has a rate limit.
    pub fn link(&self) -> Option<&Pace> {
        self.link.as_ref()
    }

    /// Returns the names and guaranteed rates of the classes, in order.
    pub fn guarantees(&self) -> impl Iterator<Item = (&str, Rate)> {
        self.classes.iter().map(|class| (class.name.as_str(), class.guaranteed))
    }

    pub(crate) fn classes(&self) -> &[PlannedClass] {
        &self.classes
    }
}
