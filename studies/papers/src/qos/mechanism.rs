//! [`Mechanism`]: the mechanisms that enforce the rates of lanes.

use super::super::provisioned::Bucket;

/// The mechanism that enforces the rates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mechanism {
    /// evb's own timers.
    Software,
    /// Token buckets in the kernel of each source's host.
    Kernel(Bucket),
}

impl Mechanism {
    /// Returns evb's timers, and then these buckets of the kernel.
    pub(super) fn with(buckets: &[Bucket]) -> Vec<Self> {
        let kernel = buckets.iter().map(|bucket| Self::Kernel(*bucket));
        [Self::Software].into_iter().chain(kernel).collect()
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Software => "software",
            Self::Kernel(bucket) => bucket.word(),
        }
    }

    /// Returns the value of `offload` in evbd's configuration, which calls every bucket of the
    /// kernel `tbf`.
    pub(super) fn offload(self) -> &'static str {
        match self {
            Self::Software => "software",
            Self::Kernel(_) => "tbf",
        }
    }
}
