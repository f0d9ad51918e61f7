//! Encoding of numbers in journal entries. The supervisor writes an entry before the decision takes
//! effect, so that another supervisor can continue the run.

pub(super) use crate::wire::journal::What;

/// Returns the first value, followed by the differences between consecutive values, modulo 2^64.
/// The values need not ascend.
pub(super) fn differences(values: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut last = 0u64;
    values.map(|value| value.wrapping_sub(core::mem::replace(&mut last, value))).collect()
}

/// Returns the values from which [`differences`] made these differences.
pub(super) fn sums(differences: &[u64]) -> impl Iterator<Item = u64> {
    let mut sum = 0u64;
    differences.iter().map(move |difference| {
        sum = sum.wrapping_add(*difference);
        sum
    })
}
