//! [`decline`]: the word of a role that cannot take part in a run.

use std::time::Duration;

use evb_core::{
    session::Member,
    wire::control::{Hello, MAX_REASON},
};
use tokio::{sync::mpsc, time::timeout};

use super::{Access, AdmittedRole};

/// Time for which a role that cannot take part tries to tell the supervisor why. The supervisor may
/// start a little later than the role. A role that waits for a supervisor for a shorter time only
/// tries for that time.
const FAREWELL: Duration = Duration::from_secs(3);

/// Tells the supervisor why a role cannot take part (docs/reference/protocol.md CONN-21).
pub(crate) async fn decline(member: Member, access: Access, reason: &str) {
    // A hello without a reason is that of a role that takes part.
    let reason = if reason.is_empty() { "it gave no reason" } else { reason };
    let hello = Hello { unable: reason.chars().take(MAX_REASON).collect(), ..member.hello };
    let (_, run_ends) = mpsc::channel(1);
    let limit = FAREWELL.min(member.start_timeout);
    // The supervisor learns the reason; its answer does not matter.
    let _ = timeout(limit, AdmittedRole::join(Member { hello, ..member }, access, run_ends)).await;
}
