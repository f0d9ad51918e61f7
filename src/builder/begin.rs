//! The start of a builder: joining the run, the first roster, the sink and the driver.

use std::{future::poll_fn, io};

use evb_net::{clock, host, pacing::Transport};
use evb_shaper::role::{BuilderPlan, BuilderRole, BuilderRoleConfig};
use tokio::{net::TcpListener, sync::mpsc};

use super::{BuilderConfig, driver::Driver, ends, lanes::Lanes};
use crate::{
    filter::Filter,
    role::{self, Beginning, Entry, RoleError, RunOutcome},
    sink::{
        RunFacts, Sink,
        stage::{self, StageOptions},
    },
};

/// Runs a builder from its first roster to the end of the run.
pub(super) async fn run<S: Sink>(
    config: BuilderConfig,
    listener: TcpListener,
    entry: Entry,
    filter: Box<dyn Filter>,
    sink: S,
    stop: mpsc::Receiver<String>,
) -> Result<RunOutcome, RoleError> {
    let (start, link) = match entry.begin().await? {
        Beginning::Start(start, link) => (start, link),
        Beginning::Over(outcome) => return Ok(*outcome),
    };
    let mut plan = BuilderPlan::new(of_role(&config, &listener)?, &start)?;
    let sources = plan.sources().to_vec();
    let (run, epoch) = (start.identity.run, start.identity.epoch);
    let facts = RunFacts { run, epoch, builder: config.id, sources: sources.clone() };
    let options = StageOptions { slots: plan.slots(), give_up: config.give_up };
    let (stage, begun) = stage::start(facts, sink, filter, options)?;
    match begun.await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => return Err(RoleError::Sink(error.to_string())),
        Err(_) => return Err(RoleError::Vanished),
    }
    let ends = ends::create(config.transport, &listener, &config.lane, plan.shaping_mut(), &sources)?;
    let now = clock::now();
    let role = BuilderRole::new(plan, &start, now)?;
    let lanes = Lanes::new(listener, sources.len(), &config, ends);
    let mut driver = Driver::new(&config, role, link, lanes, stage, stop, now)?;
    // The sink's thread runs already, so it does not inherit the precedence of this thread.
    if config.is_urgent() {
        match host::take_precedence() {
            Ok(how) => {
                tracing::debug!(builder = %config.id, ?how, "the builder has precedence over other programs")
            }
            Err(error) => {
                tracing::info!(builder = %config.id, %error, "the builder has no precedence over other programs: allow real-time priority 1, or nice {}", host::PRECEDENCE);
            }
        }
    }
    let awake = role::keep_awake(config.keep_awake, config.queue_delay);
    let outcome = poll_fn(|cx| driver.poll_turn(cx)).await;
    drop(awake);
    driver.close().await;
    outcome
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
