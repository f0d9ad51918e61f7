//! [`RunStage`]: what front ends are told of a run.

/// Stage of a run, as front ends are told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RunStage {
    /// The run has not begun.
    #[default]
    Waiting,
    /// Triggers may come.
    Running,
    /// No further trigger comes; events of earlier triggers may still need fragments.
    Stopped,
}
