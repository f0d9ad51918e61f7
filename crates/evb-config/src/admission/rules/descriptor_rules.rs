//! The rule for file descriptors.

use super::{Objection, Weight};
use crate::admission::DescriptorSum;

/// Section at which the problem is shown: a lane to each builder takes a descriptor.
const KEY: &str = "builder";

/// Checks that no host needs more descriptors than a process may open. The limits of other hosts
/// are unknown here, so that a large number is only a warning for them.
pub(super) fn objection(sums: &[DescriptorSum]) -> Option<Objection> {
    let excess = |sum: &&DescriptorSum| sum.limit.is_some_and(|limit| sum.needed() > limit);
    let worst = sums.iter().filter(excess).max_by_key(|sum| sum.needed())?;
    Some(match &worst.host {
        // Each of several processes has a limit of its own, and checks it.
        None if worst.limit.is_some_and(|limit| worst.largest_role <= limit) => {
            Objection { weight: Weight::Risk, ..too_few(worst)? }
        }
        None => too_few(worst)?,
        Some(host) => Objection {
            key: KEY,
            weight: Weight::Risk,
            reason: format!(
                "{host} needs {}, but this machine permits {} to a process, and the limit of {host} is unknown here",
                worst.in_words(),
                worst.limit?
            ),
            remedy: format!(
                "run `ulimit -Hn` on {host}, and raise the limit if it is lower than this need (LimitNOFILE= in the unit)"
            ),
        },
    })
}

/// Returns the objection to a process that needs more descriptors than it may open.
pub(in crate::admission) fn too_few(sum: &DescriptorSum) -> Option<Objection> {
    let limit = sum.limit.filter(|limit| sum.needed() > *limit)?;
    Some(Objection {
        key: KEY,
        weight: Weight::Fatal,
        reason: format!("the roles that run here need {} in one process, which may open {limit}", sum.in_words()),
        remedy: "raise the hard limit (`ulimit -Hn`, or LimitNOFILE= in the unit), or divide the roles among several \
                 processes (`evbd run --role`), each of which checks its own"
            .to_owned(),
    })
}
