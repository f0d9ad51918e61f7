//! What the supervisor says to a builder.

use evb_core::{
    builder::RosterError,
    session::RoleFault,
    set::SourceSet,
    time::Instant,
    wire::control::{Control, Roster, control},
};

use super::{BuilderRole, LAST_WRITES};

impl BuilderRole {
    pub(super) fn handle_message(&mut self, message: Control, now: Instant) -> Result<(), RoleFault> {
        let fault = |error: RosterError| RoleFault::Roster(error.to_string());
        match message.message {
            Some(control::Message::Assignments(assignments)) => {
                self.core.handle_assignments(&assignments, now).map_err(fault)?;
                if !assignments.events.is_empty() {
                    self.attendance.go_on(now);
                }
            }
            Some(control::Message::Accounted(accounted)) => {
                self.core.handle_accounted(&accounted).map_err(fault)?;
            }
            Some(control::Message::Roster(roster)) => self.handle_roster(&roster, now)?,
            Some(control::Message::Heartbeat(heartbeat)) => self.core.handle_heartbeat(&heartbeat, now),
            Some(control::Message::Stop(_)) => self.expects_end = true,
            Some(control::Message::Finish(_)) => {
                self.finish = Some(now + LAST_WRITES);
                self.attendance.finish(now);
            }
            Some(control::Message::RunEnd(end)) => self.attendance.end(&end, now),
            // The rest is not for builders.
            _ => {}
        }
        Ok(())
    }

    pub(super) fn handle_roster(&mut self, roster: &Roster, now: Instant) -> Result<(), RoleFault> {
        let sources = self.plan.sources();
        if !roster.sources.iter().copied().eq(sources.iter().map(|source| u32::from(source.number()))) {
            return Err(RoleFault::Roster("the sources of the run have changed".to_owned()));
        }
        let index = |id: &u32| sources.binary_search_by_key(id, |source| source.number().into());
        let indices = |ids: &[u32]| {
            let found: Result<SourceSet, usize> = ids.iter().map(index).collect();
            found.map_err(|_| RoleFault::Roster("a source is expected that is not in the run".to_owned()))
        };
        let (up, awaited) = (indices(&roster.up)?, indices(&roster.awaited)?);
        self.core.handle_roster(roster.version, up, awaited, now);
        self.drop_lanes_but(up, now);
        Ok(())
    }
}
