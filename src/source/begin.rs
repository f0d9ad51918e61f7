//! The start of a source: joining the run, the first roster, and the driver.

use std::future::poll_fn;

use evb_net::{clock, pacing::Transport};
use evb_shaper::role::{SourceRole, SourceRoleConfig};

use super::{Readout, SourceConfig, driver::Driver, feed::Feed, input::Outlet};
use crate::role::{self, AdmittedRole, JoinOutcome, RoleError, RunOutcome};

/// Runs a source from its first roster to the end of the run.
pub(super) async fn run(
    config: SourceConfig,
    entry: AdmittedRole,
    outlet: Outlet,
    readout: Option<Box<dyn Readout>>,
) -> Result<RunOutcome, RoleError> {
    let (start, link, run_ends) = match entry.begin().await? {
        JoinOutcome::Start(start, link, run_ends) => (start, link, run_ends),
        JoinOutcome::Over(outcome) => return Ok(*outcome),
    };
    let of_role = SourceRoleConfig {
        id: config.id,
        max_fragment: config.max_fragment,
        on_demand: readout.is_some(),
        counter: config.counter,
        datagrams: config.transport == Transport::Udp,
        queue_delay: config.queue_delay,
        paces: config.pacing.paces(config.shaping.pace(), config.cost()),
    };
    let now = clock::now();
    let mut role = SourceRole::new(of_role, &start, now)?;
    let feed = Feed::new(outlet, readout, config.front_ends.clone(), &mut role);
    let mut driver = Driver::new(&config, role, link, feed, run_ends, now)?;
    let _awake = role::keep_awake(config.keep_awake, config.queue_delay);
    poll_fn(|cx| driver.poll_turn(cx)).await
}
