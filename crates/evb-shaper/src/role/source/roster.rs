//! A source's handling of the roster, which lists the builders and their addresses.

use core::time::Duration;

use evb_core::{
    id::{BuilderId, EventId, Incarnation, Peer},
    index::LaneIndex,
    session::{Dial, RoleFault, Start, Target},
    source::{SourceCore, SourceCoreConfig},
    time::Instant,
    wire::control::{Hello, MAX_BUILDERS, Roster},
};

use super::{SourceRole, SourceRoleConfig};
use crate::paced::PacedSource;

/// The entry of a builder in the roster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Listed {
    builder: BuilderId,
    incarnation: Incarnation,
    address: String,
}

/// Creates the state machine of a source, without any fragments.
pub(super) fn paced(
    config: &SourceRoleConfig,
    start: &Start,
    now: Instant,
) -> Result<PacedSource, RoleFault> {
    let parameters = &start.registered.parameters;
    let builders: Vec<_> = listed(&start.roster)?.into_iter().map(|listed| listed.builder).collect();
    let pacing = config.paces.plan(&builders);
    let core = SourceCoreConfig {
        id: config.id,
        max_fragment: config.max_fragment,
        orphan_timeout: Duration::from_nanos(parameters.orphan_timeout_ns),
        heartbeat: Duration::from_nanos(parameters.heartbeat_ns),
        builders,
        on_demand: config.on_demand,
        decided: EventId::new(parameters.decided),
        deadline: Duration::from_nanos(parameters.deadline_ns),
        queue_delay: config.queue_delay,
        report_period: Duration::from_nanos(parameters.report_ns),
    };
    let mut core = SourceCore::new(core, now);
    if let Some(counter) = config.counter {
        core.set_counter(counter);
    }
    Ok(PacedSource::new(core, pacing))
}

/// Returns the builders of a roster in ascending order of their ids (docs/reference/protocol.md
/// RUN-3).
fn listed(roster: &Roster) -> Result<Vec<Listed>, RoleFault> {
    let mut builders = Vec::with_capacity(roster.builders.len().min(MAX_BUILDERS));
    for of_roster in &roster.builders {
        let fault = |_| {
            RoleFault::Roster(format!("its list of builders has id {}, which is above 65535", of_roster.id))
        };
        let builder = BuilderId::new(u16::try_from(of_roster.id).map_err(fault)?);
        let incarnation = Incarnation::new(of_roster.incarnation);
        builders.push(Listed { builder, incarnation, address: of_roster.listen.clone() });
    }
    builders.sort();
    let is_twice = builders.array_windows().any(|[a, b]| a.builder == b.builder);
    if builders.len() > MAX_BUILDERS || is_twice {
        return Err(RoleFault::Roster("its list of builders is too long, or names one twice".to_owned()));
    }
    Ok(builders)
}

impl SourceRole {
    /// Handles a new roster: adds, redirects and ends lanes so that they match its builders
    /// (docs/reference/protocol.md RUN-34).
    pub(super) fn handle_roster(&mut self, roster: &Roster, now: Instant) -> Result<(), RoleFault> {
        let listed = listed(roster)?;
        let builders: Vec<_> = listed.iter().map(|listed| (listed.builder, listed.incarnation)).collect();
        let paces = &self.config.paces;
        self.paced.handle_roster(&builders, |builder| paces.of(builder))?;
        let core = self.paced.core_mut();
        let is_listed = |builder| builders.binary_search_by_key(&builder, |(known, _)| *known).is_ok();
        self.lanes.retain(is_listed, |lane| core.handle_lane_disconnected(lane));
        for Listed { builder, incarnation, address } in listed {
            let Some(lane) = core.lane_index(builder) else { continue };
            if lane == LaneIndex::new(self.lanes.len()) {
                self.lanes.add(builder, incarnation, address, now);
            } else if self.lanes.aim(lane, incarnation, &address, now) {
                core.handle_lane_disconnected(lane);
            }
        }
        self.is_ready = false;
        Ok(())
    }

    /// Returns the request to connect to a lane's builder, including the greeting.
    pub(super) fn dial(&self, lane: LaneIndex) -> Dial {
        let (builder, address) = self.lanes.peer(lane);
        let hello = Hello {
            run_id: self.attendance.identity().id,
            datagrams: self.config.datagrams,
            incarnation: self.attendance.incarnation().number(),
            to_incarnation: self.lanes.incarnation(lane).number(),
            ..Hello::new(Peer::Source(self.config.id), Peer::Builder(builder))
        };
        Dial { target: Target::Lane(lane), address: address.to_owned(), hello: Box::new(hello) }
    }
}
