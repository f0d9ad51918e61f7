//! The lanes of a run that had to send most bytes again.

use core::cmp::Reverse;

use serde::Serialize;

use crate::wire::control::{PathReport, SourceReport};

/// The repetitions on the path from one source to one builder.
///
/// ```
/// use evb_core::ledger::PathSummary;
///
/// let path = |source, tcp_retransmits| {
///     PathSummary { source, builder: 2, tcp_retransmits, ..PathSummary::default() }
/// };
/// let worst = PathSummary::worst([path(1, 3), path(7, 40), path(9, 0)].into_iter());
/// assert_eq!(worst[0].source, 7, "look at the ports between source 7 and builder 2");
/// assert_eq!(worst.len(), 2, "path 9 had no repetition");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PathSummary {
    /// Id of the source.
    pub source: u16,
    /// Id of the builder.
    pub builder: u16,
    /// TCP segments that the source's kernel sent again to the builder.
    pub tcp_retransmits: u64,
    /// Lane ranges that the source sent to the builder again: lost datagrams, or bytes of a lane
    /// that connected again.
    pub resends: u64,
}

impl PathSummary {
    /// Most paths that a run's report names.
    pub const NAMED: usize = 10;

    /// Returns the paths in a source's final report. A path to an id that no builder can have is
    /// left out.
    pub fn of(source: u16, own: &SourceReport) -> impl Iterator<Item = Self> {
        own.paths.iter().filter_map(move |path| {
            let PathReport { builder, tcp_retransmits, resends } = *path;
            Some(Self { source, builder: u16::try_from(builder).ok()?, tcp_retransmits, resends })
        })
    }

    /// Returns the paths with most repetitions, at most [`NAMED`](Self::NAMED), the worst first.
    pub fn worst(paths: impl Iterator<Item = Self>) -> Vec<Self> {
        let mut worst: Vec<_> = paths.filter(|path| path.repeated() > 0).collect();
        worst.sort_unstable_by_key(|path| (Reverse(path.repeated()), path.source, path.builder));
        worst.truncate(Self::NAMED);
        worst
    }

    fn repeated(&self) -> u64 {
        self.tcp_retransmits.saturating_add(self.resends)
    }
}
