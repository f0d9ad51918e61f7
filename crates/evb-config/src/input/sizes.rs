//! The sizes of generated fragments.

use evb_core::units::Bytes;
use serde::Deserialize;

use crate::forms::{As, Positive, Quantity};

/// The distribution of the sizes of generated fragments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FragmentSize {
    /// All fragments have the same size.
    Fixed(Bytes),
    /// Normally distributed sizes, limited to the range from zero to `max_fragment`.
    Gaussian {
        /// Mean size.
        mean: Bytes,
        /// Standard deviation of the size.
        sigma: Bytes,
    },
    /// Log-normally distributed sizes, limited to `max_fragment`.
    LogNormal {
        /// Mean of the size itself, not of the size's logarithm.
        mean: Bytes,
        /// Standard deviation of the size itself, not of the size's logarithm.
        sigma: Bytes,
    },
}

impl FragmentSize {
    /// Returns the mean size.
    pub fn mean(self) -> Bytes {
        match self {
            Self::Fixed(size) => size,
            Self::Gaussian { mean, .. } | Self::LogNormal { mean, .. } => mean,
        }
    }

    /// Returns a size that practically no fragment exceeds: the mean plus eight standard
    /// deviations.
    pub fn most(self) -> Bytes {
        match self {
            Self::Fixed(size) => size,
            Self::Gaussian { mean, sigma } | Self::LogNormal { mean, sigma } => mean + sigma * 8,
        }
    }
}

/// The sizes of fragments: a size, or a table with a distribution.
#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(untagged))]
#[serde(rename = "text or table")]
pub(crate) enum GivenSize {
    Fixed(#[serde(with = "As::<Quantity<Bytes>>")] Bytes),
    Distributed(Distribution),
}

#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Distribution {
    /// The mean size.
    #[serde(with = "As::<Positive<Bytes>>")]
    mean: Bytes,
    /// The standard deviation of the size.
    #[serde(with = "As::<Positive<Bytes>>")]
    sigma: Bytes,
    /// The distribution of the sizes.
    ///
    /// Default: `"gaussian"`
    #[serde(default)]
    distribution: Shape,
}

#[derive(Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Shape {
    #[default]
    Gaussian,
    LogNormal,
}

impl From<GivenSize> for FragmentSize {
    fn from(size: GivenSize) -> Self {
        match size {
            GivenSize::Fixed(size) => Self::Fixed(size),
            GivenSize::Distributed(Distribution { mean, sigma, distribution }) => match distribution {
                Shape::Gaussian => Self::Gaussian { mean, sigma },
                Shape::LogNormal => Self::LogNormal { mean, sigma },
            },
        }
    }
}
