//! [`LinkPlan`]: the limits of the link that a source's lanes share.

use evb_core::units::Rate;

use crate::pace::Pace;

/// The limits of the link that a source's lanes share with the source's control messages.
///
/// Guarantees of rate to other classes of traffic, borrowing and priorities are the kernel's: it
/// alone sees the traffic of other programs (`evbd provision`).
///
/// ```
/// use evb_core::units::Rate;
/// use evb_shaper::{
///     ByteMeasure, LinkPlan, Pace,
///     cost::{CELL, PacketCost},
/// };
///
/// let (cost, rate) =
///     (PacketCost::tcp(1500, CELL), Rate::from_bits_per_second(10_000_000_000));
/// let plan = LinkPlan::new(Pace::usual(rate, ByteMeasure::Line, &cost, None))
///     .with_ceiling(Rate::from_bits_per_second(9_000_000_000));
/// assert_eq!(plan.ceiling().unwrap().rate.to_string(), "9 Gbit/s");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkPlan {
    link: Option<Pace>,
    ceiling: Option<Pace>,
}

impl LinkPlan {
    /// Returns the plan of a link without a rate limit.
    pub fn unlimited() -> Self {
        Self::default()
    }

    /// Creates the plan of a link of the given pace. The burst of the pace lets the sender catch up
    /// when it is late.
    pub fn new(link: Pace) -> Self {
        Self { link: Some(link), ceiling: None }
    }

    /// Sets the rate that all lanes together never exceed, even if nothing else is sent. On a link
    /// without a rate limit, the lanes have no ceiling.
    #[must_use]
    pub fn with_ceiling(self, rate: Rate) -> Self {
        Self { ceiling: self.link.map(|link| Pace { rate, ..link }), ..self }
    }

    /// Returns the pace of the link, if the link has a rate limit.
    pub fn link(&self) -> Option<&Pace> {
        self.link.as_ref()
    }

    /// Returns the pace that all lanes together never exceed, if there is one.
    pub fn ceiling(&self) -> Option<&Pace> {
        self.ceiling.as_ref()
    }
}
