//! What is written down before it acts, so that another supervisor can go on with the run.

pub(super) use crate::wire::journal::What;

/// Ascending or not: first, then differences, modulo 2^64.
pub(super) fn differences(values: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut last = 0u64;
    values.map(|value| value.wrapping_sub(core::mem::replace(&mut last, value))).collect()
}

/// The opposite of [`differences`].
pub(super) fn sums(differences: &[u64]) -> impl Iterator<Item = u64> {
    let mut sum = 0u64;
    differences.iter().map(move |difference| {
        sum = sum.wrapping_add(*difference);
        sum
    })
}
