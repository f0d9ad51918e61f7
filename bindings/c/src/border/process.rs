//! Recognizes a child that was forked after evb had been used. evb's threads do not exist in the
//! child, and its locks may be held for ever.

use evb_rs::role::is_forked_child;

use crate::error::{Failure, evb_code, evb_fault};

/// Refuses a child that was forked after the first call of evb.
pub(super) fn check() -> Result<(), Failure> {
    if !is_forked_child() {
        return Ok(());
    }
    let reason = format!(
        "process {} was forked from a process that had called evb, and evb's threads do not exist in a forked process",
        std::process::id()
    );
    let remedy = "use evb in the parent only, or call exec() in the child";
    Err(Failure::new(evb_code::EVB_FORKED, evb_fault::EVB_FAULT_CALLER, reason, remedy))
}
