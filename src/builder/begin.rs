//! The start of a builder: joining the run, the first roster, the sink and the driver.

use std::{future::poll_fn, io, task::Poll, time::Duration};

use evb_core::{
    session::{Start, last_files, leaving},
    wire::control::Control,
};
use evb_net::{clock, host, pacing::Transport};
use evb_shaper::role::{BuilderPlan, BuilderRole, BuilderRoleConfig};
use tokio::net::TcpListener;

use super::{BuilderConfig, driver::Driver, ends, lanes::BuilderLanes};
use crate::{
    role::{self, AdmittedRole, JoinOutcome, RoleError, RunOutcome, SupervisorLink},
    sink::stage::Stage,
};

/// Time for which a supervisor listens after the end of a run.
const LISTENS: Duration = Duration::from_secs(1);

/// Runs a builder from its first roster to the end of the run.
pub(super) async fn run(
    config: BuilderConfig,
    listener: TcpListener,
    entry: AdmittedRole,
    stage: Stage,
) -> Result<RunOutcome, RoleError> {
    let (start, mut link, run_ends) = match entry.begin().await? {
        JoinOutcome::Start(start, link, run_ends) => (start, link, run_ends),
        JoinOutcome::Over(outcome) => return Ok(*outcome),
    };
    let (role, lanes) = match role_of(&config, listener, &start) {
        Ok(parts) => parts,
        Err(error) => {
            // The supervisor learns the reason.
            link.send(&Control { message: Some(leaving(&error.to_string())) });
            poll_fn(|cx| Poll::Ready(link.poll_flush(cx))).await;
            return Err(error);
        }
    };
    let mut driver = Driver::new(&config, role, link, lanes, stage, run_ends, clock::now())?;
    // The sink's thread runs already, so it does not inherit the precedence of this thread.
    if config.is_urgent() {
        match host::take_precedence() {
            Ok(how) => {
                tracing::debug!(builder = %config.id, ?how, "the builder has precedence over other programs")
            }
            Err(error) => {
                tracing::info!(builder = %config.id, %error, "this builder has no precedence over other programs, so it may be slow while this host is busy, but it loses nothing: {error}; to change that, allow its user real-time priority 1 (`LimitRTPRIO=1` in its service), or nice {}", host::PRECEDENCE);
            }
        }
    }
    let awake = role::keep_awake(config.keep_awake, config.queue_delay);
    let outcome = poll_fn(|cx| driver.poll_turn(cx)).await;
    drop(awake);
    let (stage, link) = driver.into_parts();
    close(stage, link).await;
    outcome
}

/// Waits until the sink has closed, and tells the supervisor its files, if it still listens.
async fn close(stage: Stage, mut link: SupervisorLink) {
    let Some(files) = stage.close().await else { return };
    link.send(&last_files(files));
    let flushed = poll_fn(|cx| link.poll_flushed(cx));
    // The supervisor listens for a moment only.
    let _ = tokio::time::timeout(LISTENS, flushed).await;
}

/// Returns the builder's state machine and its lanes.
fn role_of(
    config: &BuilderConfig,
    listener: TcpListener,
    start: &Start,
) -> Result<(BuilderRole, BuilderLanes), RoleError> {
    let mut plan = BuilderPlan::new(of_role(config, &listener)?, start)?;
    let sources = plan.sources().to_vec();
    let ends = ends::create(config.transport, &listener, &config.lane, plan.shaping_mut(), &sources)?;
    let role = BuilderRole::new(plan, start, clock::now())?;
    Ok((role, BuilderLanes::new(listener, sources.len(), config, ends)))
}

/// Returns the configuration of the builder's state machine.
fn of_role(config: &BuilderConfig, listener: &TcpListener) -> io::Result<BuilderRoleConfig> {
    let datagrams = config.transport == Transport::Udp;
    // An IPv6 header is 20 bytes longer than an IPv4 header (RFC 8200 §3), which leaves 20 bytes
    // less of each packet to the lane.
    let is_longer = datagrams && listener.local_addr()?.is_ipv6();
    let mtu = config.mtu.saturating_sub(if is_longer { 20 } else { 0 });
    Ok(BuilderRoleConfig {
        id: config.id,
        shaping: config.shaping.clone(),
        cost: role::packet_cost(config.transport, mtu, config.cell, config.security.is_protected()),
        rotation: config.rotation,
        queue_delay: config.queue_delay,
        memory: config.memory,
        datagrams,
    })
}
