//! The entries that are written before they take effect, so that another supervisor can resume the
//! run.

pub(super) use crate::wire::journal::What;

/// Returns the first value, then the differences between neighbours, modulo 2^64. The values need
/// not ascend.
pub(super) fn differences(values: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut last = 0u64;
    values.map(|value| value.wrapping_sub(core::mem::replace(&mut last, value))).collect()
}

/// Reverses [`differences`].
pub(super) fn sums(differences: &[u64]) -> impl Iterator<Item = u64> {
    let mut sum = 0u64;
    differences.iter().map(move |difference| {
        sum = sum.wrapping_add(*difference);
        sum
    })
}
